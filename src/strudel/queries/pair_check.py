"""The check: where a model and rows disagree, for every pair of columns.

In:  a model and rows of its table.
Out: `Check`: for each pair a table of counts in the rows and the model's table of the same cells,
     what differs and by how much, and the pairs that the model has lost, in words.

Tables are coarse: values or cells of a column form at most eight groups, so that there are enough
rows to count. Only rows count that know both columns. Which rows do may depend on the columns
themselves, so dependence is compared after the model's table was scaled to the totals of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from strudel._display import plotting
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.data.bits import x_log_x_of
from strudel.data.validation import check_sample_weight, slices
from strudel.queries.cells import cell_probabilities
from strudel.queries.given import circuit_of, pandas_frame
from strudel.tables.column import Column
from strudel.tables.columns import date_text, duration_text
from strudel.tables.evidence import Evidence, evidence_of, nothing_known
from strudel.tables.schema import Columns

MOST_PAIRS = 2000
MOST_ROWS = 100_000
BLOCK_OF_GROUPS = 2**21  # cells of all columns given each group, in memory at a time
FEWEST_ROWS = 200  # with fewer, no pair is called lost
MOST_GROUPS = 8
SHARES = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)  # where groups of numbers meet: tails count
ROWS_OF_GROUP = 20  # so that a share of them says something
BLOCK_CELLS = 2**24  # of evidence, made at a time
COUNTED_CELLS = 5 * 10**10  # products of indicators in all tables of the rows: some seconds
LEAST_Z = 5.0
CHANCE = 0.01  # that any pair is called lost although the model is right
GAP = 0.1  # of a share, that matters in any case,
SMALL_GAP = 0.05  # or if the model knows less than half of the dependence
MOST = 1e15  # rows that a file may say it has counted
TINY = 1e-12  # share that the model gives to what it holds impossible


class PairFit(NamedTuple):
    """How well the model knows one pair of columns."""

    column_a: str
    column_b: str
    z: float  # how surely their dependence differs, in standard deviations
    mutual_information_rows: float  # in nats, less what chance adds
    mutual_information_model: float
    worst: str  # the share that differs most surely, in words


@dataclass(frozen=True, eq=False)
class Check:
    """Model against rows, for every pair of columns; made by `check`."""

    names: tuple[str, ...]  # (n_columns,)
    labels: tuple[tuple[str, ...], ...]  # (n_columns, n_groups) what each group is called
    pair_first: IntArray  # (n_pairs,) number of the first column of each pair
    pair_second: IntArray  # (n_pairs,) and of the second
    pair_rows: FloatArray  # (n_pairs, k, k) rows by group of first and second; 0 beyond groups
    pair_model: FloatArray  # (n_pairs, k, k) probabilities, which add up to one
    n_rows: int  # that were counted
    n_pairs_of_table: int  # of which the strongest are here

    def __post_init__(self) -> None:
        problem = _why_not_a_check(self)
        if problem is not None:
            raise ValueError(f"This is not a check: {problem}.")

    @cached_property
    def _facts(self) -> _Facts:
        return _compare(self)

    @property
    def z(self) -> FloatArray:
        """How surely the dependence of each pair differs, in standard deviations."""
        return self._facts.z

    @property
    def mutual_information_rows(self) -> FloatArray:
        """Of each pair in the rows, in nats, less what chance adds to it."""
        return self._facts.information_rows

    @property
    def mutual_information_model(self) -> FloatArray:
        """Of each pair in the model, in nats."""
        return self._facts.information_model

    @property
    def is_lost(self) -> AnyArray:
        """Whether the rows show a dependence that the model has lost, for each pair."""
        return self._facts.is_lost

    @cached_property
    def order(self) -> AnyArray:
        """Numbers of the pairs: lost ones first, then by `z`."""
        return np.lexsort((-np.round(self.z, 9), ~self.is_lost))

    @property
    def lost(self) -> tuple[PairFit, ...]:
        """The pairs whose dependence the rows show and the model has lost, the worst first."""
        return self.pairs()[: int(self.is_lost.sum())]

    def pairs(self) -> tuple[PairFit, ...]:
        """All pairs, the worst first."""
        return tuple(
            PairFit(
                self.names[self.pair_first[p]],
                self.names[self.pair_second[p]],
                float(self.z[p]),
                float(self.mutual_information_rows[p]),
                float(self.mutual_information_model[p]),
                self._worst(p),
            )
            for p in self.order.tolist()
        )

    def sentences(self) -> tuple[str, ...]:
        """One sentence for each lost pair."""
        return tuple(self._sentence(p) for p in self.order[: int(self.is_lost.sum())].tolist())

    def to_frame(self) -> Any:
        """A pandas frame with one row per pair, the worst first."""
        found = self.pairs()
        names = PairFit._fields
        return pandas_frame({name: [getattr(pair, name) for pair in found] for name in names})

    def plot(self, ax: Any = None) -> Any:
        """Draw the mutual information of every pair, in the model against the rows.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; pyplot's current axes by default.
        """
        return plotting("curves").plot_check(self, ax)

    def _shares(self, p: int) -> tuple[str, tuple[str, ...], int, FloatArray, FloatArray, AnyArray]:
        """About the worst share of a pair: the event, the groups given, which of them it is.

        Then the share of the event in each group, of the rows and of the model, and the rows.
        """
        facts = self._facts
        given, event = int(facts.worst_given[p]), int(facts.worst_event[p])
        first, second = int(self.pair_first[p]), int(self.pair_second[p])
        rows, model = self.pair_rows[p], self.pair_model[p]
        if facts.is_turned[p]:
            first, second, rows, model = second, first, rows.T, model.T
        n_each = rows.sum(axis=1)
        total = model.sum(axis=1)
        of_rows = rows[:, event] / np.where(n_each > 0.0, n_each, 1.0)
        of_model = model[:, event] / np.where(total > 0.0, total, 1.0)
        said = f"{self.names[second]} {self.labels[second][event]}"
        groups = tuple(f"{self.names[first]} {label}" for label in self.labels[first])
        return said, groups, given, of_rows, of_model, n_each

    def _worst(self, p: int) -> str:
        if not self.n_rows or not self.pair_rows[p].any():
            return ""
        event, groups, given, of_rows, of_model, n_each = self._shares(p)
        return (
            f"{event} given {groups[given]}: {of_rows[given]:.2f} in {n_each[given]:,.0f} rows, "
            f"{of_model[given]:.2f} in the model"
        )

    def _sentence(self, p: int) -> str:
        event, groups, given, of_rows, of_model, n_each = self._shares(p)
        counts = n_each >= ROWS_OF_GROUP
        low, high = float(of_rows[counts].min()), float(of_rows[counts].max())
        lowest, highest = float(of_model[counts].min()), float(of_model[counts].max())
        a, b = self.names[self.pair_first[p]], self.names[self.pair_second[p]]
        said = (
            f"the rows show {a} and {b} depend on each other ({event}: {low:.2f} to {high:.2f}); "
            "this model says "
        )
        if highest - lowest < 0.02:
            return f"{said}{(lowest + highest) / 2:.2f} for all"
        return (
            f"{said}{lowest:.2f} to {highest:.2f}, and {of_model[given]:.2f} instead of "
            f"{of_rows[given]:.2f} given {groups[given]}"
        )

    def __repr__(self) -> str:
        """The sizes, and the first sentences."""
        n_lost = int(self.is_lost.sum())
        lines = [f"- {sentence}" for sentence in self.sentences()[:10]]
        lines += [f"- and {n_lost - 10} more"] if n_lost > 10 else []
        return "\n".join([f"Check({self._title()})", *lines])

    def _title(self) -> str:
        n_lost = int(self.is_lost.sum())
        n_pairs, n_all = len(self.pair_first), self.n_pairs_of_table
        said = f"{n_pairs:,} pairs" if n_pairs == n_all else f"{n_pairs:,} of {n_all:,} pairs"
        return f"{said} of columns in {self.n_rows:,} rows, {n_lost or 'none'} lost"

    def _repr_html_(self) -> str:
        """The sentences, and a table of the worst pairs."""
        said = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.sentences()[:10])
        table = self.to_frame().head(10).to_html(index=False, float_format="{:.3g}".format)
        return f"<p>Check: {self._title()}</p><ul>{said}</ul>{table}"


def check(model: Any, rows: Any, *, sample_weight: Any = None) -> Check:
    """Where a model and rows disagree, for every pair of columns.

    Parameters
    ----------
    model : Circuit or fitted estimator
    rows : array-like of shape (n_rows, n_columns), frame, or list of dicts by column
        Rows to compare with, of which at most 100,000 are taken. Rows in which one of two columns
        is unknown do not count for that pair.
    sample_weight : array-like of shape (n_rows,), optional
        How often each row counts.

    Returns
    -------
    Check
        `to_frame()` has all pairs, `lost` those whose dependence the rows show and the model has
        lost, `sentences()` the same in words; `plot()` draws them. Of a table with more than 2,000
        pairs, the 2,000 with the most mutual information in the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from strudel import Strudel
    >>> from strudel.queries import check
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.integers(0, 2, (1000, 3))
    >>> model = Strudel(n_components=1, random_state=0).fit(rows)
    >>> rows[:, 2] = rows[:, 0]  # not so at fit
    >>> print(check(model, rows).sentences()[0])
    the rows show x0 and x2 depend on each other (x0 = 1: 0.00 to 1.00); this model says ...
    """
    # Late: rows of tables bring scikit-learn, which a model from a file does not need.
    from strudel.tables.encoder import dense, n_rows_of

    circuit = circuit_of(model)
    n_rows = n_rows_of(rows) if not isinstance(rows, dict | list) else len(rows)
    weight = None if sample_weight is None else check_sample_weight(sample_weight, n_rows)
    rows, weight = some_rows(dense(rows), n_rows, len(circuit.columns), weight)
    evidence = evidence_of(circuit.columns, rows, "rows")
    cells = np.column_stack([evidence.cells(place) for place in range(len(circuit.columns))])
    return check_cells(circuit, cells, weight)


def some_rows(
    X: Any, n_rows: int, n_columns: int, weight: FloatArray | None
) -> tuple[Any, FloatArray | None]:
    """At most so many rows as can be compared quickly, chosen by chance, and those that count."""
    chosen = np.arange(n_rows) if weight is None else np.flatnonzero(weight > 0.0)
    most = most_rows(n_columns)
    if len(chosen) > most:
        chosen = np.sort(np.random.default_rng(0).choice(chosen, most, replace=False))
    if len(chosen) == n_rows:
        return X, weight
    from strudel.tables.encoder import take_rows

    return take_rows(X, chosen), None if weight is None else weight[chosen]


def most_rows(n_columns: int) -> int:
    """How many rows of so many columns are compared."""
    return min(MOST_ROWS, max(1000, 8 * BLOCK_CELLS // n_columns))


def check_cells(circuit: Circuit, cells: AnyArray, weight: FloatArray | None = None) -> Check:
    """`check` of rows of the cells of the columns, NONE where a value is missing."""
    columns, places = circuit.columns, np.ascontiguousarray(cells.T)
    weight = _as_rows(np.ones(len(cells)) if weight is None else weight)
    groups = [
        _groups(column, _counts(own, weight, column.n_cells))
        for column, own in zip(columns, places, strict=True)
    ]
    first, second, tables = _strongest_pairs(places, groups, weight)
    n_columns = len(columns)
    return Check(
        columns.names,
        tuple(
            tuple(_label(column, group == g) for g in range(group.max() + 1))
            for column, group in zip(columns, groups, strict=True)
        ),
        first,
        second,
        tables,
        _model_tables(circuit, groups, first, second, tables.shape[1]),
        len(cells),
        n_columns * (n_columns - 1) // 2,
    )


def _as_rows(weight: FloatArray) -> FloatArray:
    """Weights that add up to as many rows as they are worth."""
    if not len(weight):
        return weight
    weight = weight / weight.max()  # whose squares may else be too large or too small
    return np.asarray(weight * weight.sum() / (weight**2).sum())


def _counts(places: AnyArray, weight: FloatArray, n_cells: int) -> FloatArray:
    """The weight of the rows in each cell of a column."""
    known = places != NONE
    return np.bincount(places[known], weight[known], n_cells).astype(np.float64)


def _groups(column: Column, counts: FloatArray) -> IntArray:
    """The group of every cell: neighbours of numbers, the commonest of categories and the rest."""
    if column.is_numeric or column.kind == "ordinal":
        return _neighbours(counts)
    order = np.argsort(-counts, kind="stable")
    n_alone = int((counts[order] >= ROWS_OF_GROUP).sum())
    n_cells = len(counts)
    if n_cells > 2 and n_alone < n_cells:
        n_alone = min(n_alone, MOST_GROUPS - 1)
    n_alone = max(n_alone, min(2, n_cells))
    alone = np.sort(order[: n_alone if n_alone <= MOST_GROUPS else MOST_GROUPS - 1])
    group = np.full(n_cells, len(alone), dtype=np.int32)
    group[alone] = np.arange(len(alone))
    return group


def _neighbours(counts: FloatArray) -> IntArray:
    """Groups of neighbouring cells that meet near certain shares of the rows."""
    below = np.cumsum(counts)
    total = below[-1]
    if len(counts) <= MOST_GROUPS:
        ends = list(range(len(counts) - 1))
    else:
        nearest = {int(np.argmin(np.abs(below[:-1] - share * total))) for share in SHARES}
        ends = sorted(nearest)
    kept: list[int] = []  # each group ends after this cell
    for end in ends:
        before = below[kept[-1]] if kept else 0.0
        if min(below[end] - before, total - below[end]) >= ROWS_OF_GROUP:
            kept.append(end)
    group: IntArray = np.searchsorted(kept, np.arange(len(counts)), side="left").astype(np.int32)
    return group


def _label(column: Column, is_in: AnyArray) -> str:
    """What a group of cells is called after the name of its column."""
    places = np.flatnonzero(is_in)
    first, last = int(places[0]), int(places[-1])
    if first == last and column.keys is not column.labels:  # it is one value
        return f"= {column.labels[first]}"
    if not (column.is_numeric or column.kind == "ordinal"):
        return f"= any of {len(places)} other values"
    ends: Sequence[str] = column.labels[1:]
    if column.edges:
        text: Callable[[float], str] = date_text if column.kind == "date" else "{:.6g}".format
        text = duration_text if column.dtype == "duration" else text
        ends = [text(edge) for edge in column.edges]
    low, high = ends[first - 1] if first else "", ends[last] if last < len(ends) else ""
    if low and high:
        return f"from {low} to below {high}"
    return f">= {low}" if low else f"< {high}" if high else "is known"


def _strongest_pairs(
    places: AnyArray, groups: Sequence[IntArray], weight: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """The pairs with the most mutual information beyond chance, and their tables.

    Products of indicators count all tables of many columns at once.
    """
    widths = np.array([group.max() + 1 for group in groups])
    k = int(widths.max())
    n_columns, n_rows = places.shape
    # Fewer rows choose the pairs of very wide tables.
    most = max(5000, COUNTED_CELLS // max(1, int(widths.sum()) ** 2))
    step = -(-n_rows // most) if n_columns * (n_columns - 1) // 2 > MOST_PAIRS else 1
    blocks = [range(c, min(c + 128, n_columns)) for c in range(0, n_columns, 128)]
    strongest = np.zeros(0)
    pairs, tables = np.zeros((2, 0), dtype=np.int32), np.zeros((0, k, k))
    for i, rows_block in enumerate(blocks):
        for columns_block in blocks[i:]:
            counted = _count(places, groups, weight, rows_block, columns_block, k, step)
            a, b = np.meshgrid(rows_block, columns_block, indexing="ij")
            counted = counted[a < b]
            total = np.maximum(counted.sum(axis=(1, 2)), 1.0)
            excess = _information(counted) - _freedom(counted) / (2.0 * total)
            strongest = np.concatenate([strongest, excess])
            chosen = np.sort(np.argsort(-strongest, kind="stable")[:MOST_PAIRS])
            strongest = strongest[chosen]
            pairs = np.hstack([pairs, np.stack([a, b])[:, a < b]])[:, chosen].astype(np.int32)
            tables = np.concatenate([tables, counted])[chosen]
    if step > 1:  # of the pairs that were chosen, all rows
        for c in np.unique(pairs[0]):
            mine = np.flatnonzero(pairs[0] == c)
            tables[mine] = _count(places, groups, weight, [c], pairs[1, mine].tolist(), k, 1)[0]
    return pairs[0], pairs[1], tables


def _count(
    places: AnyArray,
    groups: Sequence[IntArray],
    weight: FloatArray,
    some: Sequence[int],
    others: Sequence[int],
    k: int,
    step: int,
) -> FloatArray:
    """Tables of counts of some columns with others, `(n_some, n_others, k, k)`."""

    def indicators(columns: Sequence[int], part: slice) -> AnyArray:
        one = np.zeros((part.stop - part.start, len(columns), k), dtype=np.float32)
        for j, c in enumerate(columns):
            place = places[c, ::step][part]
            known = np.flatnonzero(place != NONE)
            one[known, j, groups[c][place[known]]] = 1.0
        return one.reshape(len(one), -1)

    n_rows = places[0, ::step].size
    found = np.zeros((len(some) * k, len(others) * k))
    # 65,536 rows, so that float32 counts them exactly.
    for part in slices(n_rows, min(2**16, max(1, BLOCK_CELLS // (len(others) * k)))):
        left = indicators(some, part) * weight[::step][part, np.newaxis].astype(np.float32)
        found += left.T @ indicators(others, part)
    return found.reshape(len(some), k, len(others), k).transpose(0, 2, 1, 3)


def _model_tables(
    circuit: Circuit, groups: Sequence[IntArray], first: IntArray, second: IntArray, k: int
) -> FloatArray:
    """The model's probability of every two groups together.

    One walk up and one down for every group of a column gives its tables with all others; few
    columns are enough for all pairs of a wide table.
    """
    tables = np.zeros((len(first), k, k))
    sums = [np.eye(k)[group] for group in groups]  # (n_cells, k) each
    n_groups = [int(group.max()) + 1 for group in groups]
    for block in _blocks(_covering(first, second, n_groups), n_groups, circuit.columns):
        evidence = _given_groups(circuit, [c for c, _ in block], groups)
        asked = [np.where(first[own] == c, second[own], first[own]) for c, own in block]
        places = np.unique(np.concatenate(asked))
        log_p, shares = cell_probabilities(circuit, evidence, places.tolist())
        start = 0
        for (c, own), others in zip(block, asked, strict=True):
            rows = slice(start, start + n_groups[c])
            start = rows.stop
            chance = np.exp(log_p[rows])[:, np.newaxis]
            for p, other in zip(own.tolist(), others.tolist(), strict=True):
                cells = shares[int(np.searchsorted(places, other))][rows]
                joint = np.nan_to_num(chance * cells) @ sums[other]  # NaN: an impossible group
                table = np.zeros((k, k))
                table[: len(joint)] = joint
                tables[p] = table if c == first[p] else table.T
    total = tables.sum(axis=(1, 2), keepdims=True)
    return np.asarray(tables / np.where(total > 0.0, total, 1.0))


def _blocks(
    covering: list[tuple[int, AnyArray]], n_groups: Sequence[int], columns: Columns
) -> Iterator[list[tuple[int, AnyArray]]]:
    """Columns whose groups are given together, as many as fit in memory."""
    most = max(1, BLOCK_OF_GROUPS // int(columns.n_cells.sum()))
    block: list[tuple[int, AnyArray]] = []
    n_rows = 0
    for c, own in covering:
        if block and n_rows + n_groups[c] > most:
            yield block
            block, n_rows = [], 0
        block.append((c, own))
        n_rows += n_groups[c]
    if block:
        yield block


def _given_groups(circuit: Circuit, places: Sequence[int], groups: Sequence[IntArray]) -> Evidence:
    """A question for each group of cells of each of some columns, whose value lies there."""
    columns = circuit.columns
    n_groups = [int(groups[place].max()) + 1 for place in places]
    evidence = nothing_known(columns, sum(n_groups))
    weights, codes = list(evidence.weights), evidence.codes.copy()
    start = 0
    for place, n in zip(places, n_groups, strict=True):
        is_in = (groups[place] == np.arange(n)[:, np.newaxis]) * 1.0
        weights[place] = np.vstack([weights[place], is_in])
        codes[start : start + n, place] = columns[place].n_cells + 1 + np.arange(n)
        start += n
    return replace(evidence, codes=codes, weights=tuple(weights))


def _covering(
    first: IntArray, second: IntArray, n_groups: Sequence[int]
) -> list[tuple[int, AnyArray]]:
    """Columns to give groups of, each with the pairs whose tables that makes, few groups in all."""
    left = np.ones(len(first), dtype=bool)
    cost = np.array(n_groups, dtype=np.float64)
    found = []
    while left.any():
        n_left = np.bincount(first[left], minlength=len(cost))
        n_left = n_left + np.bincount(second[left], minlength=len(cost))
        c = int(np.argmax(n_left / cost))
        mine = np.flatnonzero(left & ((first == c) | (second == c)))
        found.append((c, mine))
        left[mine] = False
    return found


class _Facts(NamedTuple):
    """What is computed of the tables, for each pair."""

    information_rows: FloatArray
    information_model: FloatArray
    z: FloatArray
    is_lost: AnyArray
    is_turned: AnyArray  # whether the worst share is of the first column given the second
    worst_given: IntArray  # group that is given
    worst_event: IntArray  # group whose share it is


def _compare(found: Check) -> _Facts:
    """Compare the tables of rows and model."""
    rows, model = found.pair_rows, found.pair_model
    n_pairs, k, _ = rows.shape
    total = np.maximum(rows.sum(axis=(1, 2)), 1.0)
    freedom = _freedom(rows)
    of_rows, of_model = _information(rows), _information(model)
    scaled = _scaled(model, rows)
    share = rows / total[:, np.newaxis, np.newaxis]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(rows > 0.0, share * np.log(share / np.maximum(scaled, TINY)), 0.0)
    missed = np.maximum(np.round(logs.sum(axis=(1, 2)), 12), 0.0)  # without what rounding leaves
    z = _deviations(2.0 * total * missed, freedom)
    z_rows = _deviations(2.0 * total * of_rows, freedom)
    # A share must differ from the model's as it is, and from the one after scaling.
    ways = []
    for turned in (False, True):
        counts, *tables = (
            np.swapaxes(table, 1, 2) if turned else table for table in (rows, model, scaled)
        )
        found_by = [_share_differences(counts, table) for table in tables]
        is_one_way = found_by[0][1] * found_by[1][1] > 0.0
        ways.append(
            [
                np.where(is_one_way, np.minimum(*(np.abs(way[part]) for way in found_by)), 0.0)
                for part in (0, 1)
            ]
        )
    z_share, gap = (
        np.stack(part, axis=1).reshape(n_pairs, 2 * k * k) for part in zip(*ways, strict=True)
    )
    beyond = freedom / (2.0 * total)
    with np.errstate(divide="ignore", invalid="ignore"):
        unknown = np.where(of_rows > beyond, (missed - beyond) / (of_rows - beyond), 0.0)
    least = np.where(unknown > 0.5, SMALL_GAP, GAP)
    matters = gap >= least[:, np.newaxis]
    # What matters comes first; of two values of a column the second, which is often "yes" or 1.
    score = np.round(np.where(matters, z_share + z_share.max(initial=0.0) + 1.0, z_share), 9)
    both = (rows.sum(axis=2) > 0.0)[:, :, np.newaxis] & (rows.sum(axis=1) > 0.0)[:, np.newaxis]
    is_group = np.stack([both, np.swapaxes(both, 1, 2)], axis=1).reshape(score.shape)
    score[~is_group] = -1.0  # beyond the groups of the columns
    worst = 2 * k * k - 1 - np.argmax(score[:, ::-1], axis=1)
    at = np.arange(n_pairs)
    n_tests = max(1, found.n_pairs_of_table)
    bar, bar_of_share = (
        max(LEAST_Z, -NormalDist().inv_cdf(CHANCE / (2.0 * n)))
        for n in (n_tests, n_tests * 2 * k * k)
    )
    # The whole table shows a dependence, or one share of it does, such as that of a tail.
    nothing = rows.sum(axis=2, keepdims=True) * rows.sum(axis=1, keepdims=True)
    shown = [
        _share_differences(np.swapaxes(rows, 1, a), np.swapaxes(nothing, 1, a))[0] for a in (1, 2)
    ]
    is_shown = (z_rows > bar) | (np.max(shown, axis=(0, 2, 3)) > bar_of_share)
    is_lost = is_shown & matters[at, worst] & (z_share[at, worst] > bar_of_share)
    is_lost &= total >= FEWEST_ROWS
    is_turned, given, event = np.unravel_index(worst, (2, k, k))
    return _Facts(
        np.maximum(of_rows - beyond, 0.0),
        of_model,
        z,
        is_lost,
        is_turned.astype(bool),
        given,
        event,
    )


def _information(tables: FloatArray) -> FloatArray:
    """The mutual information of tables, in nats."""
    total = tables.sum(axis=(1, 2))
    share = tables / np.where(total > 0.0, total, 1.0)[:, np.newaxis, np.newaxis]
    ends = x_log_x_of(share.sum(axis=1)).sum(axis=1) + x_log_x_of(share.sum(axis=2)).sum(axis=1)
    return np.maximum(x_log_x_of(share).sum(axis=(1, 2)) - ends, 0.0)


def _freedom(tables: FloatArray) -> FloatArray:
    """The degrees of freedom of dependence: groups that occur less one, times the same."""
    n_groups = [(tables.sum(axis=axis) > 0.0).sum(axis=1) for axis in (1, 2)]
    return np.maximum((n_groups[0] - 1.0) * (n_groups[1] - 1.0), 1.0)


def _deviations(chi_square: FloatArray, freedom: FloatArray) -> FloatArray:
    """How far a chi-squared number is above chance, in standard deviations (Wilson, Hilferty)."""
    spread = 2.0 / (9.0 * freedom)
    return np.asarray((np.cbrt(chi_square / freedom) - (1.0 - spread)) / np.sqrt(spread))


def _scaled(model: FloatArray, rows: FloatArray) -> FloatArray:
    """The model's tables, scaled in turn until their totals are those of the rows."""
    total = np.maximum(rows.sum(axis=(1, 2), keepdims=True), 1.0)
    table = np.where(rows.sum(axis=(1, 2), keepdims=True) > 0.0, model, 0.0)
    for _ in range(30):
        for axis in (1, 2):
            own = table.sum(axis=axis, keepdims=True)
            wanted = rows.sum(axis=axis, keepdims=True) / total
            table = table * np.divide(wanted, own, out=np.zeros_like(own), where=own > 0.0)
    return np.asarray(table)


def _share_differences(rows: FloatArray, model: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How surely, and by how much, shares of the second column given the first differ.

    The square of the first is twice the log-likelihood ratio of a binomial share; zero where few
    rows are in a group.
    """
    n_each = rows.sum(axis=2, keepdims=True)
    total = model.sum(axis=2, keepdims=True)
    p = rows / np.where(n_each > 0.0, n_each, 1.0)
    q = np.clip(model / np.where(total > 0.0, total, 1.0), TINY, 1.0 - TINY)
    with np.errstate(divide="ignore", invalid="ignore"):
        yes = np.where(p > 0.0, p * np.log(p / q), 0.0)
        no = np.where(p < 1.0, (1.0 - p) * np.log((1.0 - p) / (1.0 - q)), 0.0)
    is_said = (n_each >= ROWS_OF_GROUP) & (total > 0.0)
    z = np.sqrt(np.maximum(2.0 * n_each * (yes + no), 0.0))
    return np.where(is_said, z, 0.0), np.where(is_said, p - q, 0.0)


def _why_not_a_check(found: Check) -> str | None:
    """Why the parts do not fit together, or None."""
    n_pairs, n_columns = len(found.pair_first), len(found.names)
    k = found.pair_rows.shape[-1] if found.pair_rows.ndim == 3 else -1
    if (
        k < 1
        or len(found.labels) != n_columns
        or any(not 1 <= len(own) <= k for own in found.labels)
    ):
        return "every column must have at least one group, and no more than the tables"
    texts = (*found.names, *(label for own in found.labels for label in own))
    if not all(isinstance(text, str) for text in texts):
        return "names and labels must be text"
    if found.pair_second.shape != (n_pairs,) or any(
        table.shape != (n_pairs, k, k) for table in (found.pair_rows, found.pair_model)
    ):
        return "there must be two columns and two square tables for every pair"
    pairs = np.stack([found.pair_first, found.pair_second])
    if np.any(pairs < 0) or np.any(pairs >= n_columns) or np.any(pairs[0] >= pairs[1]):
        return "a pair must be of two columns in their order"
    for table in (found.pair_rows, found.pair_model):
        if not np.all((table >= 0.0) & (table < MOST)):  # NaN is neither
            return f"the tables must hold numbers from 0 to {MOST:g}"
    if found.n_rows < 0 or not n_pairs <= found.n_pairs_of_table:
        return "it must have no more pairs than the table, and a number of rows"
    return None
