"""Likelihoods of many components as matrix products, on a device of torch.

In:  per row, the few columns of a 0/1 matrix F that are one: what the row takes of a structure.
Out: `FlowBlock`, which multiplies F by parameters T, and its transpose by responsibilities.

F has a column for each choice of a row, and a last one that is one in every row: its line of T
holds what all rows share. The logs of all rows under all components are F @ T, and the weight
through every choice is the transposed F by the responsibilities (rows are padded with zeros).

Products run on tensor cores in TF32, which keeps 11 bits of each factor. F is exact in that; T and
the responsibilities come as two parts, of 11 bits each, whose products are added in float32: 22
bits are left. TF32 alone could be wrong by 0.02 nats in a log-likelihood of 40.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from strudel._types import AnyArray

CHUNK = 2048  # rows of one sum in float32; sums of chunks are in float64
ALIGNMENT = 8  # numbers: products are slower with rows that begin anywhere
LOW_BITS = 13  # of float32, which TF32 does not keep


@dataclass(frozen=True, eq=False)
class FlowBlock:
    """Some rows on a device, padded with empty ones to whole chunks."""

    codes: Tensor  # (n_padded, n_entries) the columns that are one; `constant` where there is none
    n_rows: int
    constant: int  # the last column, which is one in every row
    kept: Tensor | None  # F itself, where all of them are small

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

    @property
    def kept_bytes(self) -> int:
        """Memory of F, if it is kept."""
        return 0 if self.kept is None else int(self.kept.nbytes)

    @property
    def n_padded(self) -> int:
        """Number of rows, the empty ones included."""
        return len(self.codes)

    def matrix(self) -> Tensor:
        """F, `(n_padded, width)`."""
        if self.kept is not None:
            return self.kept
        width = aligned(self.constant + 1)
        matrix = torch.zeros((self.n_padded, width), device=self.codes.device)
        matrix.scatter_(1, self.codes.long(), 1.0)
        matrix[: self.n_rows, self.constant] = 1.0
        matrix[self.n_rows :] = 0.0
        return matrix

    def padded(self, by_row: AnyArray, dtype: Any = torch.float64) -> Tensor:
        """What every row has, on the device; zero for the empty rows."""
        padded = torch.zeros(
            (self.n_padded, *by_row.shape[1:]), dtype=dtype, device=self.codes.device
        )
        padded[: self.n_rows] = torch.from_numpy(np.ascontiguousarray(by_row)).to(padded)
        return padded


@dataclass(frozen=True, eq=False)
class Parameters:
    """T in two parts, `(width, n_columns)` both, with aligned columns; zeros in what is padded."""

    high: Tensor
    low: Tensor
    is_zero: Tensor | None  # 1.0 where the parameter itself, not its log, is zero; None for none

    @classmethod
    def of(cls, logs: Tensor, may_be_zero: bool) -> Parameters:
        """From float64; the last line is for the constant."""
        width, n_columns = logs.shape
        shape = (aligned(width), aligned(n_columns))
        high, low = (torch.zeros(shape, device=logs.device) for _ in range(2))
        is_zero = None
        if may_be_zero:
            is_zero = torch.zeros(shape, device=logs.device)
            is_zero[:width, :n_columns] = logs == -torch.inf
            logs = logs.masked_fill(logs == -torch.inf, 0.0)
        high[:width, :n_columns] = upper_bits(logs.float())
        low[:width, :n_columns] = logs - high[:width, :n_columns]
        return cls(high, low, is_zero)


def log_products(matrix: Tensor, parameters: Parameters) -> Tensor:
    """F @ T: logs of all rows under all columns, the padded ones included."""
    logs = matrix @ parameters.high
    logs.addmm_(matrix, parameters.low)
    if parameters.is_zero is not None:
        logs.masked_fill_(matrix @ parameters.is_zero > 0.5, -torch.inf)
    return logs


def transposed_products(matrix: Tensor, high: Tensor, low: Tensor) -> Tensor:
    """The sums of lines of `high + low` over the rows that take each choice, in float64."""
    chunks = matrix.unflatten(0, (-1, CHUNK)).transpose(1, 2)
    sums = torch.bmm(chunks, high.unflatten(0, (-1, CHUNK)))
    sums.baddbmm_(chunks, low.unflatten(0, (-1, CHUNK)))
    return sums.sum(dim=0, dtype=torch.float64)


def upper_bits(numbers: Tensor) -> Tensor:
    """What TF32 keeps of numbers in float32."""
    kept: Tensor = ((numbers.view(torch.int32) >> LOW_BITS) << LOW_BITS).view(torch.float32)
    return kept


def log_sums(logs: Tensor, n_groups: int, size: int) -> Tensor:
    """Log of the summed exponentials of every group of columns, `(n_padded, n_groups)`."""
    fused = _fused(logs, size)
    if fused is not None:
        return fused(logs, n_groups, size, None)[0]
    sums: Tensor = torch.logsumexp(_grouped(logs, n_groups, size), dim=2)
    return sums


def shares_in_parts(
    logs: Tensor, n_groups: int, size: int, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Log sums of groups, and the upper and lower part of weighted shares; `logs` are lost.

    `weight` is of shape `(n_padded, 1)` or `(n_padded, n_groups)`.
    """
    fused = _fused(logs, size)
    if fused is not None:
        return fused(logs, n_groups, size, weight)
    sums = log_sums(logs, n_groups, size)
    grouped = _grouped(logs, n_groups, size)
    grouped.sub_(torch.where(sums == -torch.inf, 0.0, sums).unsqueeze(2))
    grouped.exp_().mul_(weight.float().unsqueeze(2))
    high = upper_bits(logs)
    return sums, high, logs.sub_(high)


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def _fused(logs: Tensor, size: int) -> Callable[..., tuple[Tensor, Tensor, Tensor]] | None:
    """All of it in one pass, where there is CUDA and Triton."""
    if logs.device.type != "cuda" or not _has_triton():
        return None
    from strudel.circuits.flow_shares import MOST_COLUMNS, fused_shares

    return fused_shares if size <= MOST_COLUMNS else None


def _grouped(logs: Tensor, n_groups: int, size: int) -> Tensor:
    return logs[:, : n_groups * size].unflatten(1, (n_groups, size))


def aligned(n: int) -> int:
    """The next multiple that products like."""
    return -(-n // ALIGNMENT) * ALIGNMENT


@contextmanager
def tensor_cores(device: Any) -> Iterator[None]:
    """Products in TF32, where there is CUDA."""
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
