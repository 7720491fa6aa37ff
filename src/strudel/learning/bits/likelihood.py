"""Likelihood of rows of 0 and 1, in which NaN is unknown: the circuit over columns is asked.

In:  a `BitCircuit` or a `BitMixture`, and rows.
Out: log-likelihoods of rows; the posterior of the components; the probability that each variable is
     1, given each row; and log-probabilities of rows together with the class that components or
     variables stand for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._types import AnyArray, ByteArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.passes import Plan
from strudel.circuits.walks import raise_if_impossible
from strudel.data.bits import encode
from strudel.data.validation import slices
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.fold import folded
from strudel.learning.bits.mixture import BitMixture, Model
from strudel.queries.cells import cell_probabilities
from strudel.queries.given import component_posterior
from strudel.queries.likelihood import log_probabilities_of_rows, logs_of_rows
from strudel.tables.evidence import Evidence

BLOCK_LOGS = 2**22  # of rows and components, made at a time


def rows_log_likelihood(model: Model, rows: AnyArray, device: Any = None) -> FloatArray:
    """Log-likelihood of rows of the 0/1 variables; where values are unknown, of the known ones.

    `rows` are uint8, or float64 with NaN where a value is unknown. They can be evaluated on a
    `torch.device`.
    """
    circuit = folded(model)
    return log_probabilities_of_rows(circuit, _evidence(circuit, rows), device)


def _evidence(circuit: Circuit, rows: AnyArray) -> Evidence:
    """Rows of codes, in which an unknown value has the code after those of the cells."""
    codes = rows if rows.dtype == np.uint8 else encode(rows)
    weights = circuit.columns.equal_weights
    return Evidence(circuit.columns, codes.astype(np.int32), weights, {}, {})


def rows_responsibilities(model: Model, rows: FloatArray) -> FloatArray:
    """Probability of every component given each row of 0, 1 and NaN."""
    circuit = folded(model)
    weight = np.empty((len(rows), circuit.n_components))
    for part in _blocks(circuit, len(rows)):
        logs = logs_of_rows(circuit, _evidence(circuit, rows[part]))
        weight[part] = component_posterior(circuit, logs)
    raise_if_impossible(np.where(np.isnan(weight[:, 0]), -np.inf, 0.0))
    return weight


def _blocks(circuit: Circuit, n_rows: int) -> Any:
    return slices(n_rows, max(1, BLOCK_LOGS // circuit.n_components))


def literal_probabilities(model: Model, codes: AnyArray) -> FloatArray:
    """P(X_i = 1 | row) for every row of codes and every i."""
    circuit = folded(model)
    _, cells = cell_probabilities(circuit, _evidence(circuit, codes), range(codes.shape[1]))
    return np.stack([own[:, 1] for own in cells], axis=1)


def class_logs(mixture: BitMixture, component_class: IntArray, rows: FloatArray) -> FloatArray:
    """Log P(known values of a row, class), `(n_rows, n_classes)`.

    Every component has a class in `component_class`: 0, 1, ..., in this order.

    The weights of the mixture hold the shares of the classes. Rows are 0, 1 and NaN.
    """
    first = np.flatnonzero(np.diff(component_class, prepend=-1))
    logs, circuit = np.empty((len(rows), len(first))), folded(mixture)
    for part in _blocks(circuit, len(rows)):
        by_component = logs_of_rows(circuit, _evidence(circuit, rows[part])) + circuit.log_weight
        logs[part] = np.logaddexp.reduceat(by_component, first, axis=1)
    return logs


def class_logs_of_joint(mixture: BitMixture, codewords: ByteArray, rows: FloatArray) -> FloatArray:
    """The same where the last variables are the class, whose values are `codewords`.

    Rows hold the other variables: 0, 1 and NaN.
    """
    logs = np.empty((len(rows), len(codewords)))
    for c, word in enumerate(codewords.astype(np.float64)):
        joint = np.hstack([rows, np.tile(word, (len(rows), 1))])
        logs[:, c] = rows_log_likelihood(mixture, joint)
    return logs


def plan(circuit: BitCircuit) -> Plan:
    """Lay out a circuit for passes of its own parameters."""
    n_literals = 2 * circuit.n_vars
    sum_vtree = circuit.node_vtree[n_literals:]
    return Plan(
        circuit.vtree.node_left,
        circuit.vtree.node_right,
        circuit.vtree.node_var,
        np.searchsorted(sum_vtree, np.arange(circuit.vtree.n_nodes + 1)).astype(np.int32),
        np.arange(n_literals, circuit.n_nodes, dtype=np.int32),
        sum_vtree,
        circuit.node_edges,
        circuit.edge_left,
        circuit.edge_right,
    )
