"""Likelihoods of many components as matrix products, on a device of torch.

In:  per row, the few columns of a 0/1 matrix F that are one: what the row takes of a structure.
Out: `FlowBlock`, which holds F, `Parameters` T, and their products.

F has a column for each choice of a row, and a last one that is one in every row. The logs of all
rows under all components are F @ T, and the weight through every choice, and in all, is the
transposed F by the responsibilities. Rows are padded with zeros.

Products run on tensor cores in float16, which keeps 11 bits, with sums in float32. F is exact in
that. T and the responsibilities come as two parts of 11 bits each, so 22 bits of them are left. One
part alone, or TF32, could be wrong by 0.02 nats in a log-likelihood of 40.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from strudel._types import AnyArray

CHUNK = 2048  # rows of one sum in float32; sums of chunks are in float64
ALIGNMENT = 16  # numbers: products are slower with rows that begin anywhere
LOW_SCALE = 2.0**11  # of the lower part of shares, so that it is no smaller than float16 can be


@dataclass(frozen=True, eq=False)
class FlowBlock:
    """Some rows on a device, padded with empty ones to whole chunks."""

    codes: Tensor  # (n_padded, n_entries) the columns that are one; `constant` where there is none
    n_rows: int
    constant: int  # the last column, which is one in every row
    kept: Tensor | None  # the matrix, where all of them are small

    @classmethod
    def of(cls, codes: AnyArray, constant: int, device: Any, is_kept: bool) -> FlowBlock:
        """Rows by their entries `(n_rows, n_entries)`, `constant` where a row has fewer."""
        n_rows = len(codes)
        dtype = np.int16 if constant < 2**15 else np.int32
        here = torch.from_numpy(np.ascontiguousarray(codes.astype(dtype, copy=False))).to(device)
        padded = here.new_full((-(-n_rows // CHUNK) * CHUNK, here.shape[1]), constant)
        padded[:n_rows] = here
        block = cls(padded, n_rows, constant, None)
        return cls(padded, n_rows, constant, block.matrix()) if is_kept else block

    @staticmethod
    def matrix_bytes(n_rows: int, constant: int) -> int:
        """Memory of the matrix."""
        return -(-n_rows // CHUNK) * CHUNK * 2 * aligned(constant + 1) * 2

    @property
    def kept_bytes(self) -> int:
        """Memory of the matrix, if it is kept."""
        return 0 if self.kept is None else int(self.kept.nbytes)

    @property
    def n_padded(self) -> int:
        """Number of rows, the empty ones included."""
        return len(self.codes)

    def matrix(self) -> Tensor:
        """F twice, side by side, `(n_padded, 2 * width)`: for both parts of T in one product."""
        if self.kept is not None:
            return self.kept
        width = aligned(self.constant + 1)
        matrix = torch.zeros(
            (self.n_padded, 2 * width), dtype=torch.float16, device=self.codes.device
        )
        one = matrix[:, :width]
        one.scatter_(1, self.codes.long(), 1.0)
        one[: self.n_rows, self.constant] = 1.0
        one[self.n_rows :] = 0.0
        matrix[:, width:] = one
        return matrix

    def padded(self, by_row: AnyArray, dtype: Any = torch.float64) -> Tensor:
        """What every row has, on the device; zero for the empty rows."""
        padded = torch.zeros(
            (self.n_padded, *by_row.shape[1:]), dtype=dtype, device=self.codes.device
        )
        padded[: self.n_rows] = torch.from_numpy(np.array(by_row)).to(padded)
        return padded


@dataclass(frozen=True, eq=False)
class Parameters:
    """T in two parts, one over the other, with aligned columns; zeros in what is padded."""

    parts: Tensor  # (2 * width, n_aligned) float16
    base: Tensor  # (n_columns,) float32, what all rows have in common
    is_zero: Tensor | None  # 1.0 where the parameter itself, not its log, is zero; None for none

    @classmethod
    def of(
        cls, logs: Tensor, base: Tensor, may_be_zero: bool, room: Tensor | None = None
    ) -> Parameters:
        """From float64: a line of `logs` for each choice. `room` is that of earlier parameters."""
        n_choices, n_columns = logs.shape
        width = aligned(n_choices + 1)
        if room is None:
            shape = (2 * width, aligned(n_columns))
            room = torch.zeros(shape, dtype=torch.float16, device=logs.device)
        is_zero = None
        if may_be_zero:
            is_zero = torch.zeros_like(room)
            is_zero[:n_choices, :n_columns] = logs == -torch.inf
            logs = logs.masked_fill(logs == -torch.inf, 0.0)
        high, low = room[:n_choices, :n_columns], room[width : width + n_choices, :n_columns]
        high.copy_(logs)
        torch.sub(logs, high, out=low)
        return cls(room, base.float(), is_zero)


def log_products(matrix: Tensor, parameters: Parameters) -> Tensor:
    """F @ T: logs of all rows under all columns, the padded ones included, without the base."""
    logs = _product(matrix, parameters.parts)
    if parameters.is_zero is not None:
        logs.masked_fill_(_product(matrix, parameters.is_zero) > 0.5, -torch.inf)
    return logs


def transposed_products(matrix: Tensor, high: Tensor, low: Tensor) -> Tensor:
    """The sums of shares over the rows that take each choice, and over all, in float64."""
    chunks = matrix[:, : matrix.shape[1] // 2].unflatten(0, (-1, CHUNK)).transpose(1, 2)
    sums = _product(chunks, high.unflatten(0, (-1, CHUNK)))
    sums.add_(_product(chunks, low.unflatten(0, (-1, CHUNK))), alpha=1.0 / LOW_SCALE)
    return sums.sum(dim=0, dtype=torch.float64)


def _product(left: Tensor, right: Tensor) -> Tensor:
    """The product of matrices, or of a batch of them, in float16, with sums in float32."""
    if left.is_cuda and _adds_in_float32():
        product = torch.mm if left.ndim == 2 else torch.bmm
        return product(left, right, out_dtype=torch.float32)
    return left.float() @ right.float()


@cache
def _adds_in_float32() -> bool:
    """Whether torch has products of float16 that return float32."""
    major, minor = (int(part) for part in torch.__version__.split(".")[:2])
    return (major, minor) >= (2, 8)


def log_sums(logs: Tensor, base: Tensor, n_groups: int) -> Tensor:
    """Log of the summed exponentials of every group of columns, `(n_padded, n_groups)`.

    `logs` may become those with the base.
    """
    fused = _fused(logs, base, n_groups)
    if fused is not None:
        return fused(logs, base, n_groups, None)[0]
    sums: Tensor = torch.logsumexp(_grouped(logs, base, n_groups), dim=2)
    return sums


def shares_in_parts(
    logs: Tensor, base: Tensor, n_groups: int, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Log sums of groups, and the upper and lower part of weighted shares; `logs` are lost.

    `weight` is float32 of shape `(n_padded, 1)` or `(n_padded, n_groups)`, at most 1.
    """
    fused = _fused(logs, base, n_groups)
    if fused is not None:
        return fused(logs, base, n_groups, weight)
    grouped = _grouped(logs, base, n_groups)
    sums = torch.logsumexp(grouped, dim=2)
    grouped.sub_(torch.where(sums == -torch.inf, 0.0, sums).unsqueeze(2))
    grouped.exp_().mul_(weight.unsqueeze(2))
    return sums, *in_parts(logs)


def in_parts(shares: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers up to 1 as an upper and a lower part in float16; `shares` are lost."""
    high = shares.half()
    return high, shares.sub_(high).mul_(LOW_SCALE).half()


def _grouped(logs: Tensor, base: Tensor, n_groups: int) -> Tensor:
    """The logs with the base, `(n_padded, n_groups, size)`."""
    return logs[:, : len(base)].add_(base).unflatten(1, (n_groups, -1))


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def _fused(
    logs: Tensor, base: Tensor, n_groups: int
) -> Callable[..., tuple[Tensor, Tensor, Tensor]] | None:
    """All of it in one pass, where there is CUDA and Triton."""
    if not logs.is_cuda or not _has_triton():
        return None
    from strudel.circuits.on_device.flow_shares import MOST_COLUMNS, fused_shares

    return fused_shares if len(base) // n_groups <= MOST_COLUMNS else None


def aligned(n: int) -> int:
    """The next multiple that products like."""
    return -(-n // ALIGNMENT) * ALIGNMENT
