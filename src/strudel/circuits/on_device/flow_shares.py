"""One pass over the logs of an EM step, by Triton on CUDA.

In:  logs of rows under the components of groups, `(n_rows, n_columns)`, and weights of rows.
Out: the log of the summed exponentials of every group, and weighted shares in two parts.

In plain torch the same takes ten passes over a table that is the largest of a step.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

MOST_COLUMNS = 8192  # of a group, side by side in one program
TILE = 2048  # numbers of a program, where groups are small


def fused_shares(
    logs: Tensor, base: Tensor, n_groups: int, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """As `flow_products.shares_in_parts`; without weights only the sums."""
    n_rows, size = len(logs), len(base) // n_groups
    sums = torch.empty((n_rows, n_groups), device=logs.device)
    high = low = by_row = sums
    if weight is not None:
        high, low = (torch.empty_like(logs, dtype=torch.float16) for _ in range(2))
        by_row = weight
    columns = triton.next_power_of_2(size)
    rows = max(1, TILE // columns)
    _fused_shares[(triton.cdiv(n_rows, rows), n_groups)](
        logs,
        base,
        by_row,
        sums,
        high,
        low,
        n_rows,
        n_groups,
        size,
        logs.stride(0),
        by_row.shape[1],
        HAS_WEIGHT=weight is not None,
        ROWS=rows,
        COLUMNS=columns,
        num_warps=8 if columns > 2048 else 4,
    )
    return sums, high, low


@triton.jit(do_not_specialize=["n_groups", "size", "n_weights"])  # type: ignore[untyped-decorator]
def _fused_shares(  # type: ignore[no-untyped-def]
    logs,
    base,
    weight,
    sums,
    high,
    low,
    n_rows,
    n_groups,
    size,
    stride,
    n_weights,
    HAS_WEIGHT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Some rows of one group."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    group = tl.program_id(1)
    column = tl.arange(0, COLUMNS)
    is_row, is_column = row < n_rows, column < size
    place = row.to(tl.int64)[:, None] * stride + group * size + column[None, :]
    is_here = is_row[:, None] & is_column[None, :]
    shared = tl.load(base + group * size + column, mask=is_column, other=0.0)
    value = tl.load(logs + place, mask=is_here, other=float("-inf")) + shared[None, :]
    top = tl.max(value, axis=1)
    top = tl.where(top == float("-inf"), 0.0, top)  # impossible under every component
    part = tl.exp(value - top[:, None])
    total = tl.sum(part, axis=1)
    tl.store(sums + row * n_groups + group, top + tl.log(total), mask=is_row)
    if HAS_WEIGHT:
        mine = tl.load(weight + row * n_weights + group % n_weights, mask=is_row, other=0.0)
        share = part * (mine / tl.where(total > 0.0, total, 1.0))[:, None]
        upper = share.to(tl.float16)
        lower = (share - upper.to(tl.float32)) * 2048.0  # LOW_SCALE of flow_products
        tl.store(high + place, upper, mask=is_here)
        tl.store(low + place, lower.to(tl.float16), mask=is_here)
