"""What `strudel fit --mixture` does to learn a mixture, and how it explains what it chose."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from strudel.cli.commands.score import mean_log_likelihood
from strudel.cli.console import InputError
from strudel.cli.progress import MixtureProgress
from strudel.learning.methods import EM, METHODS, Boosting, PerComponent
from strudel.learning.options import named_options

if TYPE_CHECKING:
    from strudel.io.tables import Table
    from strudel.models.mixture import StrudelMixture

NAME = "mixture"
STOPPED = {
    "patience": "validation did not improve for {patience} {steps}",
    "max_iter": "after {max_iter} {steps}, the most there may be",
    "max_seconds": "--max-seconds were over",
    "n_components": "there are as many components as asked for",
    "interrupted": "stopped early by you",
}


class Method(StrEnum):
    """How a mixture is learned."""

    em = "em"
    bagged_em = "bagged_em"
    boosting = "boosting"


class Structure(StrEnum):
    """Whether components share their structure."""

    shared = "shared"
    per_component = "per_component"


def read_wishes(
    mixture: str | None,
    method: Method | None,
    structure: Structure | None,
    splits: str | None,
    runs: int | None,
    bags: int | None,
    max_splits: int | None,
) -> dict[str, Any]:
    """Options of `StrudelMixture` from those of the command; nothing without --mixture."""
    given = {
        "--method": method,
        "--structure": structure,
        "--splits": splits,
        "--runs": runs,
        "--bags": bags,
    }
    used = [option for option, value in given.items() if value is not None]
    if mixture is None:
        if used:
            raise InputError(f"{used[0]} is for mixtures: add --mixture auto, or --mixture 20.")
        return {}
    method = method or Method.em
    if runs is not None and method is not Method.em:
        raise InputError(f"--runs goes with --method em, not with {method}.")
    if bags is not None and method is not Method.bagged_em:
        raise InputError(f"--bags goes with --method bagged_em, not with {method}.")
    structure = structure or Structure.shared
    if method is Method.boosting and structure is Structure.per_component:
        raise InputError("--method boosting needs a shared structure: leave out --structure.")
    n_splits = "auto" if splits is None else read_size(splits, "--splits", 0)
    if n_splits != "auto" and max_splits is not None:
        raise InputError("--splits says how many there are, so --max-splits has no meaning.")
    wishes = {
        "n_components": read_size(mixture, "--mixture", 1),
        "n_splits": n_splits,
        "method": method.value,
        "structure": structure.value,
        "n_runs": runs,
    }
    return wishes if bags is None else wishes | {"n_bags": bags}


def read_size(text: str, option: str, lowest: int) -> int | str:
    """A whole number, or auto."""
    if text.strip().lower() == "auto":
        return "auto"
    try:
        number = int(text)
    except ValueError:
        number = lowest - 1
    if number < lowest:
        raise InputError(
            f"{option} must be auto or a whole number of at least {lowest}, but is {text!r}."
        )
    return number


def learn(
    options: dict[str, Any], parts: dict[str, Table], is_quiet: bool, checkpoint: Any = None
) -> StrudelMixture:
    """A fitted estimator, with a live line meanwhile."""
    from strudel.models.mixture import StrudelMixture

    model = StrudelMixture(**options)
    with MixtureProgress(is_quiet) as progress:
        model.fit(
            parts["train"].X,
            X_valid=parts["valid"].X if "valid" in parts else None,
            checkpoint=checkpoint,
            callback=progress.update,
        )
    return model


def log_likelihoods(model: StrudelMixture, parts: dict[str, Table]) -> dict[str, float]:
    """Mean log-likelihood of the training, validation and, if there are any, test rows."""
    likelihood = dict(model.log_likelihoods_._asdict())
    if "test" in parts:
        likelihood["test"] = mean_log_likelihood(model, parts["test"])
    return likelihood


def options(model: StrudelMixture) -> dict[str, Any]:
    """The options of a model."""
    method = named_options("method", model.method, METHODS)
    given = dict(model.get_params(deep=False)) | method.get_params()
    return given | {
        "method": next(name for name, kind in METHODS.items() if type(method) is kind),
        "structure": "per_component" if isinstance(method, PerComponent) else "shared",
    }


def report(model: StrudelMixture) -> dict[str, Any]:
    """Size, choice and last EM steps of a fitted model."""
    mixture, history = model.mixture_, model.history_
    return {
        "n_vars": mixture.n_vars,
        "n_components": mixture.n_components,
        "n_nodes": mixture.n_nodes,
        "n_edges": mixture.n_edges,
        "n_parameters": mixture.n_parameters,
        "chosen": model.chosen_,
        "n_trials": len(model.trials_),
        "choice": explain(model),
        "n_iterations": int(history.n_iterations[-1]),
        "best_iteration": int(history.n_iterations[history.best]),
        "stopped_because": history.stopped_because,
    }


def facts(report: dict[str, Any]) -> dict[str, Any]:
    """The same in words."""
    options, because = report["options"], report["stopped_because"]
    steps = "components" if options["method"] == "boosting" else "EM steps"
    is_shared = options["structure"] == "shared"
    if not is_shared and because == "patience":
        because = "validation did not improve for 100 splits and 15 rounds"
    whose = "shared by all components" if is_shared else "of all components"
    return {
        "variables": report["n_vars"],
        "components": report["n_components"],
        "nodes": f"{report['n_nodes']:,}, {whose}",
        "edges": f"{report['n_edges']:,}, {whose}",
        "parameters": report["n_parameters"],
        "choice": report["choice"],
        "stopped": STOPPED.get(because, because).format(steps=steps, **options),
    }


def explain(model: StrudelMixture) -> str:
    """Why the mixture is as large as it is, in a sentence."""
    chosen = model.chosen_
    n_splits, size, n_runs = chosen["n_splits"], chosen["n_components"], chosen["n_runs"]
    method = named_options("method", model.method, METHODS)
    if isinstance(method, Boosting):
        size = model.mixture_.n_components  # it may have stopped before
    runs = "bag" if getattr(method, "n_bags", None) else "run"
    is_shared = not isinstance(method, PerComponent)
    words = _setting(n_splits, size, n_runs, is_shared, runs)
    last = {
        (trial.n_splits if is_shared else 0, trial.n_components): trial for trial in model.trials_
    }
    winner = last.pop((n_splits if is_shared else 0, chosen["n_components"]), None)
    if winner is None or not last:
        is_as_asked = size == model.n_components
        is_as_asked &= n_splits == model.n_splits or not is_shared
        return f"{words}, as asked" if is_as_asked else f"{words}; there was nothing to choose"
    second = max(last.values(), key=lambda trial: trial.valid)
    if winner.n_runs != n_runs or not isinstance(method, EM):  # trials only chose the setting
        tried = _setting(winner.n_splits, winner.n_components, winner.n_runs, is_shared)
        words = f"{words}, learned anew after {tried}"
    return (
        f"{words} won on validation, among {len(last) + 1} settings; next came "
        f"{_setting(second.n_splits, second.n_components, second.n_runs, is_shared)}, "
        f"{winner.valid - second.valid:.4f} nats per row behind"
    )


def _setting(
    n_splits: int, n_components: int, n_runs: int, is_shared: bool, runs: str = "run"
) -> str:
    averaged = "" if n_runs == 1 else f" x {n_runs} {runs}s"
    plural = "" if n_components == 1 else "s"
    if is_shared:
        return f"{n_components} component{plural}{averaged} on a {n_splits}-split structure"
    splits = f"{n_splits} split{'' if n_splits == 1 else 's'}"
    return f"{n_components} component{plural}{averaged}, {splits} each on average"
