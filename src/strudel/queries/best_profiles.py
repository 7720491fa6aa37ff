"""Marginal MAP: the most probable state of some columns, the others summed out.

In:  a model, the columns in question, and what is given.
Out: `MarginalMap`, a state, its probability, and a proven bound on that of every other state.

Where the columns have few states, the table of all of them is looked at; else a search answers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from strudel._types import FloatArray
from strudel.data.argument_checks import check_count, check_limits
from strudel.queries.cells import joint_table
from strudel.queries.given import Asked, ask, find_columns, raise_if_impossible
from strudel.queries.state_search import StateSearch
from strudel.queries.state_values import Question

MAX_STATES = 2**20  # of which the k best are found
FEW_STATES = 64  # that are looked at without a search


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
    asked = ask(model, given)
    if len(asked.evidence) != 1:
        raise ValueError(
            f"given must be one row, but has {len(asked.evidence)}. Ask for one row at a time."
        )
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
