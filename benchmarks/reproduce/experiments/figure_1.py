"""The paper's figure 1: its example circuit, and the active edges of one row.

In:  nothing.
Out: the probability of the row, and what its active edges multiply to.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduce.tasks import Settings
from strudel.circuits.examples import figure_1_circuit
from strudel.learning.bits.flows import dense_flows
from strudel.queries.likelihood import log_likelihood

ROW = (1, 0, 1, 0)


def run(name: str, settings: Settings) -> dict[str, Any]:
    """Evaluate the row; there is no table and nothing to limit."""
    circuit = figure_1_circuit()
    is_active = dense_flows(circuit, np.array([ROW], dtype=np.uint8))[:, 0] != 0
    return {
        "row": list(ROW),
        "probability": float(np.exp(log_likelihood(circuit, [ROW])[0])),
        "product_of_active_edges": float(np.exp(circuit.edge_log_theta[is_active].sum())),
        "edges": circuit.n_edges,
        "active_edges": int(is_active.sum()),
    }
