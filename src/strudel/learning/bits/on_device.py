"""Log-likelihoods of rows of 0 and 1 on a device of torch, in float32 accuracy; of the learner.

In:  a mixture of deterministic components over 0/1 variables, and complete rows.
Out: log-likelihoods per row.

Flows are found by the kernels of the CPU, once for all components; their products with the
parameters are on the device, a block of rows after the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from strudel._types import ByteArray, FloatArray
from strudel.circuits.on_device.flow_products import (
    FlowBlock,
    Parameters,
    log_products,
    log_sums,
)
from strudel.data.bits import pack_columns
from strudel.data.validation import slices
from strudel.learning.bits.flows import compute_flows
from strudel.learning.bits.mixture import BitMixture

BLOCK_ROWS = 2**15
BLOCK_NUMBERS = 2**28  # of a 0/1 matrix, or of logs: 1 GiB


def log_likelihood_on(device: Any, mixture: BitMixture, rows: ByteArray) -> FloatArray:
    """Log-likelihoods `(n_rows,)` under the mixture."""
    log_p = np.empty(len(rows))
    for part in slices(len(rows), _rows_at_a_time(mixture)):
        logs = _logs_on(device, mixture, rows[part])
        log_p[part] = logs.double().cpu().numpy()
    return log_p


def _rows_at_a_time(mixture: BitMixture) -> int:
    return max(1, min(BLOCK_ROWS, BLOCK_NUMBERS // mixture.n_components))


def _logs_on(device: Any, mixture: BitMixture, rows: ByteArray) -> Tensor:
    flows = compute_flows(mixture.structure, pack_columns(rows))
    # Only edges that some row takes and that carry a parameter.
    is_taken = np.zeros(mixture.n_edges + 1, dtype=np.bool_)
    is_taken[flows.active_edge] = True
    edges = np.flatnonzero(is_taken[:-1])
    edges = edges[np.any(mixture.edge_log_theta[edges] != 0.0, axis=1)]
    column = np.full(mixture.n_edges + 1, len(edges), dtype=np.int32)  # the last one for NONE
    column[edges] = np.arange(len(edges))
    codes = column[flows.active_edge].T
    logs = torch.from_numpy(mixture.edge_log_theta[edges]).to(device)
    base = torch.from_numpy(mixture.log_weight.copy()).to(device)
    parameters = Parameters.of(logs, base, bool(torch.isinf(logs).any()))
    found = []
    for block in slices(len(rows), max(1, BLOCK_NUMBERS // (2 * len(edges) + 2))):
        matrix = FlowBlock.of(codes[block], len(edges), device, is_kept=False).matrix()
        own = log_products(matrix, parameters)[: block.stop - block.start]
        found.append(log_sums(own, parameters.base, 1)[:, 0])
    logs = torch.cat(found)
    logs[torch.from_numpy(~flows.is_possible).to(device)] = -torch.inf
    return logs
