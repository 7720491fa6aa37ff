"""Log-probabilities of partly observed rows on a device of torch, by passes through the circuit.

In:  a model, and codes of rows.
Out: log-probabilities per row and component, in float32 accuracy.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from strudel._types import AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.on_device.passes import (
    choice_parameters,
    literal_logs,
    packed,
    root_value,
    with_fixed,
)
from strudel.circuits.passes import UNKNOWN
from strudel.queries.model import Model, part_of

_packed: WeakKeyDictionary[Circuit, tuple[Tensor, list[int]]] = WeakKeyDictionary()


def component_log_probabilities_on(device: Any, model: Model, codes: AnyArray) -> FloatArray:
    """Log-probabilities `(n_rows, n_components)`, without the weights of the components."""
    rows = torch.from_numpy(codes).to(device)
    literals = literal_logs(rows.float(), rows == UNKNOWN)
    part = part_of(model)
    index, layout, log_theta, total = _on(device, part.structure, part.edge_log_theta)
    found = root_value(literals, log_theta, index, layout) + total
    return found.cpu().double().numpy()


def _on(
    device: Any, circuit: Circuit, edge_log_theta: FloatArray
) -> tuple[Tensor, list[int], Tensor, Tensor]:
    """A structure and its parameters on the device."""
    if circuit not in _packed:
        _packed[circuit] = packed(circuit)
    index, layout = _packed[circuit]
    logs, totals = choice_parameters(circuit, edge_log_theta)
    log_theta = with_fixed(torch.from_numpy(logs).to(device, torch.float32)).unsqueeze(1)
    return index.to(device), layout, log_theta, torch.from_numpy(totals).to(device, torch.float32)
