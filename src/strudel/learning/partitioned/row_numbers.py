"""Numbers that belong to rows, whatever part they lie in: random ones, and hashes of their values.

In:  a seed, and the number of the first row of a part; or packed rows.
Out: one number per row.
"""

from __future__ import annotations

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.data.bits import BitMatrix, pack_rows

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # steps of it meet all numbers before they repeat


def uniform_numbers(seed: int, first: int, n: int) -> FloatArray:
    """Random numbers for the rows from `first` on; those of a row depend on its number only."""
    return generator_at(seed, first).random(n)


def generator_at(seed: int, n_drawn: int) -> np.random.Generator:
    """A generator from which so many numbers have been drawn."""
    block, skipped = divmod(n_drawn, 4)  # it makes four numbers at a time
    generator = np.random.Generator(np.random.Philox(key=seed).advance(block))
    generator.random(skipped)
    return generator


def hash_rows(rows: AnyArray, seed: int | AnyArray) -> AnyArray:
    """A number of 64 bits for the values of every row, and a seed for all or for each."""
    state = np.broadcast_to(np.asarray(seed, dtype=np.uint64), len(rows)).copy()
    for words in pack_rows(rows).T:
        state = mixed(state ^ words)
    return state


def mixed(x: AnyArray) -> AnyArray:
    """The finaliser of splitmix64."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def digest_rows(bits: BitMatrix, first: int, gaps: AnyArray | None = None) -> int:
    """What tells rows, their weights and their order from others; sums over parts do, too.

    `gaps` is 1 where a value is unknown.
    """
    with np.errstate(over="ignore"):
        numbers = (first + 1 + np.arange(bits.n_rows, dtype=np.uint64)) * GOLDEN
    each = hash_rows(bits.unpack(), mixed(numbers))
    if bits.row_weight is not None:
        each = mixed(each ^ bits.row_weight.view(np.uint64))
    if gaps is not None:
        with_gaps = gaps.any(axis=1)
        each[with_gaps] = mixed(each[with_gaps] ^ hash_rows(gaps[with_gaps], 0))
    return int(each.sum(dtype=np.uint64))
