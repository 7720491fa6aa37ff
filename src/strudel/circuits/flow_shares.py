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
    logs: Tensor, n_groups: int, size: int, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """As `flow_products.shares_in_parts`; without weights only the sums, and `logs` remain."""
    n_rows = len(logs)
    sums = torch.empty((n_rows, n_groups), device=logs.device)
    low = logs if weight is None else torch.empty_like(logs)
    columns = triton.next_power_of_2(size)
    rows = max(1, TILE // columns)
    by_row = sums if weight is None else weight.float()
    _fused_shares[(triton.cdiv(n_rows, rows), n_groups)](
        logs,
        low,
        sums,
        by_row,
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
    return sums, logs, low


@triton.jit  # type: ignore[untyped-decorator]
def _fused_shares(  # type: ignore[no-untyped-def]
    logs,
    low,
    sums,
    weight,
    n_rows,
    n_groups,
    size,
    stride,
    n_weights,
    HAS_WEIGHT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Some rows of one group; `logs` become the upper part of the shares."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    group = tl.program_id(1)
    column = tl.arange(0, COLUMNS)
    is_row = row < n_rows
    place = row.to(tl.int64)[:, None] * stride + group * size + column[None, :]
    is_here = is_row[:, None] & (column < size)[None, :]
    value = tl.load(logs + place, mask=is_here, other=float("-inf"))
    top = tl.max(value, axis=1)
    top = tl.where(top == float("-inf"), 0.0, top)  # impossible under every component
    part = tl.exp(value - top[:, None])
    total = tl.sum(part, axis=1)
    tl.store(sums + row * n_groups + group, top + tl.log(total), mask=is_row)
    if HAS_WEIGHT:
        mine = tl.load(weight + row * n_weights + group % n_weights, mask=is_row, other=0.0)
        share = part * (mine / tl.where(total > 0.0, total, 1.0))[:, None]
        upper = (share.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)
        tl.store(logs + place, upper, mask=is_here)
        tl.store(low + place, share - upper, mask=is_here)
