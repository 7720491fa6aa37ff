"""What a fitted estimator shows in a notebook, below scikit-learn's own diagram."""

from __future__ import annotations

from typing import Any

from strudel._display import plotting


class NotebookSummary:
    """Adds sizes, a drawing and the learning curve to what scikit-learn shows of an estimator."""

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + self._summary()  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:  # what scikit-learn is set to show
            bundle["text/html"] += self._summary()
        return bundle

    def _summary(self) -> str:
        return str(plotting("notebook").summary_of(self))
