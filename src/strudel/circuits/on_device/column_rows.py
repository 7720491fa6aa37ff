"""Log-probabilities of rows of cells on a device of torch.

In:  a `Circuit`; the cells of complete rows, or codes of evidence.
Out: log-probabilities per row and component, without the weights of the components.

What complete rows take of a deterministic circuit is found by the kernels of the CPU, once for all
components; the products with the parameters are on the device, a block of rows after the other. All
other rows are a pass through the circuit. Both are in float32 accuracy.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.flows import lines_of, lines_taken
from strudel.circuits.on_device.flow_products import FlowBlock, Parameters, log_products
from strudel.circuits.on_device.levels import choice_edges, graph_of
from strudel.circuits.on_device.passes import packed, root_value, with_fixed
from strudel.circuits.walks import LeafRows
from strudel.data.validation import slices

BLOCK_ROWS = 2**15
BLOCK_NUMBERS = 2**27  # of a 0/1 matrix, or of logs: 1 GiB or less

_packed: WeakKeyDictionary[Circuit, tuple[Tensor, list[int]]] = WeakKeyDictionary()


def flow_logs_on(device: Any, circuit: Circuit, cells: IntArray) -> FloatArray:
    """Log-likelihoods `(n_rows, n_components)` of complete rows of a deterministic circuit."""
    log_p = np.empty((len(cells), circuit.n_components))
    for part in slices(len(cells), max(1, min(BLOCK_ROWS, BLOCK_NUMBERS // log_p.shape[1]))):
        log_p[part] = _flow_logs_on(device, circuit, cells[part])
    return log_p


def _flow_logs_on(device: Any, circuit: Circuit, cells: IntArray) -> FloatArray:
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


def component_logs_on(device: Any, circuit: Circuit, rows: LeafRows, codes: AnyArray) -> FloatArray:
    """Log-probabilities `(n_rows, n_components)` of rows of codes, as `component_logs_of`."""
    if circuit not in _packed:
        _packed[circuit] = packed(graph_of(circuit))
    index, layout = _packed[circuit]
    chosen = choice_edges(graph_of(circuit))
    log_theta = _on(device, circuit.edge_log_theta[chosen], np.float32)
    table, first = _on(device, rows.log_value, np.float32), _on(device, rows.first, np.int64)
    column = _on(device, circuit.leaf_column, np.int64)
    found = np.empty((len(codes), circuit.n_components))
    for part in slices(len(codes), max(1, BLOCK_NUMBERS // (circuit.n_leaves * found.shape[1]))):
        leaves = table[first[:, None] + _on(device, codes[part].T, np.int64)[column]]
        logs = root_value(leaves, with_fixed(log_theta).unsqueeze(1), index.to(device), layout)
        found[part] = logs.cpu().numpy()
    return found


def _on(device: Any, array: AnyArray, dtype: Any) -> Tensor:
    return torch.from_numpy(np.array(array, dtype=dtype)).to(device)
