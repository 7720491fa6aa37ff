"""Log-probabilities of rows of cells on a device of torch.

In:  a `ColumnCircuit`; the cells of complete rows, or codes of evidence.
Out: log-probabilities per row and component, without the weights of the components.

What complete rows take of a deterministic circuit is found by the kernels of the CPU, once for all
components; the products with the parameters are on the device, in float32 accuracy, a block of rows
after the other. All other rows walk up the circuit on the device, in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.column_circuit import ColumnCircuit
from strudel.circuits.column_flows import lines_of, lines_taken
from strudel.circuits.on_device.flow_products import FlowBlock, Parameters, log_products
from strudel.circuits.walks import LeafRows, component_logs_of, edges_at, first_node
from strudel.data.validation import slices

BLOCK_ROWS = 2**15
BLOCK_NUMBERS = 2**27  # of a 0/1 matrix, or of logs: 1 GiB or less


def flow_logs_on(device: Any, circuit: ColumnCircuit, cells: IntArray) -> FloatArray:
    """Log-likelihoods `(n_rows, n_components)` of complete rows of a deterministic circuit."""
    log_p = np.empty((len(cells), circuit.n_components))
    for part in slices(len(cells), max(1, min(BLOCK_ROWS, BLOCK_NUMBERS // log_p.shape[1]))):
        log_p[part] = _flow_logs_on(device, circuit, cells[part])
    return log_p


def _flow_logs_on(device: Any, circuit: ColumnCircuit, cells: IntArray) -> FloatArray:
    taken = lines_taken(circuit, cells)
    log_value = lines_of(circuit).log_value
    used, codes = np.unique(np.append(taken[:, :-1].ravel(), NONE), return_inverse=True)
    used = used[1:]  # without NONE, which becomes the last code
    codes = codes.ravel()[:-1].reshape(len(cells), -1) - 1
    codes[codes == NONE] = len(used)
    logs = torch.from_numpy(log_value[used]).to(device)
    base = torch.zeros(circuit.n_components, dtype=torch.float64, device=device)
    parameters = Parameters.of(logs, base, bool(torch.isinf(logs).any()))
    found = []
    for block in slices(len(cells), max(1, BLOCK_NUMBERS // (len(used) + 1))):
        matrix = FlowBlock.of(codes[block], len(used), device, is_kept=False).matrix()
        own = log_products(matrix, parameters)[: block.stop - block.start]
        found.append(own[:, : circuit.n_components].double().cpu().numpy())
    answer = np.concatenate(found)
    answer[taken[:, -1] == NONE] = -np.inf
    return answer


def component_logs_on(
    device: Any, circuit: ColumnCircuit, rows: LeafRows, codes: AnyArray
) -> FloatArray:
    """Log-probabilities `(n_rows, n_components)` of rows of codes, as `component_logs_of`.

    Nodes at one vtree node share a scale; what gets lost by that is walked again in logs.
    """
    table = torch.from_numpy(rows.log_value).to(device)
    log_theta = torch.from_numpy(circuit.edge_log_theta.copy()).to(device)
    found = np.empty((len(codes), circuit.n_components))
    size = (circuit.n_nodes + circuit.n_edges) * circuit.n_components
    for part in slices(len(codes), max(1, BLOCK_NUMBERS // size)):
        found[part] = _root_on(device, circuit, rows.first, table, log_theta, codes[part])
    is_lost: AnyArray = np.any(found == -np.inf, axis=1)
    if is_lost.any():
        found[is_lost] = component_logs_of(circuit, rows, codes[is_lost])
    return found


def _root_on(
    device: Any,
    circuit: ColumnCircuit,
    first: IntArray,
    table: Tensor,
    log_theta: Tensor,
    codes: AnyArray,
) -> FloatArray:
    def on(index: AnyArray) -> Tensor:
        return torch.from_numpy(index.astype(np.int64)).to(device)

    vtree = circuit.vtree
    values: dict[int, Tensor] = {}
    for v in range(vtree.n_nodes):
        place = int(vtree.node_var[v])
        if place != NONE:
            own = first[slice(*circuit.column_leaves[place : place + 2])]
            values[v] = table[on(own)[:, None] + on(codes[:, place])]
            continue
        l, r = int(vtree.node_left[v]), int(vtree.node_right[v])
        edges, _ = edges_at(circuit, v)
        terms = values.pop(l)[on(circuit.edge_left[edges] - first_node(circuit, l))]
        terms = terms + values.pop(r)[on(circuit.edge_right[edges] - first_node(circuit, r))]
        terms += log_theta[edges][:, None]
        top = terms.amax(dim=0)
        top[top == -torch.inf] = 0.0
        owner = circuit.edge_sum[edges] - circuit.vtree_sums[v]
        sums = terms.new_zeros((int(owner[-1]) + 1, *top.shape))
        sums.index_add_(0, on(owner), torch.exp(terms - top))
        values[v] = torch.log(sums) + top
    return np.asarray(values[vtree.root][-1].cpu().numpy())
