"""The most probable completions of rows (MAP), exact for every circuit.

In:  a model, and what is given.
Out: the k best states that agree with it, and their log-probabilities.

One deterministic component takes one walk up and one down; else a search answers.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from strudel._types import AnyArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.passes import distinct_rows
from strudel.circuits.properties import why_not_deterministic
from strudel.circuits.walks import raise_if_impossible
from strudel.data.argument_checks import check_limits
from strudel.errors import SearchLimitWarning, outer_stack_level
from strudel.queries.best_states import best_states, k_best_states
from strudel.queries.by_block import lazily
from strudel.queries.given import ask
from strudel.queries.sampling import as_table
from strudel.queries.state_search import StateSearch
from strudel.queries.state_values import Question
from strudel.tables.evidence import Evidence


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
    if not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k must be a whole number, one or more, but is {k!r}.")
    limits = check_limits(max_seconds, max_nodes)
    asked = ask(model, given)
    circuit, evidence = asked.circuit, asked.evidence
    codes, first, place = _distinct(evidence)
    different = evidence.take(first)
    upper_bound = np.full(len(codes), -np.inf)
    if why_not_deterministic(circuit) is not None:
        cells, log_p, upper_bound = _search(circuit, different, int(k), limits)
    elif k == 1:
        cells, log_p = best_states(circuit, different)
    else:
        cells, log_p = k_best_states(circuit, different, int(k))
    log_more = asked.log_probability + circuit.log_total
    log_p, upper_bound = log_p[place] + log_more, upper_bound[place] + log_more
    # Where a limit stopped the search, no row may have been found, though the bound allows some.
    raise_if_impossible(np.maximum(log_p[:, 0], upper_bound))
    _warn_if_stopped(log_p, upper_bound)
    cells = cells[place]
    log_p = log_p[:, 0] if k == 1 else log_p
    log_p = log_p[0] if asked.is_single else log_p
    if not circuit.columns.are_bits:
        # What is given stays, also where there are no more completions.
        known = evidence.is_single_cell()[:, np.newaxis]
        return as_table(asked, np.where(known, evidence.codes[:, np.newaxis], cells), given), log_p
    states = cells[:, 0] if k == 1 else cells
    return (states[0] if asked.is_single else states).astype(np.uint8), log_p


def _distinct(evidence: Evidence) -> tuple[AnyArray, AnyArray, IntArray]:
    """The distinct rows of codes, a row that has each, and for each row its place among them."""
    codes, place = distinct_rows(evidence.codes)
    first = np.zeros(len(codes), dtype=np.int64)
    first[place[::-1]] = np.arange(len(place))[::-1]
    return codes, first, place


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
