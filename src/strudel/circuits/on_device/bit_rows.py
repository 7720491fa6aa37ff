"""Log-probabilities of rows of 0 and 1 on a device of torch, in float32 accuracy.

In:  a model over 0/1 variables; complete rows, or codes of rows in which values may be unknown.
Out: log-likelihoods per row, or log-probabilities per row and component.

Flows of complete rows through deterministic components are found by the kernels of the CPU, once
for all components; their products with the parameters are on the device, a block of rows after the
other. All other rows pass through the circuit on the device.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from strudel._types import AnyArray, ByteArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.flows import compute_flows
from strudel.circuits.mixture import Mixture, Model, part_of
from strudel.circuits.normalization import normalized_parameters
from strudel.circuits.on_device.flow_products import (
    FlowBlock,
    Parameters,
    log_products,
    log_sums,
)
from strudel.circuits.on_device.levels import choice_edges, graph_of_bits
from strudel.circuits.on_device.passes import packed, root_value, with_fixed
from strudel.circuits.passes import UNKNOWN
from strudel.data.bits import pack_columns
from strudel.data.validation import slices

BLOCK_ROWS = 2**15
BLOCK_NUMBERS = 2**28  # of a 0/1 matrix, or of logs: 1 GiB

_packed: WeakKeyDictionary[Circuit, tuple[Tensor, list[int]]] = WeakKeyDictionary()


def log_likelihood_on(device: Any, mixture: Mixture, rows: ByteArray) -> FloatArray:
    """Log-likelihoods `(n_rows,)` under the mixture."""
    log_p = np.empty(len(rows))
    for part in slices(len(rows), _rows_at_a_time(mixture)):
        logs = _logs_on(device, mixture, rows[part], is_summed=True)
        log_p[part] = logs.double().cpu().numpy()
    return log_p


def component_logs_on(device: Any, mixture: Mixture, rows: ByteArray) -> FloatArray:
    """Log-likelihoods `(n_rows, n_components)`, without the weights of the components."""
    log_p = np.empty((len(rows), mixture.n_components))
    for part in slices(len(rows), _rows_at_a_time(mixture)):
        log_p[part] = _logs_on(device, mixture, rows[part], is_summed=False).cpu().numpy()
    return log_p


def _rows_at_a_time(mixture: Mixture) -> int:
    return max(1, min(BLOCK_ROWS, BLOCK_NUMBERS // mixture.n_components))


def _logs_on(device: Any, mixture: Mixture, rows: ByteArray, *, is_summed: bool) -> Tensor:
    """The logs of the components `(n_rows, k)`, or of their weighted sum `(n_rows,)`."""
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
        if is_summed:
            found.append(log_sums(own, parameters.base, 1)[:, 0])
        else:
            found.append(own[:, : mixture.n_components])
    logs = torch.cat(found)
    logs[torch.from_numpy(~flows.is_possible).to(device)] = -torch.inf
    return logs


def component_log_probabilities_on(device: Any, model: Model, codes: AnyArray) -> FloatArray:
    """Log-probabilities `(n_rows, n_components)`, without the weights of the components."""
    rows = torch.from_numpy(codes).to(device)
    literals = _literal_logs(rows.float(), rows == UNKNOWN)
    part = part_of(model)
    index, layout, log_theta, total = _on(device, part.structure, part.edge_log_theta)
    found = root_value(literals, log_theta, index, layout) + total
    return found.cpu().double().numpy()


def _on(
    device: Any, circuit: Circuit, edge_log_theta: FloatArray
) -> tuple[Tensor, list[int], Tensor, Tensor]:
    """A structure and its parameters on the device."""
    if circuit not in _packed:
        _packed[circuit] = packed(graph_of_bits(circuit))
    index, layout = _packed[circuit]
    logs, totals = _choice_parameters(circuit, edge_log_theta)
    log_theta = with_fixed(torch.from_numpy(logs).to(device, torch.float32)).unsqueeze(1)
    return index.to(device), layout, log_theta, torch.from_numpy(totals).to(device, torch.float32)


def _choice_parameters(circuit: Circuit, log_theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log-parameters `(n_parameters, k)` of edges with a choice, and `(k,)` logs of the totals.

    Columns of `log_theta` `(n_edges, k)` that are not normalised become so; the logs of what they
    added up to are the totals. Others are kept to the last digit, and have total zero.
    """
    found, totals = np.array(log_theta), np.zeros(log_theta.shape[1])
    for c, column in enumerate(log_theta.T):
        own = np.ascontiguousarray(column)
        logs, total = normalized_parameters(circuit.edges, own, circuit.n_vars)
        is_same = (logs == own) | np.isclose(logs, own, rtol=0.0, atol=1e-9)
        if not is_same.all():
            found[:, c], totals[c] = logs, total
    return found[choice_edges(graph_of_bits(circuit))], totals


def _literal_logs(rows: Tensor, is_unknown: Tensor) -> Tensor:
    """Log-likelihoods of the literals `(2 * n_vars, n_rows, 1)` for rows of 0 and 1."""
    values = torch.stack([1.0 - rows, rows], dim=2)
    logs = torch.log(torch.where(is_unknown.unsqueeze(2), 1.0, values))
    return logs.flatten(1).T.unsqueeze(2)
