"""Drawing rows from a circuit, exactly, also given evidence.

In:  a model, how many rows, and what is known.
Out: rows in the form of the table; cells of its columns.

A component is drawn for every sample, in proportion to its posterior. One walk up gives every sum's
shares of its edges; then all samples walk down together, one vtree node at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.walks import component_logs, edge_shares, edges_at, first_node, leaf_rows, up
from strudel.data.argument_checks import RandomState, generator_from
from strudel.data.validation import slices
from strudel.queries.by_block import lazily
from strudel.queries.given import Asked, ask, component_posterior, log_mean, raise_if_impossible
from strudel.tables.columns import RawColumn
from strudel.tables.evidence import Evidence
from strudel.tables.schema import Columns

BLOCK_VALUES = 2**22  # of nodes and of different questions, in memory at a time
BLOCK_SAMPLES = 2**16


@lazily("given")
def sample(
    model: Any,
    n_samples: int = 1,
    given: Any = None,
    random_state: RandomState = None,
    *,
    missing: bool = False,
) -> Any:
    """Draw rows from the model, or complete partly known rows, exactly from `p(rest | given)`.

    Parameters
    ----------
    model : Circuit or fitted estimator
    n_samples : int
        Number of rows; per row of `given` if that is a table.
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default.
    random_state : int, numpy Generator, RandomState or None
        For lazy rows, block b draws from the seed and b: other blocks give other draws.
    missing : bool, default=False
        Whether values are missing in the rows as in the table that the model was learned from: by
        rule where a rule was found, else as often as given the column on which it depends most.

    Returns
    -------
    uint8 ndarray of shape (n_samples, n_vars)
        With an axis of rows before these, (n_rows, n_samples, n_vars), if `given` is a table. If
        the model was learned from a table, a frame of all these rows: what is given stays as
        it is, and numbers and dates are drawn from their density within their cell.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> circuit = figure_1_circuit()
    >>> rows = sample(circuit, 10000, random_state=0)
    >>> bool(abs(rows[:, 3].mean() - 0.4) < 0.02)
    True
    >>> sample(circuit, 2, given={"X1": 1, "X2": 0, "X3": 1}, random_state=0)
    array([[1, 0, 1, 0],
           [1, 0, 1, 0]], dtype=uint8)
    """
    asked = ask(model, given)
    columns = asked.circuit.columns
    if missing and columns.are_bits:
        raise ValueError(
            "missing=True draws missing values as the columns of a table have them, but this model "
            "was learned from 0 and 1, and knows of no missing values."
        )
    rng = generator_from(random_state)
    cells = draw_cells(asked.circuit, asked.evidence, n_samples, rng)
    if columns.are_bits:
        rows = cells.astype(np.uint8)
        return rows[0] if asked.is_single else rows
    return as_table(asked, cells, given, rng, with_missing=missing)


def draw_cells(circuit: Circuit, evidence: Evidence, n: int, rng: np.random.Generator) -> IntArray:
    """Cells `(n_evidence, n, n_columns)` of samples of each row of evidence."""
    if not isinstance(n, int | np.integer) or n < 0:
        raise ValueError(f"n_samples must be a whole number of rows, zero or more, but is {n!r}.")
    logs = component_logs(circuit, evidence)
    raise_if_impossible(log_mean(circuit, logs))
    n_rows, k = logs.shape
    row = np.repeat(np.arange(n_rows), n)
    out = np.empty((len(row), len(circuit.columns)), dtype=np.int32)
    last = np.cumsum(component_posterior(circuit, logs), axis=1)
    last /= last[:, -1:]
    for part in slices(len(row), BLOCK_SAMPLES):
        # One number per sample and vtree node, and one that chooses the component.
        numbers = rng.random((part.stop - part.start, circuit.vtree.n_nodes + 1))
        component = np.zeros(len(numbers), dtype=np.int64)
        if k > 1:
            component = (last[row[part]] <= numbers[:, -1:]).sum(axis=1)
        asked = np.unique(row[part] * k + component)  # questions to single components
        step = max(1, BLOCK_VALUES // (circuit.n_nodes + circuit.n_edges))
        place = np.searchsorted(asked, row[part] * k + component)
        for block in slices(len(asked), step):
            own = np.flatnonzero((place >= block.start) & (place < block.stop))
            pairs = asked[block]
            found = _draw(
                circuit, evidence, pairs // k, pairs % k, place[own] - block.start, numbers[own]
            )
            out[np.arange(part.start, part.stop)[own]] = found
    return out.reshape(n_rows, n, len(circuit.columns))


def _draw(
    circuit: Circuit,
    evidence: Evidence,
    row: AnyArray,
    component: AnyArray,
    question: AnyArray,
    numbers: FloatArray,
) -> IntArray:
    """Cells of samples; each belongs to a question, a row of evidence and a component."""
    vtree, codes = circuit.vtree, evidence.codes[row]
    rows = leaf_rows(circuit, evidence.weights)
    leaf_values = []
    for place in range(len(circuit.columns)):
        own = rows.first[slice(*circuit.column_leaves[place : place + 2])]
        leaf_values.append(
            rows.log_value[own[:, np.newaxis] + codes[:, place], component][:, :, np.newaxis]
        )
    log_theta = circuit.edge_log_theta[:, component][:, :, np.newaxis]
    values = up(circuit, leaf_values, log_theta=log_theta)
    node = np.full((vtree.n_nodes, len(question)), NONE, dtype=np.int64)  # that a sample passes
    node[vtree.root] = circuit.root
    cells = np.empty((len(question), len(circuit.columns)), dtype=np.int32)
    for v in range(vtree.n_nodes - 1, -1, -1):
        place = int(vtree.node_var[v])
        at = node[v] - first_node(circuit, v)
        if place != NONE:
            table = circuit.leaf_table(place)[at, :, component[question]]
            cells[:, place] = _choose_cells(evidence, row[question], place, table, numbers[:, v])
            continue
        shares = edge_shares(circuit, v, values, log_theta)[:, :, 0]
        edges, first = edges_at(circuit, v)
        stop = np.append(first[1:], edges.stop - edges.start)
        chosen = _choose(shares, first[at], stop[at], question, numbers[:, v]) + edges.start
        node[vtree.node_left[v]] = circuit.edge_left[chosen]
        node[vtree.node_right[v]] = circuit.edge_right[chosen]
    return cells


def _choose(
    shares: FloatArray, first: AnyArray, stop: AnyArray, question: AnyArray, number: FloatArray
) -> AnyArray:
    """One of the edges from `first` to `stop` for each sample, in proportion to its share."""
    rest, chosen = number.copy(), first.copy()
    is_open = np.ones(len(first), dtype=bool)
    for step in range(int((stop - first).max(initial=0))):
        own = np.flatnonzero(is_open & (first + step < stop))
        if not len(own):
            break
        share = shares[first[own] + step, question[own]]
        chosen[own[share > 0.0]] = first[own[share > 0.0]] + step  # rounding may leave a rest
        rest[own] -= share
        is_open[own[rest[own] < 0.0]] = False
    return chosen


def _choose_cells(
    evidence: Evidence, row: AnyArray, place: int, log_p: FloatArray, number: FloatArray
) -> AnyArray:
    """The cell of every sample from its leaf's table, weighed by what is known."""
    n_cells = evidence.columns[place].n_cells
    code = evidence.codes[row, place]
    found = code.copy()
    is_open = np.flatnonzero(code >= n_cells)
    weights = evidence.weights[place][code[is_open] - n_cells]
    chance = np.cumsum(np.exp(log_p[is_open]) * weights, axis=1)
    target = number[is_open, np.newaxis] * chance[:, -1:]
    found[is_open] = np.minimum((chance <= target).sum(axis=1), n_cells - 1)
    return found


def as_table(
    asked: Asked,
    cells: IntArray,
    given: Any,
    rng: np.random.Generator | None = None,
    *,
    with_missing: bool = False,
) -> Any:
    """Cells `(n_rows, n, n_columns)` as one frame.

    What is given stays as it was given; all else is decoded, numbers as the median of their cell,
    or with a generator as a draw from it. Rows `with_missing` values have them as the table had. A
    pandas frame keeps its index, and names of columns that are not text.
    """
    values = column_values(asked, cells, rng)
    if with_missing and rng is not None:
        known = np.repeat(asked.evidence.is_single_cell(), cells.shape[1], axis=0)
        _leave_out(asked, values, known, rng)
    return frame_like(given, asked.circuit.columns, values, cells.shape[1])


def column_values(
    asked: Asked, cells: IntArray, rng: np.random.Generator | None = None
) -> dict[str, list[Any]]:
    """The values of cells `(n_rows, n, n_columns)`, by column, see `as_table`."""
    columns, evidence = asked.circuit.columns, asked.evidence
    n_rows, n, _ = cells.shape
    values: dict[str, list[Any]] = {}
    for place, column in enumerate(columns):
        own = cells[:, :, place]
        is_cut = any(at == place for _, at in evidence.regions)
        groups = [slice(row, row + 1) for row in range(n_rows)] if is_cut else [slice(0, n_rows)]
        found: list[Any] = []
        for group in groups:
            within = evidence.column(place, group.start) if is_cut else column
            flat = own[group].ravel()
            found += within.decoded(flat) if rng is None else within.drawn(flat, rng)
        numbers = evidence.numbers.get(place)
        if numbers is not None:
            for row in np.flatnonzero(~np.isnan(numbers)).tolist():
                found[row * n : (row + 1) * n] = [column.own_value(float(numbers[row]))] * n
        values[column.name] = found
    return values


def frame_like(given: Any, columns: Columns, values: dict[str, list[Any]], n: int) -> Any:
    """Values as a frame, with the index and the names of what was given, n times each."""
    table = columns.frame(values)
    if columns.container == "pandas" and hasattr(given, "index") and hasattr(given, "columns"):
        table.index = given.index.repeat(n)
        is_named = any(isinstance(name, str) for name in given.columns)
        if not is_named and len(given.columns) == len(table.columns):
            table.columns = given.columns
    return table


def _leave_out(
    asked: Asked, values: dict[str, list[Any]], known: AnyArray, rng: np.random.Generator
) -> None:
    """Put None where drawn values are missing, as in the table; what is known stays."""
    columns = asked.circuit.columns
    raws = {}
    for column in columns:
        dtype = np.float64 if column.is_numeric else object
        raws[column.name] = RawColumn(
            column.name, column.dtype, np.array(values[column.name], dtype=dtype)
        )
    for name, is_missing in columns.missingness.draw(raws, columns.columns, rng).items():
        for row in np.flatnonzero(is_missing & ~known[:, columns.place(name)]).tolist():
            values[name][row] = None
