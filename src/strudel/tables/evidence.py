"""Evidence: what is known of the columns, made once for every question.

In:  columns, and what is given: a row or frame with gaps, a dict of values, sets and intervals.
Out: `Evidence`: for every question and column a code, the number of a cell or of one of the
     `weights` of all cells of the column. Nothing known is the weight 1 of every cell, a set is 0
     and 1, and a bound inside a cell is the share of the cell that lies inside.

A leaf of a circuit is a table over cells; with a row for each of the weights it answers every code
by one look-up (`circuits.walks`). No query knows about bounds, sets or missing values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.data.validation import (
    check_evidence,
    check_partial,
    is_single_row,
    read_named_rows,
    read_values,
)
from strudel.errors import NoValueError
from strudel.tables.column import (
    Column,
    check_possible,
    compared_region,
    is_several,
    places_region,
    region_text,
    said_region,
    said_values,
)
from strudel.tables.columns import RawTable, is_missing, read_columns
from strudel.tables.density import EVERYWHERE, Region, meet
from strudel.tables.schema import Columns


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of the columns in each of several questions."""

    columns: Columns
    codes: IntArray  # (n_rows, n_columns): a cell, or n_cells + j for row j of the weights
    weights: tuple[FloatArray, ...]  # per column (n_weights, n_cells); the first are all 1
    numbers: dict[int, FloatArray]  # by place: numbers and dates given as such, NaN elsewhere
    regions: dict[tuple[int, int], Region]  # by (row, place): where a column is known to lie
    is_single: bool = False  # one question, whose answer has no axis of rows

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def n_rows(self) -> int:
        """Number of questions."""
        return len(self.codes)

    def is_known(self) -> AnyArray:
        """Whether something is known, `(n_rows, n_columns)`."""
        return np.asarray(self.codes != self.columns.n_cells)

    def cells(self, place: int) -> IntArray:
        """The cell that a column is known to have, NONE where several are possible."""
        own = self.codes[:, place]
        return np.where(own < self.columns[place].n_cells, own, NONE)

    def is_single_cell(self) -> AnyArray:
        """Whether only one cell is possible, `(n_rows, n_columns)`."""
        return np.asarray(self.codes < self.columns.n_cells)

    def weights_of(self, place: int, code: int) -> FloatArray:
        """What each cell of a column weighs where it has this code."""
        n_cells = self.columns[place].n_cells
        found = np.eye(n_cells)[code] if code < n_cells else self.weights[place][code - n_cells]
        return np.asarray(found)

    def cell_weights(self, row: int, place: int) -> FloatArray:
        """What each cell of a column weighs in one question."""
        return self.weights_of(place, int(self.codes[row, place]))

    def is_possible(self, place: int) -> AnyArray:
        """Whether some cell of a column is possible, `(n_rows,)`."""
        n_cells = self.columns[place].n_cells
        has_any = np.append(np.ones(n_cells, dtype=bool), self.weights[place].any(axis=1))
        return np.asarray(has_any[self.codes[:, place]])

    def refined(self, columns: Columns) -> Evidence:
        """The same about columns of which some have more cells; a number weighs its old cell."""
        made = _Making(columns, self.n_rows, self)
        for place, (old, new) in enumerate(zip(self.columns, columns, strict=True)):
            if old.n_cells == new.n_cells:
                continue
            made.weights[place] = columns.equal_weights[place]
            parent = np.searchsorted(np.array(old.edges), [-np.inf, *new.edges], side="right")
            codes = self.codes[:, place]
            for code in np.unique(codes).tolist():
                weights = self.weights_of(place, code)[parent]
                made.codes[codes == code, place] = made._code(place, new.n_cells, weights)
            for (row, at), region in self.regions.items():
                if at == place:
                    made.codes[row, at], made.may_be_impossible = new.n_cells, True
                    del made.regions[row, at]
                    made.lie_in(row, at, region)
            numbers = self.numbers.get(place, np.full(self.n_rows, np.nan))
            known = np.flatnonzero(~np.isnan(numbers) & (codes < old.n_cells))
            child = np.searchsorted(np.array(new.edges), numbers[known], side="right")
            mass = np.bincount(parent, new.cells.cell_mass)[parent]
            for cell in np.unique(child).tolist():
                weights = np.arange(new.n_cells) == cell
                own = new.cells.cell_mass[cell]
                weights = weights * (mass[cell] / own if own > 0.0 else 1.0)
                made.codes[known[child == cell], place] = made._code(place, new.n_cells, weights)
        return made.evidence(self.is_single)

    def over_groups(self, columns: Columns) -> Evidence:
        """The same where some columns, of which nothing is known, have cells for their groups."""
        changed = np.flatnonzero(columns.n_cells != self.columns.n_cells)
        codes, weights = self.codes.copy(), list(self.weights)
        for place in changed.tolist():
            codes[:, place] = columns[place].n_cells
            weights[place] = columns.equal_weights[place]
        return replace(self, columns=columns, codes=codes, weights=tuple(weights))

    def over(self, columns: Columns) -> Evidence:
        """The same about columns with the same cells."""
        return replace(self, columns=columns)

    def among(self, columns: Columns) -> Evidence:
        """The same about more columns, of which nothing is known of the last ones."""
        more = columns.columns[len(self.columns) :]
        unknown = np.tile([column.n_cells for column in more], (self.n_rows, 1))
        weights = tuple(np.ones((1, column.n_cells)) for column in more)
        codes = np.hstack([self.codes, unknown]).astype(np.int32)
        return replace(self, columns=columns, codes=codes, weights=self.weights + weights)

    def column(self, place: int, row: int = 0) -> Column:
        """A column within what is known of it in one question."""
        column = self.columns[place]
        if place in self.numbers and not np.isnan(self.numbers[place][row]):
            return column.at(float(self.numbers[place][row]))
        region = self.regions.get((row, place))
        return column if region is None or not column.is_numeric else column.within(region)

    def log_density(self, places: Sequence[int] | None = None) -> FloatArray:
        """The log-density of the given numbers, or some, within their cells, `(n_rows,)`."""
        total = np.zeros(self.n_rows)
        for place, numbers in self.numbers.items():
            if places is not None and place not in places:
                continue
            cells, is_known = self.columns[place].cells, ~np.isnan(numbers)
            known = numbers[is_known]
            total[is_known] += cells.log_density(known) - cells.density.log_units(known)
        return total

    def take(self, rows: AnyArray | slice) -> Evidence:
        """Some of the questions."""
        at = np.arange(self.n_rows)[rows]
        if len(at) == self.n_rows and np.array_equal(at, np.arange(self.n_rows)):
            return self
        place_of = {int(row): new for new, row in enumerate(at)}
        regions = {
            (place_of[row], place): region
            for (row, place), region in self.regions.items()
            if row in place_of
        }
        numbers = {place: own[at] for place, own in self.numbers.items()}
        return replace(self, codes=self.codes[at], numbers=numbers, regions=regions)

    def with_cells(self, cells: Mapping[int, IntArray]) -> Evidence:
        """The same questions, in which some columns have these cells."""
        codes = self.codes.copy()
        for place, own in cells.items():
            codes[:, place] = own
        return replace(self, codes=codes)

    def with_states(self, cells: Mapping[int, AnyArray], n_rows: int) -> Evidence:
        """A single question once for each of many states of some columns.

        A cell weighs as much as what is known of its column says; densities of numbers stay out.
        """
        made = _Making(self.columns, n_rows)
        made.codes = np.repeat(self.codes, n_rows, axis=0)
        made.weights = list(self.weights)
        for place, own in cells.items():
            n_cells, code = self.columns[place].n_cells, int(self.codes[0, place])
            codes = np.arange(n_cells)
            if code != n_cells:
                weights = (
                    np.eye(n_cells)[code] if code < n_cells else self.weights[place][code - n_cells]
                )
                codes = np.array([made._code(place, c, weights) for c in range(n_cells)])
            made.codes[:, place] = codes[own]
        return made.evidence(is_single=False)

    def without(self, places: Sequence[int]) -> Evidence:
        """The same questions, in which nothing is known of some columns."""
        gone = set(places)
        codes = self.codes.copy()
        for place in gone:
            codes[:, place] = self.columns[place].n_cells
        return replace(
            self,
            codes=codes,
            numbers={place: own for place, own in self.numbers.items() if place not in gone},
            regions={at: own for at, own in self.regions.items() if at[1] not in gone},
        )

    def within(self, regions: Mapping[int, Region]) -> Evidence:
        """The same questions, in which columns also lie in regions; some may be impossible."""
        return replace(self.within_each([regions]), is_single=self.is_single)

    def within_each(self, cases: Sequence[Mapping[int, Region]]) -> Evidence:
        """All questions once for each case, in which columns also lie in regions."""
        made = _Making(self.columns, self.n_rows * len(cases), self.repeated(len(cases)))
        said: dict[tuple[int, Region], list[int]] = {}
        for case, regions in enumerate(cases):
            for place, region in regions.items():
                said.setdefault((place, region), []).append(case)
        for (place, region), own in said.items():
            rows = np.zeros((len(cases), self.n_rows), dtype=bool)
            rows[own] = True
            made.know_in(rows.ravel(), place, region)
        return made.evidence(is_single=False)

    def repeated(self, times: int) -> Evidence:
        """All questions several times, one time after the other."""
        if times == 1:
            return self
        regions = {
            (time * self.n_rows + row, place): region
            for (row, place), region in self.regions.items()
            for time in range(times)
        }
        numbers = {place: np.tile(own, times) for place, own in self.numbers.items()}
        codes = np.tile(self.codes, (times, 1))
        return replace(self, codes=codes, numbers=numbers, regions=regions, is_single=False)

    def together(self, other: Evidence) -> Evidence:
        """What is known in both, question by question; a single one goes with all of the other."""
        n_rows = max(len(self), len(other))
        mine, theirs = (
            own if len(own) == n_rows else own.repeated(n_rows) for own in (self, other)
        )
        made = _Making(self.columns, n_rows, mine)
        for place in np.flatnonzero(theirs.is_known().any(axis=0)).tolist():
            made.join(place, theirs)
        return made.evidence(self.is_single and other.is_single)

    def with_number(self, row: int, place: int, number: float) -> Evidence:
        """The same questions, in one of which a number or date is given."""
        made = _Making(self.columns, self.n_rows, self)
        made.say(row, place, number)
        return made.evidence(self.is_single)


def nothing_known(columns: Columns, n_rows: int = 1) -> Evidence:
    """Evidence that says nothing."""
    return _Making(columns, n_rows).evidence(is_single=True)


def evidence_of_regions(columns: Columns, rows: Sequence[Mapping[int, Region]]) -> Evidence:
    """Questions in which columns are known to lie in regions; of categories, of their places."""
    made = _Making(columns, len(rows))
    for row, regions in enumerate(rows):
        for place, region in regions.items():
            made.know(row, place, region)
    return made.evidence(len(rows) == 1)


def evidence_of(
    columns: Columns, given: Any, name: str = "given", *, may_be_impossible: bool = False
) -> Evidence:
    """What is given, but for events: nothing, a row, a dict, a list of dicts, or a table.

    Raises `NoValueError` for facts that no value agrees with, unless they `may_be_impossible`.
    """
    if isinstance(given, Evidence):
        return given
    if given is None:
        return nothing_known(columns)
    dicts = read_named_rows(given)
    if dicts is None:
        return evidence_of_rows(columns, given, name, may_be_few=True)
    made = _Making(columns, len(dicts))
    made.may_be_impossible = may_be_impossible
    for row, values in enumerate(dicts):
        if not isinstance(values, Mapping):
            raise ValueError(f"{name} must be a list of dicts, but one entry is {values!r}.")
        said: dict[int, Any] = {}
        for key, value in values.items():
            place = columns.place(key, name)
            if place in said:
                raise ValueError(
                    f"{name} must give each variable one value, "
                    f"but {said[place]!r} and {key!r} are the same variable."
                )
            said[place] = key
            made.say(row, place, value)
    return made.evidence(is_single_row(given))


def evidence_of_rows(
    columns: Columns, X: Any, name: str = "X", *, may_be_few: bool = False
) -> Evidence:
    """The values of a table, unknown where they are missing."""
    made = _Making(columns, 0)
    if columns.are_bits:
        own: dict[str, Any] = {"n_vars": len(columns), "feature_names": columns.names, "name": name}
        rows = check_evidence(X, **own) if may_be_few else check_partial(X, **own)[0]
        made.codes = np.where(np.isnan(rows), 2, rows).astype(np.int32)
        return made.evidence(is_single_row(X))
    table = _read_table(X, columns, name)
    raws = columns.match(table, name, may_be_few=may_be_few)
    cells = [
        column.cells_of(raw, columns.unknown) for column, raw in zip(columns, raws, strict=True)
    ]
    columns.warn(raws, cells)
    codes = np.column_stack(cells)
    made.codes = np.where(codes == NONE, columns.n_cells, codes).astype(np.int32)
    made.numbers = {
        place: column.numbers(raw)
        for place, (column, raw) in enumerate(zip(columns, raws, strict=True))
        if column.is_numeric and not raw.is_missing().all()
    }
    return made.evidence(is_single_row(X))


def _read_table(X: Any, columns: Columns, name: str) -> RawTable:
    if isinstance(X, list | tuple | np.ndarray):
        values, _ = read_values(X, name)
        return read_columns(
            values.reshape(1, -1) if values.ndim == 1 and values.size else values, name
        )
    return read_columns(X, name)


def _is_inside(numbers: FloatArray, region: Region) -> AnyArray:
    inside = np.zeros(len(numbers), dtype=bool)
    for low, high in region:
        inside |= (numbers >= low) & (numbers < high)
    return inside


class _Making:
    """Evidence while facts are added to it."""

    def __init__(self, columns: Columns, n_rows: int, start: Evidence | None = None) -> None:
        self.columns = columns
        self.codes = np.tile(columns.n_cells, (n_rows, 1)) if start is None else start.codes.copy()
        self.numbers = {} if start is None else {p: own.copy() for p, own in start.numbers.items()}
        self.regions = {} if start is None else dict(start.regions)
        self.weights = list(columns.equal_weights if start is None else start.weights)
        self.n_rows = n_rows
        self.may_be_impossible = False

    def say(self, row: int, place: int, value: Any) -> None:
        """Add a value, a set or an interval, as a dict says it."""
        column = self.columns[place]
        if not is_several(value):
            if is_missing(value):
                return
            if column.is_numeric:
                [(number, _)] = compared_region(column, "==", value)
                if column.region and not meet(
                    column.region, ((number, math.nextafter(number, math.inf)),)
                ):
                    self.know(row, place, ((number, math.nextafter(number, math.inf)),), value)
                    return
                own = self.numbers.setdefault(place, np.full(self.n_rows, np.nan))
                own[row] = number
                self.codes[row, place] = column.cell_of(number)
            else:
                self.codes[row, place] = int(np.argmax(said_values(column, value)))
            return
        if not column.is_numeric:
            self.know(row, place, places_region(said_values(column, value)), value)
            return
        self.lie_in(row, place, said_region(column, value), value)

    def lie_in(self, row: int, place: int, region: Region, value: Any = None) -> None:
        """Add that a column of numbers lies in an interval, or is one of some numbers."""
        column = self.columns[place]
        is_set = all(high == math.nextafter(low, math.inf) for low, high in region)
        if isinstance(value, tuple) or not is_set or not region or column.weights(region).any():
            self.know(row, place, region, value)
            return
        # Numbers none of which has a probability of its own: their densities.
        numbers = np.array([low for low, _ in region])
        weights = np.bincount(
            [column.cell_of(number) for number in numbers],
            np.exp(column.cells.log_density(numbers)),
            column.n_cells,
        )
        if not self.may_be_impossible:
            check_possible(column, value, weights)
        self.regions[row, place] = region
        self._weigh(row, place, weights / (weights.max() or 1.0))

    def know(self, row: int, place: int, region: Region, value: Any = None) -> None:
        """Add that a column lies in a region; of categories, of their places."""
        column = self.columns[place]
        region = meet(self.regions.get((row, place), EVERYWHERE), region)
        weights = column.weights(region)
        if not weights.any() and not self.may_be_impossible:
            if value is not None:
                check_possible(column, value, weights)
            raise NoValueError(
                f"What is given, {region_text(column, region)}, has probability zero under the "
                "model, so it cannot be conditioned on.",
                column=column.name,
            )
        self.regions[row, place] = region
        self._weigh(row, place, weights)

    def know_in(self, rows: AnyArray, place: int, region: Region) -> None:
        """Add to some questions, a mask, that a column lies in a region; that may be impossible."""
        column, codes = self.columns[place], self.codes[:, place].copy()
        weights = column.weights(region)
        for code in np.unique(codes[rows]).tolist():
            self.codes[rows & (codes == code), place] = self._code_of_both(place, code, weights)
        before = {row: own for (row, at), own in self.regions.items() if at == place and rows[row]}
        for row, own in before.items():
            both = meet(own, region)
            self.codes[row, place] = self._code(place, int(codes[row]), column.weights(both))
            self.regions[row, place] = both
        if (
            column.is_numeric and not np.isin(weights, (0.0, 1.0)).all()
        ):  # what else is told of parts of cells meets it
            new = [row for row in np.flatnonzero(rows).tolist() if row not in before]
            self.regions.update({(row, place): region for row in new})
        given = self.numbers.get(place)
        if given is not None:  # a number lies inside, or it does not
            known = np.flatnonzero(rows & ~np.isnan(given))
            cells = np.searchsorted(np.array(column.edges), given[known], side="right")
            nothing = self._code(place, column.n_cells, np.zeros(column.n_cells))
            self.codes[known, place] = np.where(_is_inside(given[known], region), cells, nothing)

    def join(self, place: int, other: Evidence) -> None:
        """Add what other evidence about as many questions knows of a column."""
        column, before = self.columns[place], self.codes[:, place].copy()
        n_cells, codes = column.n_cells, other.codes[:, place]
        for code in np.unique(codes[codes != n_cells]).tolist():
            rows, weights = codes == code, other.weights_of(place, code)
            for old in np.unique(before[rows]).tolist():
                both = self._code_of_both(place, old, weights)
                self.codes[rows & (before == old), place] = both
        unknown = np.full(self.n_rows, np.nan)
        mine, theirs = self.numbers.get(place, unknown), other.numbers.get(place, unknown)
        number = np.where(np.isnan(mine), theirs, mine)
        is_against = (mine != theirs) & ~np.isnan(mine) & ~np.isnan(theirs)
        for row in sorted({row for row, at in (*self.regions, *other.regions) if at == place}):
            regions = [own.get((row, place)) for own in (self.regions, other.regions)]
            said = [region for region in regions if region is not None]
            self.regions[row, place] = region = meet(said[0], said[-1])
            if not np.isnan(number[row]):
                is_against[row] |= not _is_inside(number[[row]], region)[0]
                self.codes[row, place] = column.cell_of(float(number[row]))
            elif len(said) == 2:
                self.codes[row, place] = self._code(place, n_cells, column.weights(region))
        if is_against.any():
            self.codes[is_against, place] = self._code(place, n_cells, np.zeros(n_cells))
        if not np.isnan(number).all():
            self.numbers[place] = number

    def _code_of_both(self, place: int, before: int, weights: FloatArray) -> int:
        """The code of weights of cells together with those that were known before."""
        n_cells = self.columns[place].n_cells
        known = 1.0 if before < n_cells else self.weights[place][before - n_cells]
        return self._code(place, before, weights * known)

    def _weigh(self, row: int, place: int, weights: FloatArray) -> None:
        self.codes[row, place] = self._code(place, int(self.codes[row, place]), weights)

    def _code(self, place: int, before: int, weights: FloatArray) -> int:
        """The code of weights of cells; of one that was known before, its share."""
        n_cells = self.columns[place].n_cells
        own = self.weights[place]
        if before < n_cells:  # a single cell
            weights = weights * (np.arange(n_cells) == before)
        single = np.flatnonzero(weights)
        if len(single) == 1 and weights[single[0]] == 1.0:
            return int(single[0])
        same = (j for j, other in enumerate(own) if np.array_equal(other, weights))
        found = next(same, len(own))
        if found == len(own):
            self.weights[place] = np.vstack([own, weights])
        return n_cells + found

    def evidence(self, is_single: bool) -> Evidence:
        """What was added."""
        weights = tuple(self.weights)
        return Evidence(self.columns, self.codes, weights, self.numbers, self.regions, is_single)
