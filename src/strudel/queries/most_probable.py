"""The most probable completions of rows (MAP), and states of some columns (marginal MAP).

In:  a model, and what is given; of marginal MAP also the columns in question.
Out: the k best states that agree with it, and their log-probabilities; `MarginalMap`, a state, its
     probability, and a proven bound on that of every other state.

One deterministic component takes one walk up and one down, and a few states of some columns their
table; else a search answers.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np

from strudel._types import FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.passes import distinct_rows
from strudel.circuits.properties import why_not_deterministic
from strudel.circuits.walks import raise_if_impossible
from strudel.data.argument_checks import check_count, check_limits
from strudel.errors import SearchLimitWarning, outer_stack_level
from strudel.queries.best_states import best_states, k_best_states
from strudel.queries.by_block import lazily
from strudel.queries.cells import joint_table
from strudel.queries.given import Asked, ask, each_as_shown, find_columns
from strudel.queries.sampling import column_values, frame_like
from strudel.queries.state_bounds import Question
from strudel.queries.state_search import StateSearch
from strudel.tables.evidence import Evidence

MAX_STATES = 2**20  # of which the k best are found
FEW_STATES = 64  # that are looked at without a search


@lazily("given")
def most_probable_state(
    model: Any,
    given: Any = None,
    k: int = 1,
    *,
    max_seconds: float | None = None,
    max_nodes: int | None = None,
) -> tuple[Any, FloatArray]:
    """The k most probable completions of each row.

    Parameters
    ----------
    model : Circuit or fitted estimator
        One deterministic component answers by one walk up and down. Several components, or one that
        is not deterministic, are searched by branch and bound, which is exact.
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default: all values are to be found.
    k : int
        How many completions per row.
    max_seconds, max_nodes : optional
        Stop a search after this many seconds or partial assignments per row. What was found so far
        is returned, and a `SearchLimitWarning` says how much better another completion could be.

    Returns
    -------
    states : uint8 ndarray
        Of shape (n_rows, n_vars) for k = 1, else (n_rows, k, n_vars): best first, equally probable
        ones in the order of their values; of the last ones, a search may return any. Without the
        first axis when `given` is a single row, a dict or nothing. A frame of ``n_rows * k`` rows
        if the model was learned from a table: what is given stays as it is, and numbers are the
        median of their cell.
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
    check_count("k", k)
    limits = check_limits(max_seconds, max_nodes)
    asked = ask(model, given)
    parts = each_as_shown(asked)
    found = [_completions(own, int(k), limits) for _, own in parts]
    columns, n_rows = asked.circuit.columns, len(asked.evidence)
    log_p, upper_bound = np.empty((n_rows, k)), np.empty(n_rows)
    for (rows, _), (_, *logs) in zip(parts, found, strict=True):
        log_p[rows], upper_bound[rows] = logs
    # Where a limit stopped the search, no row may have been found, though the bound allows some.
    raise_if_impossible(np.maximum(log_p[:, 0], upper_bound))
    _warn_if_stopped(log_p, upper_bound)
    log_p = log_p[:, 0] if k == 1 else log_p
    log_p = log_p[0] if asked.is_single else log_p
    if columns.are_bits:
        [(cells, *_)] = found
        cells = cells[:, 0] if k == 1 else cells
        return (cells[0] if asked.is_single else cells).astype(np.uint8), log_p
    values: dict[str, list[Any]] = {name: [None] * n_rows * k for name in columns.names}
    for (rows, own), (cells, *_) in zip(parts, found, strict=True):
        # What is given stays, also where there are no more completions.
        known = own.evidence.is_single_cell()[:, np.newaxis]
        cells = np.where(known, own.evidence.codes[:, np.newaxis], cells)
        places = (rows[:, np.newaxis] * k + np.arange(k)).ravel().tolist()
        for name, of_column in column_values(own, cells).items():
            for place, value in zip(places, of_column, strict=True):
                values[name][place] = value
    return frame_like(given, columns, values, int(k)), log_p


def _completions(
    asked: Asked, k: int, limits: tuple[float, float]
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Cells (n_rows, k, n_columns), log-probabilities (n_rows, k), and bounds where stopped."""
    circuit, evidence = asked.circuit, asked.evidence
    codes, place = distinct_rows(evidence.codes)
    different = evidence.take(np.unique(place, return_index=True)[1])
    upper_bound = np.full(len(codes), -np.inf)
    if why_not_deterministic(circuit) is not None:
        cells, log_p, upper_bound = _search(circuit, different, k, limits)
    elif k == 1:
        cells, log_p = best_states(circuit, different)
    else:
        cells, log_p = k_best_states(circuit, different, k)
    log_more = asked.log_probability + circuit.log_total
    return cells[place], log_p[place] + log_more, upper_bound[place] + log_more


def _search(
    circuit: Circuit, evidence: Evidence, k: int, limits: tuple[float, float]
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Cells (n_rows, k, n_columns), log-probabilities (n_rows, k), and bounds where stopped."""
    cells = np.zeros((len(evidence), k, len(circuit.columns)), dtype=np.int32)
    log_p = np.full((len(evidence), k), -np.inf)
    upper_bound = np.full(len(evidence), -np.inf)
    question = Question(circuit, evidence, range(len(circuit.columns)), k)
    for row in range(len(evidence)):
        search = StateSearch(question, row)
        search.run(*limits)
        states, logs = search.states()
        cells[row, : len(states)], log_p[row, : len(states)] = states, logs
        if search.upper_bound is not None:
            upper_bound[row] = search.upper_bound
    return cells, log_p, upper_bound


def _warn_if_stopped(log_p: FloatArray, upper_bound: FloatArray) -> None:
    """Say how good the completions are where a limit stopped the search."""
    stopped = np.flatnonzero(upper_bound > log_p[:, -1])
    if len(stopped) == 0:
        return
    row, n_wanted = int(stopped[0]), log_p.shape[1]
    last = float(log_p[row, -1])
    reached = (
        f"it found fewer than {n_wanted} completions"
        if last == -math.inf
        else f"the {'best' if n_wanted == 1 else 'last'} one found has log-probability {last:.6g}"
    )
    warnings.warn(
        SearchLimitWarning(
            f"The search stopped at a limit for {len(stopped)} of {len(log_p)} rows. For row "
            f"{row}, {reached}; no other completion has more than {upper_bound[row]:.6g}. Allow "
            "more with max_seconds or max_nodes.",
            np.maximum(upper_bound, log_p[:, -1]),
        ),
        stacklevel=outer_stack_level(),
    )


class MarginalMap(NamedTuple):
    """The best state found, and how much better another one could be."""

    state: dict[Any, Any]  # the columns in question as they were named, and their values
    log_probability: float  # log p(state, given)
    upper_bound: float  # no state has a larger log-probability
    is_optimal: bool  # whether the two are equal
    n_nodes: int  # partial assignments the search had to look at; 0 if the first bound was reached


def marginal_map(
    model: Any,
    query: Any,
    given: Any = None,
    k: int = 1,
    *,
    max_seconds: float | None = None,
    max_nodes: int | None = None,
    max_states: int = MAX_STATES,
) -> MarginalMap | list[MarginalMap]:
    """The most probable state of some variables, or the k most probable, with the rest summed out.

    Exact, by one pass if the vtree puts the query variables on top, otherwise by branch and bound.
    For all variables it is the most probable state.

    Parameters
    ----------
    model : Circuit or fitted estimator
        Deterministic or not, with any number of components.
    query : name or number of a column, or several
        Those that are also given keep their value.
    given : evidence in any form, as in `probability`, of one row, optional
        Nothing is known by default.
    k : int
        How many states, such as the five most probable profiles over some columns.
    max_seconds, max_nodes : optional
        Stop the search after this many seconds or partial assignments. The result is then the best
        state so far, with a bound on all others.
    max_states : int
        With k above 1, all states of the columns are looked at; this is the limit.

    Returns
    -------
    MarginalMap, or a list of them with k above 1
        `state`, `log_probability` of the state and what is given, `upper_bound`, `is_optimal` and
        `n_nodes`. If several states are best, any one of them.

    Raises
    ------
    ValueError
        If `given` has probability zero.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> best = marginal_map(figure_1_circuit(), ["X1", "X2"], given={"X4": 1})
    >>> best.state, round(best.log_probability, 4), best.is_optimal
    ({'X1': 1, 'X2': 1}, -1.9576, True)
    >>> [best.state for best in marginal_map(figure_1_circuit(), ["X1", "X2"], k=2)]
    [{'X1': 0, 'X2': 1}, {'X1': 1, 'X2': 1}]
    """
    check_count("k", k)
    limits = check_limits(max_seconds, max_nodes)
    names = [query] if isinstance(query, str | int | np.integer) else list(query)
    places = find_columns(model, names, "query")
    [(_, asked)] = each_as_shown(ask(model, given).one_row())
    columns = asked.circuit.columns
    n_states = math.prod(columns[place].n_cells for place in places)
    if k > 1 or n_states <= min(FEW_STATES, max_states):
        best = _best_of_all(asked, names, places, int(k), max_states)
        return best if k > 1 else best[0]
    search = StateSearch(Question(asked.circuit, asked.evidence, places), 0)
    search.run(*limits)
    cells, log_p = search.states()
    raise_if_impossible(log_p if len(log_p) else np.array([-np.inf]))
    upper_bound = None
    if search.upper_bound is not None:
        upper_bound = max(search.upper_bound, float(log_p[0]))
    return _answer(asked, names, places, cells[0, places], log_p[0], upper_bound, search.n_nodes)


def _best_of_all(
    asked: Asked, names: list[Any], places: list[int], k: int, max_states: int
) -> list[MarginalMap]:
    """The k most probable combinations of cells, from the table of all of them."""
    table, log_given = joint_table(asked, places, "marginal_map", max_states)
    raise_if_impossible(np.array([log_given]))
    logs: FloatArray = table.ravel()
    order = np.argsort(-logs, kind="stable")[:k]
    cells = np.stack(np.unravel_index(order, table.shape), axis=1)
    return [
        _answer(asked, names, places, own, logs[at])
        for own, at in zip(cells, order.tolist(), strict=True)
        if logs[at] > -np.inf
    ]


def _answer(
    asked: Asked,
    names: list[Any],
    places: list[int],
    cells: Any,
    log_p: float,
    upper_bound: float | None = None,
    n_nodes: int = 0,
) -> MarginalMap:
    """What the user gets for cells of the columns: values, or the medians of cells."""
    evidence, state = asked.evidence, {}
    for name, place, cell in zip(names, places, cells.tolist(), strict=True):
        state[name] = evidence.column(place).decoded(np.array([cell]))[0]
    log_more = asked.log_probability + asked.circuit.log_total
    log_p = float(log_p) + log_more
    bound = log_p if upper_bound is None else upper_bound + log_more
    return MarginalMap(state, log_p, bound, bound == log_p, n_nodes)
