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

from strudel._types import FloatArray
from strudel.algebra.evidence import absorb
from strudel.algebra.given_event import given_event
from strudel.algebra.normalize_weights import Structure, normalize_weights, zero_model
from strudel.algebra.operands import columns_of, in_normal_form
from strudel.algebra.pairs import MAX_PAIRS
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.errors import NoValueError
from strudel.logic.event_forms import is_formula
from strudel.queries.arguments import given_rows
from strudel.queries.model import Model
from strudel.queries.soft_evidence import with_code
from strudel.tables.table_code import known_numbers

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
    given : evidence in any form, as in `probability`, of one row
        Also a deterministic circuit on the same vtree with parameters 0 and 1 only, so that it is 1
        on the rows of the event and 0 elsewhere.
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
    original = model = in_normal_form(p, "condition")
    log_facts, rest = 0.0, given
    try:
        if isinstance(given, Circuit):
            found = given_event(model, given, "condition", max_pairs)
            if found is None:
                raise NoValueError(IF_EVENT_ZERO)
            model, log_facts, rest = found.model, found.log_probability, None
        elif isinstance(given, Mapping) or is_formula(given):
            model, rest, log_facts, _ = absorb(model, given, max_pairs)
    except NoValueError:
        if normalize:
            raise
        return _as_given(original, zero_model(original.vtree, original.feature_names, False, ""))
    rows, _ = given_rows(model, rest)
    if len(rows) != 1:
        raise ValueError(
            "condition makes one circuit and takes one row of evidence, but got "
            f"{len(rows)}. Call it once per row."
        )
    if_zero = IF_EVENT_ZERO if is_formula(given) else IF_ZERO
    return at_numbers(_given_row(model, rows[0], normalize, if_zero, log_facts), rest)


def at_numbers(model: Model, given: Any) -> Model:
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
        known=model.known if isinstance(model, Mixture) else None,
    )
    return _as_given(model, conditioned)


def _as_given(model: Model, conditioned: Mixture) -> Model:
    """The result in the form of the model: a circuit or a mixture."""
    return conditioned if isinstance(model, Mixture) else conditioned.component(0)
