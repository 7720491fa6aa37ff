"""A table in parts: packed rows of a Dask array or frame, on an engine.

In:  a Dask array or frame, or a plain table; perhaps weights.
Out: `SpreadRows`: one `BitMatrix` per part, equal rows merged where that pays.

Which rows are held out or sampled is decided by the number of a row in the whole table, so that it
does not depend on the parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
from scipy.stats import poisson

from strudel._types import AnyArray, ByteArray, CountArray, FloatArray
from strudel.data.bits import (
    BitMatrix,
    exact_weights,
    merge_equal_rows,
    merge_if_it_pays,
    pack_columns,
)
from strudel.data.counts import pair_counts
from strudel.data.lazy import is_lazy
from strudel.data.validation import check_binary, check_sample_weight
from strudel.scale.engines import Engine

POISSON = poisson.cdf(np.arange(20), 1.0)  # chance of at most so many draws of a row by a bag


@dataclass(frozen=True, eq=False)
class SpreadRows:
    """Rows in parts, and what they weigh in all."""

    engine: Engine
    parts: list[Any]  # of BitMatrix
    n_vars: int
    n_rows: int
    total_weight: float
    table: SpreadTable  # of which these are a share
    share: tuple[float, float]  # those whose random number lies between
    seed: int

    def bagged(self, n_bags: int, seed: int) -> list[Any]:
        """The parts as `BaggedRows`; how often a bag holds a row depends on its number only."""
        return self.engine.place(
            bag_rows,
            self.table.parts,
            *self.share,
            self.seed,
            n_bags,
            seed,
            numbers=self.table.first,
        )

    @cached_property
    def pair_counts(self) -> CountArray:
        """Weight of the rows in which two variables are both one."""
        found: CountArray = self.engine.total(pair_counts, self.parts)
        return found


@dataclass(frozen=True, eq=False)
class BaggedRows:
    """Distinct rows of a part, and how often every bootstrap sample holds each."""

    rows: BitMatrix
    bag_weight: AnyArray  # float32 (n_bags, n_rows)


@dataclass(frozen=True, eq=False)
class SpreadTable:
    """A checked table in parts, rows in their order."""

    engine: Engine
    parts: list[Any]  # of BitMatrix, every row as it was
    first: list[int]  # number of the first row of every part
    n_vars: int
    n_rows: int
    feature_names: tuple[str, ...] | None

    def rows(self) -> SpreadRows:
        """All rows."""
        return self._chosen(0.0, 1.0, 0)

    def split(self, fraction: float, seed: int) -> tuple[SpreadRows, SpreadRows]:
        """About `fraction` of the rows held out, and the others; others come first."""
        return self._chosen(fraction, 1.0, seed), self._chosen(0.0, fraction, seed)

    def sample(self, n_rows: int, seed: int) -> tuple[ByteArray, FloatArray]:
        """About so many rows, in their order, in memory, with their weights."""
        share = min(1.0, n_rows / self.n_rows)
        chosen = self.engine.place(take_rows, self.parts, 0.0, share, seed, numbers=self.first)
        rows = self.engine.each(_unpacked, chosen)
        return np.concatenate([X for X, _ in rows]), np.concatenate([w for _, w in rows])

    def _chosen(self, low: float, high: float, seed: int) -> SpreadRows:
        parts = self.engine.place(take_rows, self.parts, low, high, seed, numbers=self.first)
        parts = self.engine.place(merge_if_it_pays, parts)
        n_rows, weight = self.engine.total(_size, parts)
        if weight == 0.0:
            raise ValueError("Learning needs at least one row that counts.")
        return SpreadRows(
            self.engine,
            parts,
            self.n_vars,
            int(n_rows),
            float(weight),
            self,
            (low, high),
            seed,
        )


def spread_table(
    X: Any, engine: Engine, *, sample_weight: Any = None, name: str = "X"
) -> SpreadTable:
    """Check and pack every part of a table, where it is."""
    delayed = import_module("dask").delayed
    blocks, names = _blocks(X, name)
    weights, total = _weight_blocks(sample_weight, blocks, name)
    n_vars = X.shape[1] if names is None else len(names)
    pack = delayed(_pack, pure=True)
    parts = engine.keep(
        [
            pack(block, weight, total, number, int(n_vars), name)
            for number, (block, weight) in enumerate(zip(blocks, weights, strict=True))
        ]
    )
    lengths = engine.each(_n_rows, parts)
    if sum(lengths) == 0:
        raise ValueError(f"{name} must have at least one row, but is empty.")
    first = [0, *np.cumsum(lengths)[:-1].tolist()]
    return SpreadTable(engine, parts, first, int(n_vars), int(sum(lengths)), names)


def _blocks(X: Any, name: str) -> tuple[list[Any], tuple[str, ...] | None]:
    """The blocks of rows, and the column names of a frame."""
    if not is_lazy(X):
        names = tuple(X.columns) if hasattr(X, "columns") else None
        return [X], names
    if hasattr(X, "chunks"):  # an array
        if X.ndim != 2:
            raise ValueError(f"{name} must have rows and columns, but has shape {X.shape}.")
        return X.rechunk({1: -1}).to_delayed().ravel().tolist(), None
    if not hasattr(X, "columns"):
        raise ValueError(
            f"{name} must be a Dask array or frame, but is of type {type(X).__name__}."
        )
    return list(X.to_delayed()), tuple(map(str, X.columns))


def _weight_blocks(
    sample_weight: Any, blocks: list[Any], name: str
) -> tuple[list[Any], float | None]:
    """Weights block by block, and their sum, which says how to round them."""
    if sample_weight is None:
        return [None] * len(blocks), None
    if not is_lazy(sample_weight):
        raise ValueError("sample_weight must be a Dask array with the same blocks as X.")
    weights = sample_weight.to_delayed()
    weights = weights.ravel().tolist() if hasattr(weights, "ravel") else list(weights)
    if len(weights) != len(blocks):
        raise ValueError(
            f"sample_weight must have the blocks of {name}, {len(blocks)}, but has {len(weights)}."
        )
    return weights, float(sample_weight.sum().compute())


def _pack(
    block: Any, weight: Any, total: float | None, number: int, n_vars: int, name: str
) -> BitMatrix:
    """One block, checked and packed."""
    if len(block) == 0:
        return BitMatrix(np.zeros((n_vars, 0), dtype=np.uint64), 0)
    try:
        table, _ = check_binary(block, n_vars=n_vars, name=name)
        if weight is not None:
            weight = check_sample_weight(weight, len(table))
    except ValueError as error:
        raise ValueError(f"In block {number} of {name}: {error}") from None
    bits = pack_columns(table)
    if weight is None:
        return bits
    return BitMatrix(bits.words, bits.n_rows, exact_weights(weight, total))


def take_rows(bits: BitMatrix, low: float, high: float, seed: int, first: int) -> BitMatrix:
    """The rows of a part whose random number lies between two bounds."""
    if low <= 0.0 and high >= 1.0 and bits.row_weight is None:
        return bits
    kept = _is_taken(bits, low, high, seed, first)
    weight = None if bits.row_weight is None else bits.row_weight[kept]
    return BitMatrix(pack_columns(bits.unpack()[kept]).words, int(kept.sum()), weight)


def _is_taken(bits: BitMatrix, low: float, high: float, seed: int, first: int) -> AnyArray:
    number = uniform_numbers(seed, first, bits.n_rows)
    kept = (number >= low) & (number < high)
    return kept if bits.row_weight is None else kept & (bits.row_weight > 0.0)


def bag_rows(
    bits: BitMatrix,
    low: float,
    high: float,
    seed: int,
    n_bags: int,
    bag_seed: int,
    first: int,
) -> BaggedRows:
    """The same rows, merged, with the weights that bags give them.

    Every row is drawn a Poisson number of times: so nobody needs to know all rows to draw.
    """
    kept = _is_taken(bits, low, high, seed, first)
    rows = BitMatrix(pack_columns(bits.unpack()[kept]).words, int(kept.sum()), bits.weights[kept])
    if rows.n_rows == 0:
        return BaggedRows(rows, np.zeros((n_bags, 0), dtype=np.float32))
    merged, place = merge_equal_rows(rows)
    weight = np.empty((n_bags, merged.n_rows), dtype=np.float32)
    for bag in range(n_bags):
        number = uniform_numbers(bag_seed + (bag << 32), first, bits.n_rows)[kept]
        n_draws = np.searchsorted(POISSON, number, side="right")
        weight[bag] = np.bincount(place, n_draws * rows.weights, minlength=merged.n_rows)
    return BaggedRows(merged, weight)


def uniform_numbers(seed: int, first: int, n: int) -> FloatArray:
    """Random numbers for the rows from `first` on; those of a row depend on its number only."""
    block, skipped = divmod(first, 4)  # the generator makes four numbers at a time
    generator = np.random.Generator(np.random.Philox(key=seed).advance(block))
    return generator.random(n + skipped)[skipped:]


def _size(bits: BitMatrix) -> AnyArray:
    return np.array([bits.n_rows, bits.total_weight])


def _n_rows(bits: BitMatrix) -> int:
    return bits.n_rows


def _unpacked(bits: BitMatrix) -> tuple[ByteArray, FloatArray]:
    return bits.unpack(), bits.weights
