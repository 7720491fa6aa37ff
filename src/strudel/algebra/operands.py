"""What the algebra takes: models that share a vtree, in normal form.

In:  circuits, mixtures or fitted estimators.
Out: circuits and mixtures, or an error that says what they lack.

Sums over rows of products split into sums over pairs of components, so mixtures take part in them.
Logs and powers of a mixture do not: `need_single` says so.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from strudel._types import FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.circuits.properties import check_properties, why_not_deterministic
from strudel.errors import CircuitPropertyError
from strudel.queries.model import Model, model_of, structure_of


class Columns(NamedTuple):
    """A model as one structure with columns of parameters; a circuit has one column."""

    structure: Circuit  # its parameters are zero only where those of all columns are
    edge_log_theta: FloatArray  # (n_edges, n_columns)
    log_weight: FloatArray  # (n_columns,)


def columns_of(model: Model) -> Columns:
    """The columns of a circuit or a mixture."""
    if isinstance(model, Mixture):
        largest = model.edge_log_theta.max(axis=1)
        return Columns(
            model.structure.with_parameters(largest), model.edge_log_theta, model.log_weight
        )
    return Columns(model, model.edge_log_theta[:, np.newaxis], np.zeros(1))


def in_normal_form(p: Any, query: str) -> Model:
    """The circuit or mixture of a model, which must be in normal form."""
    model = model_of(p)
    structure = structure_of(model)
    check_properties(structure, query, "in_normal_form")
    return model


def one_model(p: Any, query: str) -> Model:
    """The circuit or mixture of a model, in normal form; a mixture of one component is a circuit.

    Components of weight zero are left out.
    """
    model = in_normal_form(p, query)
    if isinstance(model, Mixture):
        counts = np.flatnonzero(model.log_weight > -np.inf)
        if len(counts) == 1:
            return model.component(int(counts[0]))
        if len(counts) < model.n_components:
            return Mixture(
                model.structure,
                model.edge_log_theta[:, counts],
                model.log_weight[counts],
                model.known_by(counts),
            )
    return model


def two_models(p: Any, q: Any, query: str) -> tuple[Model, Model]:
    """Two models in normal form on one vtree, with the names of either."""
    first, second = one_model(p, query), one_model(q, query)
    if first.n_vars != second.n_vars:
        raise ValueError(
            f"{query} needs two circuits over the same variables, but p has {first.n_vars} and "
            f"q has {second.n_vars}. Sum out the others with marginalize."
        )
    mine, theirs = first.feature_names, second.feature_names
    if mine is not None and theirs is not None and mine != theirs:
        var = next(var for var in range(len(mine)) if mine[var] != theirs[var])
        raise ValueError(
            f"{query} needs two circuits over the same variables, but variable {var} is "
            f"{mine[var]!r} in p and {theirs[var]!r} in q."
        )
    if first.vtree is not second.vtree and first.vtree != second.vtree:
        raise ValueError(
            f"{query} needs two circuits on one vtree, but those of p and q differ. Circuits share "
            "one when they are learned from the same rows, compiled for the same vtree, or made "
            "from one another."
        )
    if mine is None and theirs is not None:
        first = first.with_names(theirs)
    return first, second


def need_single(model: Model, what: str, function: str, hint: str = "") -> Circuit:
    """The model, which must be one deterministic circuit.

    `what` is done to it, for example "power takes a power of p", and `function`, "log" or "power",
    is why several components are refused. Raises `CircuitPropertyError`.
    """
    if isinstance(model, Mixture):
        raise CircuitPropertyError(
            f"{what}, which is a mixture of {model.n_components} components, and the {function} of "
            f"a sum over components does not split into one {function} for each. Take one "
            f"component with component(c).{hint}"
        )
    need_deterministic(model, what, hint)
    return model


def need_deterministic(circuit: Circuit, what: str, hint: str = "") -> None:
    """Raise `CircuitPropertyError` if `what` is done to a circuit that is not deterministic."""
    if not circuit.is_deterministic:
        reason = why_not_deterministic(circuit)
        raise CircuitPropertyError(
            f"{what}, which needs a deterministic circuit, but {reason}.{hint}"
        )
