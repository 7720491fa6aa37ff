"""From a model to a module of PyTorch, if that is installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from strudel.errors import MissingDependencyError
from strudel.queries.model import model_of

if TYPE_CHECKING:
    from strudel.layers.module import CircuitModule


def to_torch(model: Any, *, dtype: Any = None) -> CircuitModule:
    """A model as a PyTorch module with the same distribution.

    Its parameters are logits, normalised whenever they are used. It can be trained by itself, be a
    layer of a network, or take its parameters from one; `from_torch` of the model brings trained
    parameters back.

    Parameters
    ----------
    model : Circuit, Mixture or a fitted estimator
        Smooth and decomposable.
    dtype : torch.dtype, optional
        Of the parameters; PyTorch's default unless given.

    Returns
    -------
    CircuitModule
        With `log_prob`, `marginals`, `most_probable_state`, `sample`, `entropy` and `kl`.
    """
    if find_spec("torch") is None:
        raise MissingDependencyError("to_torch needs PyTorch: pip install 'strudel-pc[torch]'.")
    from strudel.layers.module import CircuitModule  # late: only this needs PyTorch

    return CircuitModule(model_of(model), dtype)
