"""Sums of mutual information: how much each variable tells about the others, on some of the rows.

In:  rows packed one bit per place, their weights, the current rows and the places to compare.
Out: one score per place.

The mutual information of a pair is H(i) + H(j) - H(i, j), so all that is needed per pair is the sum
of x ln x over its four smoothed cells.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel, lowest_bit, popcount
from strudel._types import NONE, AnyArray, FloatArray, IntArray, WordArray
from strudel.data.x_log_x import x_log_x


@kernel
def score_whole(
    words: WordArray,
    weight: FloatArray,
    rows: IntArray,
    places: IntArray,
    alpha: float,
    table: FloatArray,
    is_unit: bool,
    columns: WordArray,
    pair: AnyArray,
    touched: IntArray,
    slot: IntArray,
    scores: FloatArray,
) -> None:
    """Fill `scores` for rows with whole-number weights.

    The pair terms `x ln x` of the four cells are looked up in `table`. Swapping 0 and 1 in a column
    changes no mutual information, so every column counts its rarer value; then either all pairs are
    counted by popcounts of columns, or, where ones are few, only the pairs that occur together are
    visited and all others are filled in by groups of equal counts.
    """
    m = len(places)
    n_rows = len(rows)
    total = 0
    for i in range(n_rows):
        total += int(weight[rows[i]])
    first_word, last_word = places[0] // 64, places[m - 1] // 64
    n_words = last_word - first_word + 1

    single = np.zeros(m, dtype=np.int64)
    n_row_words = (n_rows + 63) // 64
    if is_unit:
        gather_columns(words, rows, places, columns)
        for i in range(m):
            for w in range(n_row_words):
                single[i] += popcount(columns[i, w])
    else:
        local = np.empty(n_words * 64, dtype=np.int32)
        keep = np.zeros(n_words, dtype=np.uint64)
        for i in range(m):
            local[places[i] - first_word * 64] = i
            keep[places[i] // 64 - first_word] |= np.uint64(1) << np.uint64(places[i] % 64)
        for k in range(n_rows):
            s = rows[k]
            for w in range(n_words):
                word = words[s, first_word + w] & keep[w]
                while word:
                    single[local[w * 64 + lowest_bit(word)]] += int(weight[s])
                    word &= word - np.uint64(1)

    flip = np.zeros(n_words, dtype=np.uint64)
    keep = np.zeros(n_words, dtype=np.uint64)
    local = np.empty(n_words * 64, dtype=np.int32)
    for i in range(m):
        w, bit = places[i] // 64 - first_word, np.uint64(1) << np.uint64(places[i] % 64)
        local[places[i] - first_word * 64] = i
        keep[w] |= bit
        if 2 * single[i] > total:
            single[i] = total - single[i]
            flip[w] |= bit
    n_visits = 0  # pairs of ones over all rows
    for k in range(n_rows):
        ones = 0
        for w in range(n_words):
            ones += popcount((words[rows[k], first_word + w] ^ flip[w]) & keep[w])
        n_visits += ones * (ones - 1) // 2

    n_pairs = m * (m - 1) // 2
    # Costs in nanoseconds, measured: a visit, a lookup of four cells, and a word of popcount.
    sparse_cost = 1.5 * n_visits + 6.0 * min(n_visits, n_pairs)
    dense_cost = n_pairs * (4.0 + 0.15 * n_row_words)
    if is_unit and dense_cost <= sparse_cost:
        for i in range(m):
            if flip[places[i] // 64 - first_word] >> np.uint64(places[i] % 64) & np.uint64(1):
                for w in range(n_row_words):
                    columns[i, w] = ~columns[i, w]
                spare = n_row_words * 64 - n_rows
                columns[i, n_row_words - 1] &= ~np.uint64(0) >> np.uint64(spare)
        _add_all_pairs(columns, n_row_words, single, total, table, scores)
    else:
        _add_groups(single, total, table, slot, scores)
        _add_visited_pairs(
            words,
            weight,
            rows,
            first_word,
            flip,
            keep,
            local,
            single,
            total,
            table,
            pair,
            touched,
            scores,
        )
    _finish(single, float(total), alpha, scores)


@kernel
def gather_columns(words: WordArray, rows: IntArray, places: IntArray, columns: WordArray) -> None:
    """Turn the listed rows into packed columns, one per place, by 64 x 64 transposition."""
    square = np.empty(64, dtype=np.uint64)
    m = len(places)
    n_rows = len(rows)
    for block in range((n_rows + 63) // 64):
        i = 0
        while i < m:
            w = places[i] // 64
            for k in range(64):
                r = block * 64 + k
                square[k] = words[rows[r], w] if r < n_rows else np.uint64(0)
            _transpose(square)
            while i < m and places[i] // 64 == w:
                columns[i, block] = square[places[i] % 64]
                i += 1


@kernel
def _transpose(square: WordArray) -> None:
    """Transpose a 64 x 64 bit matrix in place: bit j of line i goes to bit i of line j."""
    half = 32
    mask = np.uint64(0x00000000FFFFFFFF)
    while half:
        shift = np.uint64(half)
        k = 0
        while k < 64:
            for i in range(k, k + half):
                swap = ((square[i] >> shift) ^ square[i + half]) & mask
                square[i] ^= swap << shift
                square[i + half] ^= swap
            k += 2 * half
        half //= 2
        mask ^= mask << np.uint64(half)


@kernel
def _cells(a: int, b: int, both: int, total: int, table: FloatArray) -> float:
    """Sum of x ln x over the four cells of a pair."""
    return table[both] + table[a - both] + table[b - both] + table[total - a - b + both]


@kernel
def _add_all_pairs(
    columns: WordArray,
    n_words: int,
    single: AnyArray,
    total: int,
    table: FloatArray,
    scores: FloatArray,
) -> None:
    """Add the cells of every pair to both of its variables."""
    for i in range(1, len(single)):
        mine = 0.0
        for j in range(i):
            both = 0
            for w in range(n_words):
                both += popcount(columns[i, w] & columns[j, w])
            cells = _cells(single[i], single[j], both, total, table)
            mine += cells
            scores[j] += cells
        scores[i] += mine


@kernel
def _add_groups(
    single: AnyArray, total: int, table: FloatArray, slot: IntArray, scores: FloatArray
) -> None:
    """Add the cells of all pairs as if none occurred together; equal counts are one group."""
    m = len(single)
    group_count = np.empty(m, dtype=np.int64)
    group_size = np.zeros(m, dtype=np.int64)
    n_groups = 0
    for i in range(m):
        if slot[single[i]] == NONE:
            slot[single[i]] = n_groups
            group_count[n_groups] = single[i]
            n_groups += 1
        group_size[slot[single[i]]] += 1
    sums = np.zeros(n_groups)
    for a in range(n_groups):
        sums[a] += (group_size[a] - 1) * _cells(group_count[a], group_count[a], 0, total, table)
        for b in range(a):
            cells = _cells(group_count[a], group_count[b], 0, total, table)
            sums[a] += group_size[b] * cells
            sums[b] += group_size[a] * cells
    for i in range(m):
        scores[i] += sums[slot[single[i]]]
    for a in range(n_groups):
        slot[group_count[a]] = NONE


@kernel
def _add_visited_pairs(
    words: WordArray,
    weight: FloatArray,
    rows: IntArray,
    first_word: int,
    flip: WordArray,
    keep: WordArray,
    local: IntArray,
    single: AnyArray,
    total: int,
    table: FloatArray,
    pair: AnyArray,
    touched: IntArray,
    scores: FloatArray,
) -> None:
    """Correct the pairs that do occur together; leaves `pair` (m * m or more) all zero again."""
    m = len(single)
    ones = np.empty(m, dtype=np.int32)
    n_touched = 0
    for k in range(len(rows)):
        s = rows[k]
        w_s = int(weight[s])
        if (
            w_s == 0
        ):  # a pair is new when its count is zero, so rows that count nothing must not touch it
            continue
        n_ones = 0
        for w in range(len(keep)):
            word = (words[s, first_word + w] ^ flip[w]) & keep[w]
            while word:
                i = local[w * 64 + lowest_bit(word)]
                word &= word - np.uint64(1)
                base = i * m
                for b in range(n_ones):
                    at = base + ones[b]
                    if pair[at] == 0:
                        touched[n_touched] = at
                        n_touched += 1
                    pair[at] += w_s
                ones[n_ones] = i
                n_ones += 1
    for k in range(n_touched):
        at = touched[k]
        i, j = at // m, at % m
        both = int(pair[at])
        pair[at] = 0
        gain = _cells(single[i], single[j], both, total, table) - _cells(
            single[i], single[j], 0, total, table
        )
        scores[i] += gain
        scores[j] += gain


@kernel
def _finish(single: AnyArray, total: float, alpha: float, scores: FloatArray) -> None:
    """From sums of pair cells to sums of mutual information: H(i) + H(j) - H(i, j)."""
    m = len(single)
    scale = total + 4.0 * alpha
    if scale <= 0.0:
        scores[:] = 0.0
        return
    margin = np.empty(m)
    for i in range(m):
        margin[i] = x_log_x(single[i] + 2.0 * alpha) + x_log_x(total - single[i] + 2.0 * alpha)
    margins = margin.sum()
    for i in range(m):
        others = (m - 1) * margin[i] + (margins - margin[i])
        scores[i] = (scores[i] - others) / scale + (m - 1) * np.log(scale)


@kernel
def score_real(
    words: WordArray,
    weight: FloatArray,
    rows: IntArray,
    places: IntArray,
    alpha: float,
    pair: FloatArray,
    scores: FloatArray,
) -> None:
    """Fill `scores` for rows with real weights; leaves `pair` all zero again.

    As with whole weights every column counts its rarer value, and only pairs that occur together
    are visited. The product of two matrices of ones and weights took 3 to 30 times as long.
    """
    m = len(places)
    first_word = places[0] // 64
    n_words = places[m - 1] // 64 - first_word + 1
    local = np.empty(n_words * 64, dtype=np.int32)  # number of a place among those at hand
    keep = np.zeros(n_words, dtype=np.uint64)
    for i in range(m):
        local[places[i] - first_word * 64] = i
        keep[places[i] // 64 - first_word] |= np.uint64(1) << np.uint64(places[i] % 64)
    total = 0.0
    single = np.zeros(m)
    for s in rows:
        w_s = weight[s]
        if w_s == 0.0:
            continue
        total += w_s
        for w in range(n_words):
            word = words[s, first_word + w] & keep[w]
            while word:
                single[local[w * 64 + lowest_bit(word)]] += w_s
                word &= word - np.uint64(1)
    flip = np.zeros(n_words, dtype=np.uint64)
    for i in range(m):
        if 2.0 * single[i] > total:
            single[i] = total - single[i]
            flip[places[i] // 64 - first_word] |= np.uint64(1) << np.uint64(places[i] % 64)
    ones = np.empty(m, dtype=np.int32)
    for s in rows:
        w_s = weight[s]
        if w_s == 0.0:
            continue
        n_ones = 0
        for w in range(n_words):
            word = (words[s, first_word + w] ^ flip[w]) & keep[w]
            while word:
                i = local[w * 64 + lowest_bit(word)]
                word &= word - np.uint64(1)
                mine = pair[i]
                for b in range(n_ones):
                    mine[ones[b]] += w_s
                ones[n_ones] = i
                n_ones += 1
    _add_real_pairs(single, pair, total, alpha, scores)
    _finish(single, total, alpha, scores)


@kernel
def _add_real_pairs(
    single: FloatArray, pair: FloatArray, total: float, alpha: float, scores: FloatArray
) -> None:
    """Add the cells of every pair to both of its variables; leaves `pair` zero below its diagonal.

    Of pairs that never occur together only one cell depends on both.
    """
    m = len(single)
    alone = np.empty(m)
    for i in range(m):
        alone[i] = x_log_x(single[i] + alpha)
    nothing = x_log_x(alpha)
    for i in range(m):
        mine = 0.0
        for j in range(i):
            both = pair[i, j]
            neither = x_log_x(total - single[i] - single[j] + both + alpha)
            if both == 0.0:
                cells = nothing + alone[i] + alone[j] + neither
            else:
                pair[i, j] = 0.0
                cells = (
                    x_log_x(both + alpha)
                    + x_log_x(single[i] - both + alpha)
                    + x_log_x(single[j] - both + alpha)
                    + neither
                )
            mine += cells
            scores[j] += cells
        scores[i] += mine
