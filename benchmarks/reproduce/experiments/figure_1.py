"""The paper's figure 1: its example circuit, and the active edges of one row.

In:  nothing.
Out: the probability of the row, and what its active edges multiply to.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduce.tasks import Settings
from strudel.circuits.compile import figure_1_circuit
from strudel.circuits.flows import lines_of, lines_taken
from strudel.queries.likelihood import log_likelihood

ROW = (1, 0, 1, 0)


def run(name: str, settings: Settings) -> dict[str, Any]:
    """Evaluate the row; there is no table and nothing to limit."""
    circuit = figure_1_circuit()
    taken = lines_taken(circuit, np.array([ROW]))[0, :-1]
    logs = lines_of(circuit).log_value[taken[taken >= 0], 0]
    return {
        "row": list(ROW),
        "probability": float(np.exp(log_likelihood(circuit, [ROW])[0])),
        "product_of_active_edges": float(np.exp(logs.sum())),
        "edges": circuit.size,
        "active_edges": len(logs),
    }
