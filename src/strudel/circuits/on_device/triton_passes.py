"""The passes of `passes` on a GPU: one kernel for every level, and one for the gradient.

A program sums the terms of one sum for a run of columns; a column is a row and a component. Values
of a node lie side by side, so what is read is read in full. Everything is summed in a fixed order:
the same input gives the same result, to the last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

if TYPE_CHECKING:
    from strudel.circuits.on_device.passes import Plan, Way

MOST_COLUMNS = 512  # of one program; this and one warp were fastest on an H200


def sum_levels(table: Tensor, base: Tensor, log_theta: Tensor, way: Way, n_levels: int) -> None:
    """Fill a table of logs level by level."""
    n_columns = table.shape[1]
    size = min(MOST_COLUMNS, triton.next_power_of_2(n_columns))
    period = log_theta.shape[1] * log_theta.shape[2]
    with torch.cuda.device(table.device):
        for level in way.levels[:n_levels]:
            n_sums = level.last_sum - level.first_sum
            _sum_level[(n_sums, triton.cdiv(n_columns, size))](
                table,
                base,
                log_theta,
                way.out,
                way.theta,
                way.left,
                way.right,
                *level[:1],
                *level[2:],
                n_columns,
                period,
                SHARED=period == 1,
                LOWEST=torch.finfo(table.dtype).min,
                SIZE=size,
                num_warps=1,
            )


@triton.jit(do_not_specialize=["first_sum", "first_term", "up_to_1", "up_to_2", "up_to_4"])
def _sum_level(
    table,
    base,
    log_theta,
    out,
    theta,
    left,
    right,
    first_sum,
    first_term,
    up_to_1,
    up_to_2,
    up_to_4,
    n_columns,
    period,
    SHARED: tl.constexpr,
    LOWEST: tl.constexpr,
    SIZE: tl.constexpr,
):
    i = tl.program_id(0)
    # Sums of 1, 2, 4 and 8 terms follow one another, so nothing has to be read to find a sum's.
    width = 1 + (i >= up_to_1).to(tl.int32) + 2 * (i >= up_to_2) + 4 * (i >= up_to_4)
    start = i + tl.maximum(i - up_to_1, 0)
    start += 2 * tl.maximum(i - up_to_2, 0) + 4 * tl.maximum(i - up_to_4, 0)
    column = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    is_used = column < n_columns
    top = tl.full((SIZE,), LOWEST, table.dtype.element_ty)
    total = tl.zeros((SIZE,), table.dtype.element_ty)
    for t in range(first_term + start, first_term + start + width):
        number = tl.load(theta + t).to(tl.int64)
        at_left = tl.load(left + t).to(tl.int64) * n_columns
        at_right = tl.load(right + t).to(tl.int64) * n_columns
        term = tl.load(table + at_left + column, mask=is_used, other=0.0)
        term += tl.load(base + at_right + column, mask=is_used, other=0.0)
        if SHARED:
            term += tl.load(log_theta + number)
        else:
            term += tl.load(log_theta + number * period + column % period)
        # One exponential per term: the larger of the two has factor one.
        above = term - top
        small = tl.exp(-tl.abs(above))
        total = tl.where(above > 0, total * small + 1.0, total + small)
        top = tl.maximum(top, term)
    value = tl.where(total == 0, float("-inf"), top + tl.log(total))
    at_out = tl.load(out + first_sum + i).to(tl.int64) * n_columns
    tl.store(table + at_out + column, value, mask=is_used)


def by_parameter(
    grad: Tensor, values: Tensor, factors: Tensor, log_theta: Tensor, plan: Plan
) -> Tensor:
    """The gradient by the log-parameters, summed over the rows that share them."""
    is_by_row = log_theta.shape[1] > 1
    n_rows, k = (1, grad.numel()) if is_by_row else grad.shape
    found = log_theta.new_empty((len(log_theta) - 2, *log_theta.shape[1:]))
    width = min(128, triton.next_power_of_2(k))
    with torch.cuda.device(values.device):
        _sum_rows[(len(found), triton.cdiv(k, width))](
            grad,
            values,
            factors,
            log_theta,
            plan.edge_parent,
            plan.edge_left,
            plan.edge_right,
            found,
            n_rows,
            k,
            values.shape[1],
            ROWS=max(1, min(MOST_COLUMNS // width, triton.next_power_of_2(n_rows))),
            WIDTH=width,
        )
    return found


@triton.jit
def _sum_rows(
    grad,
    values,
    factors,
    log_theta,
    parent,
    left,
    right,
    found,
    n_rows,
    k,
    n_columns,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    edge = tl.program_id(0).to(tl.int64)
    component = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    is_component = component < k
    own = tl.load(log_theta + edge * k + component, mask=is_component, other=0.0)
    at_parent = factors + tl.load(parent + edge).to(tl.int64) * n_columns
    at_left = values + tl.load(left + edge).to(tl.int64) * n_columns
    at_right = values + tl.load(right + edge).to(tl.int64) * n_columns
    total = tl.zeros((ROWS, WIDTH), values.dtype.element_ty)
    for start in range(0, n_rows, ROWS):
        row = start + tl.arange(0, ROWS)
        column = row[:, None] * k + component[None, :]
        is_used = (row < n_rows)[:, None] & is_component[None, :]
        term = tl.load(at_parent + column, mask=is_used, other=0.0)
        term += tl.load(at_left + column, mask=is_used, other=0.0)
        term += tl.load(at_right + column, mask=is_used, other=0.0)
        weight = tl.load(grad + column, mask=is_used, other=0.0)
        total += tl.exp(term + own[None, :]) * weight
    tl.store(found + edge * k + component, tl.sum(total, axis=0), mask=is_component)
