"""The most probable completions of a row (MAP), exact on deterministic circuits and mixtures.

In:  a `Circuit` or a `Mixture`, and what is given.
Out: the k best states that agree with it, and their log-probabilities.

One pass up and one down answer for a circuit; a mixture needs a search.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from strudel._types import AnyArray, ByteArray, FloatArray
from strudel.algebra.evidence import Absorbed
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.circuits.passes import UNKNOWN, distinct_rows, encode
from strudel.circuits.properties import check_properties, why_not_deterministic
from strudel.circuits.scopes import BoolArray
from strudel.circuits.walks import raise_if_impossible
from strudel.errors import CircuitPropertyError, SearchLimitWarning, SizeLimitError
from strudel.queries.arguments import check_limits, given_rows
from strudel.queries.by_block import by_block
from strudel.queries.maximum.best_states import best_states, k_best_states
from strudel.queries.maximum.mixture_search import MixtureSearch
from strudel.queries.model import Model, model_of, structure_of
from strudel.queries.soft_evidence import with_commonest
from strudel.tables.table_code import known_numbers, known_values

MAX_LOOKED_THROUGH = 1024  # states of a model that was learned without respect for its code


def _joint(answer: tuple[Any, Any], facts: Absorbed) -> tuple[Any, Any]:
    """The states with their log-probabilities together with what else is given."""
    return answer[0], answer[1] + facts.log_probability


@by_block("given", with_facts=_joint)
def most_probable_state(
    model: Model,
    given: Any = None,
    k: int = 1,
    *,
    max_seconds: float | None = None,
    max_nodes: int | None = None,
) -> tuple[ByteArray, FloatArray]:
    """The k most probable completions of each row.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        In normal form, and so smooth and structured-decomposable. A circuit must be deterministic;
        a mixture is searched by branch and bound, which is exact.
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default: all values are to be found.
    k : int
        How many completions per row.
    max_seconds, max_nodes : optional
        Stop the search in a mixture after this many seconds or partial assignments per row. What
        was found so far is returned, and a `SearchLimitWarning` says how much better another
        completion could be.

    Returns
    -------
    states : uint8 ndarray
        Of shape (n_rows, n_vars) for k = 1, else (n_rows, k, n_vars): best first, equally probable
        ones in the order of their values; of the last ones, a mixture may return any. Without the
        first axis when `given` is a single row, a dict or nothing. A frame of ``n_rows * k`` rows
        if the model was learned from a table: what is given stays as it is, numbers are the
        median of their cell, rare categories of one cell the commonest of them, and only states
        that code a row count.
    log_p : ndarray
        Their joint log-probabilities with what is given; ``-inf`` past the last possible
        completion.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> state, log_p = most_probable_state(figure_1_circuit(), {"X4": 1})
    >>> state, log_p.round(4)
    (array([1, 0, 0, 1], dtype=uint8), np.float64(-2.3228))
    """
    model = model_of(model)
    if not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k must be a whole number, one or more, but is {k!r}.")
    limits = check_limits(max_seconds, max_nodes)
    structure = structure_of(model)
    check_properties(structure, "most_probable_state", "smooth", "in_normal_form")
    evidence, is_single = given_rows(model, given)
    codes, place = distinct_rows(encode(evidence))
    weighted, log_total = with_commonest(model)
    states, log_p, upper_bound = _best_rows(weighted, codes, int(k), limits)
    log_p, upper_bound = log_p + log_total, upper_bound + log_total
    # Where a limit stopped the search, no row may have been found, though the bound allows some.
    raise_if_impossible(np.maximum(log_p[:, 0], upper_bound)[place])
    _warn_if_stopped(log_p[place], upper_bound[place])
    if k == 1:
        states, log_p = states[:, 0], log_p[:, 0]
    log_p = (log_p[place].T + _log_shares_given(model, given)).T
    states, log_p = (states[0], log_p[0]) if is_single else (states[place], log_p)
    return as_table(model, states, given), log_p


def _log_shares_given(model: Model, given: Any) -> FloatArray | float:
    """What rare categories that are given weigh, against the commonest of their cell."""
    code = model.table_code
    known = {} if code is None else known_numbers(given, code)
    total: FloatArray | float = 0.0
    for name, places in known.items():
        column = code.column(name)  # type: ignore[union-attr]
        if column.is_shared:
            place = np.where(np.isnan(places), 0, places).astype(np.int64)
            share = column.value_share / column.value_share[column.commonest[column.value_cell]]
            with np.errstate(divide="ignore", invalid="ignore"):
                total = total + np.where(np.isnan(places), 0.0, np.log(share[place]))
    return total


def _best_rows(
    model: Model, codes: AnyArray, k: int, limits: tuple[float, float]
) -> tuple[ByteArray, FloatArray, FloatArray]:
    """The k best states, their log-probabilities, and bounds on all others.

    Of a model with a code, only states that code a row of the table. One that was learned without
    respect for its code makes others possible, so its best states of any kind are looked through,
    until enough of them are rows.
    """
    n_asked = k
    while True:
        if isinstance(model, Mixture):
            states, log_p, upper_bound = _search_mixture(model, codes, n_asked, *limits)
        else:
            states, log_p = _best_of_circuit(model, codes, n_asked)
            upper_bound = log_p[:, -1]
        is_row = _codes_a_row(model, codes, states) & (log_p > -np.inf)
        if n_asked == k and (is_row | (log_p == -np.inf)).all():
            return states, log_p, upper_bound
        is_stopped = upper_bound > log_p[:, -1]  # by a limit
        if ((is_row.sum(axis=1) >= k) | is_stopped | (log_p[:, -1] == -np.inf)).all():
            break
        if n_asked >= max(k, MAX_LOOKED_THROUGH):
            raise SizeLimitError(
                f"Among the {n_asked} most probable states of the 0/1 variables, fewer than {k} "
                "code a row of the table.",
                "Learn with TableEncoder(respect_one_hot=True), under which all of them do.",
                part="states",
            )
        n_asked *= 4
    order = np.argsort(~is_row, axis=1, kind="stable")[:, :k]
    states = np.take_along_axis(states, order[:, :, np.newaxis], axis=1)
    log_p = np.take_along_axis(np.where(is_row, log_p, -np.inf), order, axis=1)
    return states, log_p, np.where(is_stopped, upper_bound, log_p[:, -1])


def _codes_a_row(model: Model, codes: AnyArray, states: ByteArray) -> BoolArray:
    """Which states `(n_rows, k, n_vars)` have a codeword in every column.

    A column whose bits are given as those of no codeword stays as it is given.
    """
    is_row = np.ones(states.shape[:2], dtype=np.bool_)
    for column in model.table_code.columns if model.table_code is not None else ():
        own = slice(column.start, column.stop)
        given = codes[:, np.newaxis, own]
        is_given = ((given == column.codewords) | (given == UNKNOWN)).all(axis=2).any(axis=1)
        same = (states[:, :, np.newaxis, own] == column.codewords).all(axis=3).any(axis=2)
        is_row &= same | ~is_given[:, np.newaxis]
    return is_row


def _best_of_circuit(circuit: Circuit, codes: AnyArray, k: int) -> tuple[ByteArray, FloatArray]:
    """States (n_rows, k, n_vars) and their log-probabilities (n_rows, k)."""
    if not circuit.is_deterministic:
        raise CircuitPropertyError(
            "most_probable_state needs a deterministic circuit, but "
            f"{why_not_deterministic(circuit)}. marginal_map over all variables finds the best "
            "state of any circuit, by branch and bound."
        )
    if k > 1:
        return k_best_states(circuit, codes, k)
    states, log_p, is_tied = best_states(circuit, codes)
    states, log_p = states[:, np.newaxis], log_p[:, np.newaxis]
    if is_tied.any():
        states[is_tied], log_p[is_tied] = k_best_states(circuit, codes[is_tied], 1)
    return states, log_p


def _search_mixture(
    mixture: Mixture, codes: AnyArray, k: int, max_seconds: float, max_nodes: float
) -> tuple[ByteArray, FloatArray, FloatArray]:
    """States (n_rows, k, n_vars), log-probabilities (n_rows, k), and bounds on all others."""
    states = np.zeros((len(codes), k, mixture.n_vars), dtype=np.uint8)
    log_p = np.full((len(codes), k), -np.inf)
    upper_bound = np.full(len(codes), -np.inf)
    for row in range(len(codes)):
        search = MixtureSearch(mixture, codes[row], k)
        search.run(max_seconds, max_nodes)
        found, log_found = search.states()
        states[row, : len(found)], log_p[row, : len(found)] = found, log_found
        upper_bound[row] = search.upper_bound
    return states, log_p, upper_bound


def _warn_if_stopped(log_p: FloatArray, upper_bound: FloatArray) -> None:
    """Say how good the completions are where a limit stopped the search."""
    stopped = np.flatnonzero(upper_bound > log_p[:, -1])
    if len(stopped) == 0:
        return
    row, n_wanted = int(stopped[0]), log_p.shape[1]
    log_found = float(log_p[row, -1])
    found = (
        f"it found fewer than {n_wanted} completions"
        if log_found == -math.inf
        else f"the {'best' if n_wanted == 1 else 'last'} one found has log-probability "
        f"{log_found:.6g}"
    )
    warnings.warn(
        SearchLimitWarning(
            f"The search stopped at a limit for {len(stopped)} of {len(log_p)} rows. For row "
            f"{row}, {found}; no other completion has more than {upper_bound[row]:.6g}. Allow "
            "more with max_seconds or max_nodes.",
            upper_bound,
        ),
        stacklevel=4,
    )


def as_table(
    model: Model,
    rows: AnyArray,
    given: Any = None,
    rng: np.random.Generator | None = None,
    *,
    with_missing: bool = False,
) -> Any:
    """Rows `(n_rows, ..., n_vars)` as one frame; as they are if the model has no code.

    What is given stays as it was given; all else is decoded, numbers as the median of their cell,
    or with a generator as a draw from it. Rows `with_missing` values have them as the table had.
    A pandas frame keeps its index, and names of columns that are not text.
    """
    code = model.table_code
    if code is None:
        return rows
    flat = rows.reshape(-1, model.n_vars)
    known = {}
    for name, values in known_values(given, code).items():
        n_answers = len(flat) // len(values)  # to each row that is given
        known[name] = [value for value in values for _ in range(n_answers)]
    table = code.decode(flat, known, rng, with_missing=with_missing)
    if code.container == "pandas" and hasattr(given, "index") and hasattr(given, "columns"):
        table.index = given.index.repeat(len(table) // max(len(given), 1))
        is_named = any(isinstance(name, str) for name in given.columns)
        if not is_named and len(given.columns) == len(table.columns):
            table.columns = given.columns
    return table
