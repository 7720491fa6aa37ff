"""What a model file holds without its estimator: a circuit or mixture, and how it was learned.

In:  a model file, read so far as an `Archive`.
Out: `HeldModel`, which is all that queries and pictures need.

An estimator brings scikit-learn, which takes longer to load than most questions to answer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from strudel.circuits.mixture import Mixture
from strudel.errors import FileFormatError
from strudel.io.archive import Archive, expect
from strudel.io.model_states import READERS


class Estimator(NamedTuple):
    """Where the class of an estimator lives, and what a fitted one holds."""

    module: str
    holds: str = "model"  # a circuit or a mixture; or "predictor"

    @property
    def attribute(self) -> str:
        """Where the estimator keeps it."""
        return "predictor_" if self.holds == "predictor" else "circuit_"


ESTIMATORS = {  # nothing else is ever imported
    "Strudel": Estimator("strudel.models.strudel"),
    "RegressionCircuit": Estimator("strudel.models.predictor_circuits", "predictor"),
    "LogisticCircuit": Estimator("strudel.models.predictor_circuits", "predictor"),
    "StrudelClassifier": Estimator("strudel.models.classifier"),
    "StrudelImputer": Estimator("strudel.models.imputer"),
    "StrudelRegressor": Estimator("strudel.models.regressor"),
}


def estimator_of(name: Any) -> Estimator:
    """What is known of an estimator by the name of its class, if it is one of ours."""
    class_name = expect(name, str, "the class of the estimator")
    if class_name not in ESTIMATORS:
        raise FileFormatError(f"it holds an estimator of the unknown class {class_name!r}")
    return ESTIMATORS[class_name]


class HeldModel(NamedTuple):
    """A circuit, mixture or predictor, and what its estimator remembers."""

    kind: str  # the class that `load` would return
    model: Any
    chosen: dict[str, Any]
    history: Any  # None if there is none


def held_model(archive: Archive) -> HeldModel:
    """What is held, checked as in `load`; what only estimators have is not looked at."""
    meta = archive.meta
    if meta["kind"] != "estimator":
        model = READERS[meta["kind"]](archive)
        return HeldModel(type(model).__name__, model, {}, None)
    place = estimator_of(meta.get("class"))
    chosen = {} if meta.get("chosen") is None else expect(meta["chosen"], dict, "what was chosen")
    model = READERS[place.holds](archive)
    return HeldModel(meta["class"], model, chosen, history_from(archive, model))


def history_from(archive: Archive, model: Any) -> Any:
    """The history of a fit, None if there is none."""
    if archive.meta.get("history") is None:
        return None
    state = expect(archive.meta["history"], dict, "the history")
    from strudel.learning.history import History, MixtureHistory

    history_class = MixtureHistory if isinstance(model, Mixture) else History
    names = expect(state.get("columns"), list, "the columns of the history")
    columns = {name: archive.read_array(f"history.{name}", ("<f8", "<i8")) for name in names}
    best = expect(state.get("best"), int, "the best row of the history")
    history = history_class.from_columns(columns, best, str(state.get("stopped_because", "")))
    history.columns()  # fails now, not later, if a count is not a whole number
    return history
