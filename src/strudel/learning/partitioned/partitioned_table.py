"""A partitioned table: packed rows of a Dask array or frame, on an engine.

In:  a Dask array or frame, or a plain table; perhaps weights, and the code of its columns.
Out: `PartitionedRows`: one `BitMatrix` per part, equal rows merged where that pays; `PackedCodes`
     where values are unknown.

Which rows are held out or sampled is decided by the number of a row in the whole table, so that it
does not depend on the parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from typing import Any

import numpy as np

from strudel._types import AnyArray, ByteArray, CountArray, FloatArray
from strudel.circuits.passes import encode
from strudel.data.bits import (
    BitMatrix,
    exact_weights,
    merge_if_it_pays,
    pack_columns,
    pair_counts,
    weight_quantum,
)
from strudel.data.lazy import is_lazy, row_blocks
from strudel.data.validation import check_partial, check_sample_weight
from strudel.errors import NoRowsError, NotBinaryError, UnseenValueError
from strudel.learning.partitioned.engines import Engine, itself
from strudel.learning.partitioned.packed_rows import (
    PackedRows,
    Share,
    bag_rows,
    digest_packed,
    has_gaps,
    pack_codes,
    sample_rows,
    take_rows,
)
from strudel.tables.table_code import TableCode

WEIGHT = "sample_weight of strudel"  # a column, while a frame and its weights go together


@dataclass(frozen=True, eq=False)
class PartitionedRows:
    """Rows in partitions, and what they weigh in all."""

    engine: Engine
    parts: list[Any]  # of PackedRows
    n_vars: int
    n_rows: int
    total_weight: float
    table: PartitionedTable  # of which these are a share
    share: Share

    @property
    def quantum(self) -> float:
        """What all weights are whole multiples of."""
        return self.table.quantum

    def sample(self, n_rows: int, seed: int) -> tuple[ByteArray, FloatArray]:
        """About this many of the rows, in their order, in memory, with their weights.

        Values that are not known are UNKNOWN. A completion that is drawn weighs as much as its row.
        """
        share = n_rows / max(self.table.n_rows * (self.share.high - self.share.low), 1.0)
        while True:
            sample = Share(high=share, seed=seed)
            chosen = self.engine.place(
                sample_rows, self.table.parts, self.share, sample, numbers=self.table.first
            )
            rows = self.engine.each(_unpacked, chosen)
            if any(len(X) for X, _ in rows):
                break
            share *= 4.0  # of a few rows, chance may take none
        weight = self.table.n_copies * np.concatenate([w for _, w in rows])
        return np.concatenate([X for X, _ in rows]), weight

    def bagged(self, n_bags: int, seed: int) -> list[Any]:
        """The parts as `BaggedRows`; how often a bag holds a row depends on its number only."""
        return self.engine.place(
            bag_rows, self.table.parts, self.share, n_bags, seed, numbers=self.table.first
        )

    @cached_property
    def pair_counts(self) -> CountArray:
        """Weight of the rows in which two variables are both one."""
        found: CountArray = self.engine.total(pair_counts, self.parts)
        return found


@dataclass(frozen=True, eq=False)
class PartitionedTable:
    """A checked partitioned tables, rows in their order."""

    engine: Engine
    parts: list[Any]  # of PackedRows, every row as it was
    first: list[int]  # number of the first row of every part
    n_vars: int
    n_rows: int
    feature_names: tuple[str, ...] | None
    quantum: float = 1.0  # what all weights are whole multiples of
    has_gaps: bool = False  # whether values are unknown
    n_copies: int = 1  # completions of every row, which share its weight

    def rows(self) -> PartitionedRows:
        """All rows."""
        return self._chosen(Share())

    def split(self, fraction: float, seed: int) -> tuple[PartitionedRows, PartitionedRows]:
        """About `fraction` of the rows held out, and the others; others come first.

        Few rows, of which chance holds out none or all, can only be checked against themselves.
        """
        try:
            held_out = Share(0.0, fraction, seed)
            return self._chosen(Share(fraction, 1.0, seed)), self._chosen(held_out)
        except NoRowsError:
            return self.rows(), self.rows()

    def digest(self) -> int:
        """A digest of the rows and their order; the same for any parts."""
        hashes = self.engine.place(digest_packed, self.parts, numbers=self.first)
        return int(sum(self.engine.each(itself, hashes)) % 2**64)

    def _chosen(self, share: Share) -> PartitionedRows:
        parts = self.engine.place(take_rows, self.parts, share, numbers=self.first)
        if not self.has_gaps:
            parts = self.engine.place(merge_if_it_pays, parts)
        n_rows, weight = self.engine.total(_size, parts)
        if weight == 0.0:
            known = " and a known value" if self.has_gaps else ""
            raise NoRowsError(f"Learning needs at least one row with a positive weight{known}.")
        return PartitionedRows(
            self.engine, parts, self.n_vars, int(n_rows), float(weight), self, share
        )


def partition_table(
    X: Any,
    engine: Engine,
    *,
    sample_weight: Any = None,
    code: TableCode | None = None,
    feature_names: tuple[str, ...] | None = None,
    name: str = "X",
) -> PartitionedTable:
    """Check, encode and pack every part of a table, where it is.

    `feature_names` is the order in which to take the columns of a frame; its own by default.
    """
    from dask import delayed

    blocks, names = _blocks(X, name)
    blocks, weights, total = weight_blocks(sample_weight, X, blocks, name)
    names = None if names is None else feature_names or names
    if code is None:
        n_vars = np.shape(X)[1] if names is None else len(names)
        pack = delayed(partial(_pack, total, n_vars, names, name), pure=True)
    else:
        n_vars = code.n_vars
        pack = delayed(partial(_pack_coded, total, code, name), pure=True)
    parts = engine.keep(
        [
            pack(block, weight, number)
            for number, (block, weight) in enumerate(zip(blocks, weights, strict=True))
        ]
    )
    lengths = engine.each(attrgetter("n_rows"), parts)
    if sum(lengths) == 0:
        raise ValueError(f"{name} must have at least one row, but is empty.")
    first = [0, *np.cumsum(lengths)[:-1].tolist()]
    is_whole = total is None or engine.total(_n_fractions, parts) == 0
    quantum = 1.0 if total is None or is_whole else weight_quantum(total)
    n_rows, gaps = int(sum(lengths)), any(engine.each(has_gaps, parts))
    return PartitionedTable(engine, parts, first, int(n_vars), n_rows, names, quantum, gaps)


def _blocks(X: Any, name: str) -> tuple[list[Any], tuple[str, ...] | None]:
    """The blocks of rows, and the column names of a frame."""
    names = tuple(map(str, X.columns)) if hasattr(X, "columns") else None
    return row_blocks(X, name)[0] if is_lazy(X) else [X], names


def _pack(
    total: float | None,
    n_vars: int,
    names: tuple[str, ...] | None,
    name: str,
    block: Any,
    weight: Any,
    number: int,
) -> PackedRows:
    """One block, checked and packed."""
    if len(block) == 0:
        return BitMatrix(np.zeros((n_vars, 0), dtype=np.uint64), 0)
    try:
        table, _ = check_partial(block, n_vars=n_vars, feature_names=names, name=name)
        if weight is not None:
            weight = exact_weights(check_sample_weight(weight, len(table), is_part=True), total)
    except NotBinaryError as error:
        raise error.within(f"In block {number} of {name}") from None
    except ValueError as error:
        raise ValueError(f"In block {number} of {name}: {error}") from None
    if table.dtype != np.uint8:
        return pack_codes(encode(np.asarray(table, dtype=np.float64)), weight)
    bits = pack_columns(table)
    return BitMatrix(bits.words, bits.n_rows, weight)


def _pack_coded(
    total: float | None, code: TableCode, name: str, block: Any, weight: Any, number: int
) -> PackedRows:
    """One block, encoded and packed; rows that weigh nothing are not looked at."""
    rows = np.zeros((len(block), code.n_vars))
    counts = _counting(len(block), weight)
    if counts.any():
        try:
            rows[counts] = code.encode(_taken(block, counts), name)
        except UnseenValueError as error:
            raise error.within(
                f"In block {number} of {name}, of which the encoder saw a sample",
                "Call categorize() of Dask first: it shows the encoder all values.",
            ) from None
        except ValueError as error:
            raise ValueError(f"In block {number} of {name}: {error}") from None
    return _pack(total, code.n_vars, None, name, rows, weight, number)


def _counting(n_rows: int, weight: Any) -> AnyArray:
    """Which rows weigh something."""
    if weight is None:
        return np.ones(n_rows, dtype=bool)
    return check_sample_weight(weight, n_rows, is_part=True) > 0.0


def _taken(block: Any, rows: AnyArray) -> Any:
    """Some rows of a block."""
    if rows.all():
        return block
    return block.loc[rows] if hasattr(block, "loc") else np.asarray(block)[rows]


def sample_of(X: Any, engine: Engine, n_rows: int, seed: int, sample_weight: Any = None) -> Any:
    """About this many rows of a lazy table as they are, in memory; none that weighs nothing.

    They depend on the seed and on the numbers of the rows, not on the parts.
    """
    from dask import delayed

    blocks, lengths = row_blocks(X, "X")
    blocks, weights, _ = weight_blocks(sample_weight, X, blocks, "X")
    if np.isnan(lengths).any():
        # Of these blocks: Dask may read a single column in fewer.
        lengths = engine.each(itself, engine.keep([delayed(len)(block) for block in blocks]))
    total = sum(lengths)
    if total == 0:
        raise ValueError("X must have at least one row, but is empty.")
    take = delayed(partial(_sampled, Share(high=n_rows / total, seed=seed)), pure=True)
    first = [0, *np.cumsum(lengths)[:-1].tolist()]
    taken = engine.keep(
        [
            take(block, weight, int(number))
            for block, weight, number in zip(blocks, weights, first, strict=True)
        ]
    )
    found = engine.each(itself, taken)
    if not hasattr(X, "columns"):
        return np.concatenate(found)
    import pandas

    return pandas.concat(found)


def _sampled(share: Share, block: Any, weight: Any, first: int) -> Any:
    """The rows of a block in a share."""
    return _taken(block, share.holds(first, len(block)) & _counting(len(block), weight))


def _size(rows: PackedRows) -> AnyArray:
    return np.array([rows.n_rows, rows.total_weight])


def _n_fractions(rows: PackedRows) -> int:
    """How many weights are not whole numbers."""
    return 0 if rows.row_weight is None else int((rows.row_weight % 1.0 != 0.0).sum())


def _unpacked(rows: PackedRows) -> tuple[ByteArray, FloatArray]:
    return rows.unpack(), rows.weights


def weight_blocks(
    sample_weight: Any, X: Any, blocks: list[Any], name: str
) -> tuple[list[Any], list[Any], float | None]:
    """Blocks of rows, their weights, and the sum of these, which says how to round them."""
    if sample_weight is None:
        return blocks, [None] * len(blocks), None
    if np.ndim(sample_weight) != 1:
        raise ValueError(
            f"sample_weight must have one number per row, but has {np.ndim(sample_weight)} "
            "dimensions."
        )
    if not hasattr(X, "columns") and not np.isnan(sum(X.chunks[0])):
        sample_weight = _like_rows(sample_weight, X)
    if not is_lazy(sample_weight):
        raise ValueError("sample_weight must be a Dask array or column with the same blocks as X.")
    numbers = sample_weight.astype(np.float64)
    total, least = (float(one.compute()) for one in (numbers.sum(), numbers.min()))
    if not (np.isfinite(total) and least >= 0.0):
        raise ValueError("sample_weight must hold finite numbers of at least 0.")
    if total == 0.0:
        raise ValueError("Learning needs at least one row with a positive weight.")
    if hasattr(X, "columns") and not hasattr(sample_weight, "chunks"):
        # Together: Dask may read one column of a table in fewer parts than many.
        from dask import delayed

        both = list(X.assign(**{WEIGHT: sample_weight}).to_delayed())
        rows, weigh = delayed(_without_weight, pure=True), delayed(_weight_of, pure=True)
        return [rows(part) for part in both], [weigh(part) for part in both], total
    weights = sample_weight.to_delayed()
    weights = weights.ravel().tolist() if hasattr(weights, "ravel") else list(weights)
    if len(weights) != len(blocks):
        raise ValueError(
            f"sample_weight must have as many blocks as {name}, {len(blocks)}, but has "
            f"{len(weights)}."
        )
    return blocks, weights, total


def _like_rows(sample_weight: Any, X: Any) -> Any:
    """Weights as an array with the blocks of another."""
    import dask.array as da

    if len(sample_weight) != len(X):
        raise ValueError(
            f"sample_weight has {len(sample_weight)} numbers, but X has {len(X)} rows."
        )
    if hasattr(sample_weight, "chunks"):
        return sample_weight.rechunk((X.chunks[0],))
    if is_lazy(sample_weight):
        return sample_weight.to_dask_array(lengths=True).rechunk((X.chunks[0],))
    return da.from_array(np.asarray(sample_weight), chunks=(X.chunks[0],))


def _without_weight(part: Any) -> Any:
    return part.drop(columns=WEIGHT)


def _weight_of(part: Any) -> Any:
    return part[WEIGHT].to_numpy()
