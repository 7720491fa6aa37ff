"""Models given evidence, or given an event, as models again.

In:  a circuit or mixture in normal form; a row, a dict, or an event.
Out: a `Circuit` or `Mixture` on the same vtree that gives zero to every row that contradicts the
     evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, overload

import numpy as np

from strudel._names import names_of
from strudel._types import FloatArray
from strudel.algebra.event_cases import within_regions
from strudel.algebra.event_probability import event_pairs, simple_event_of
from strudel.algebra.finer_cells import bounds_of, in_variables, with_finer_cells
from strudel.algebra.inner_bounds import conjunction_of, has_bounds
from strudel.algebra.normalize_weights import Structure, normalize_weights, zero_model
from strudel.algebra.operands import columns_of, in_normal_form
from strudel.algebra.pairs import MAX_PAIRS
from strudel.algebra.products import product_structure
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.logic.event_forms import as_event, is_formula
from strudel.logic.events import Event
from strudel.queries.arguments import given_rows
from strudel.queries.model import Model
from strudel.queries.soft_evidence import absorb, with_code
from strudel.tables.coded_rows import known_numbers

IF_ZERO = (
    "The evidence has probability zero under the model, so it cannot be conditioned on. Set "
    "some of its values to NaN."
)
IF_EVENT_ZERO = (
    "The event has probability zero under the model, so it cannot be conditioned on: no row "
    "is possible under both."
)


@overload
def condition(
    p: Circuit, given: Any, *, normalize: bool = True, max_pairs: int = MAX_PAIRS
) -> Circuit: ...
@overload
def condition(
    p: Mixture, given: Any, *, normalize: bool = True, max_pairs: int = MAX_PAIRS
) -> Mixture: ...
@overload
def condition(p: Any, given: Any, *, normalize: bool = True, max_pairs: int = MAX_PAIRS) -> Any: ...


def condition(p: Any, given: Any, *, normalize: bool = True, max_pairs: int = MAX_PAIRS) -> Any:
    """The distribution given evidence or an event, ``p(x | given)``, as a model.

    Parameters
    ----------
    p : Circuit, Mixture or fitted estimator
        In normal form.
    given : row, dict by feature name, frame of one row, or event
        A row holds 0, 1, or NaN where the value is unknown. An event is an `Event`, a string such
        as ``"a | ~b"``, a `Cnf`, `Dnf`, `Nnf` or `Sdd`, or a deterministic circuit on the same
        vtree with parameters 0 and 1 only, so that it is 1 on the rows of the event and 0
        elsewhere.
    normalize : bool
        Whether the result adds up to 1. If not, it is `p` on the rows that agree and zero on all
        others, and adds up to the probability of what is given.
    max_pairs : int
        Limit on the pairs of nodes, and of edges, of `p` and an event.

    Returns
    -------
    Circuit or Mixture
        Like `p`, over all variables, known ones included, on the same vtree, so that it can be
        compared and multiplied; `marginalize` drops some. Given an event with bounds inside cells
        that is no conjunction, its cells also meet at the bounds. Deterministic if `p` is.
        Components of a mixture for which the event is impossible are dropped.

    Raises
    ------
    ValueError
        If what is given has probability zero and `normalize` is set.
    MissingDependencyError
        If the event needs PySDD, which is not installed; see `probability`.

    Examples
    --------
    >>> from strudel import log_likelihood
    >>> from strudel.circuits import figure_1_circuit
    >>> p = condition(figure_1_circuit(), {"X3": 1})
    >>> np.exp(log_likelihood(p, [[1, 0, 1, 0]])).round(4)  # 0.0192 / 0.6
    array([0.032])
    >>> p = condition(figure_1_circuit(), "exactly(1, X1, X2)")
    >>> np.exp(log_likelihood(p, [[1, 0, 1, 0], [1, 1, 1, 0]])).round(4)
    array([0.035, 0.   ])
    """
    model = in_normal_form(p, "condition")
    if not isinstance(given, Circuit) and not is_formula(given):
        log_parts = 0.0
        if isinstance(given, Mapping):
            model, given, log_parts = absorb(model, given)
        rows, _ = given_rows(model, given)
        if len(rows) != 1:
            raise ValueError(
                "condition makes one circuit and takes one row of evidence, but got "
                f"{len(rows)}. Call it once per row."
            )
        return _at_numbers(_given_row(model, rows[0], normalize, IF_ZERO, log_parts), given)
    if not isinstance(given, Circuit):
        given = as_event(given, model.n_vars, model.feature_names)
        if has_bounds(given):
            return _given_bounds(model, given, normalize, max_pairs)
    simple = simple_event_of(model, given)
    if simple is not None and simple.low == 0 and not simple.counted:  # evidence in other words
        row = np.full(model.n_vars, np.nan)
        literals = np.array(simple.literals, dtype=np.int64)
        row[literals // 2] = literals % 2
        return _given_row(model, row, normalize, IF_EVENT_ZERO)
    found = event_pairs(model, given, "condition", max_pairs)
    if found is None:
        return _as_given(
            model, zero_model(model.vtree, model.feature_names, normalize, IF_EVENT_ZERO)
        )
    conditioned = normalize_weights(
        product_structure(found.structure, found.pairs),
        found.weights(),
        columns_of(model).log_weight,
        normalize=normalize,
        if_zero=IF_EVENT_ZERO,
    )
    return _as_given(model, conditioned)


def _given_bounds(model: Model, event: Event, normalize: bool, max_pairs: int) -> Model:
    """The model given an event with bounds inside cells; it has finer cells if need be."""
    both = conjunction_of(event, names_of(model.n_vars, model.feature_names))
    if both is None:
        finer = with_finer_cells(model, bounds_of(event), "condition")
        plain = in_variables(event, model, finer)
        found: Model = condition(finer, plain, normalize=normalize, max_pairs=max_pairs)
        return found
    inside, log_inside = within_regions(model, both.regions) if both.is_possible else (None, 0.0)
    if inside is None:
        zero = zero_model(model.vtree, model.feature_names, normalize, IF_EVENT_ZERO)
        return _as_given(model, zero)
    row = np.full(model.n_vars, np.nan)
    row[list(both.bits)] = list(both.bits.values())
    return _given_row(inside, row, normalize, IF_EVENT_ZERO, log_inside)


def _at_numbers(model: Model, given: Any) -> Model:
    """The model with columns that hold only the numbers and dates that are given."""
    code = model.table_code
    numbers = {} if code is None else known_numbers(given, code)
    at = {name: float(value[0]) for name, value in numbers.items() if not np.isnan(value[0])}
    if code is None or not at:
        return model
    columns = (
        column.at(at[column.name]) if column.name in at else column for column in code.columns
    )
    return with_code(model, replace(code, columns=tuple(columns)))


def _given_row(
    model: Model, row: FloatArray, normalize: bool, if_zero: str, log_scale: float = 0.0
) -> Model:
    """The model given a row; if it is not normalised, times the exponential of `log_scale`."""
    structure, log_theta, log_weight = columns_of(model)
    if not normalize:
        log_theta = log_theta + log_scale * (structure.edge_parent == structure.root)[:, np.newaxis]
    conditioned = normalize_weights(
        Structure.of(structure),
        log_theta,
        log_weight,
        normalize=normalize,
        if_zero=if_zero,
        row=row,
    )
    return _as_given(model, conditioned)


def _as_given(model: Model, conditioned: Mixture) -> Model:
    """The result in the form of the model: a circuit or a mixture."""
    return conditioned if isinstance(model, Mixture) else conditioned.component(0)
