"""Classes given rows: log-probabilities of a row together with each class.

In:  a `Mixture`, and how it holds the classes: some components each, or variables of their own.
Out: log P(known values of a row, class), `(n_rows, n_classes)`; unknown values are summed out.
"""

from __future__ import annotations

import numpy as np

from strudel._types import ByteArray, FloatArray, IntArray
from strudel.circuits.mixture import Mixture
from strudel.data.containers import slices
from strudel.queries.mixture_likelihood import component_logs
from strudel.queries.passes import encode
from strudel.queries.probabilities import log_mean, rows_at_a_time


def class_logs(mixture: Mixture, component_class: IntArray, rows: FloatArray) -> FloatArray:
    """Where every component has a class in `component_class`: 0, 1, ..., in this order.

    The weights of the mixture hold the shares of the classes. Rows are 0, 1 and NaN.

    Examples
    --------
    >>> from strudel import Mixture
    >>> from strudel.circuits import figure_1_circuit
    >>> circuit = figure_1_circuit()
    >>> log_theta = np.column_stack([circuit.edge_log_theta, circuit.edge_log_theta])
    >>> mixture = Mixture(circuit, log_theta, np.log([0.25, 0.75]))
    >>> np.exp(class_logs(mixture, np.array([0, 1]), np.full((1, 4), np.nan))).round(3)
    array([[0.25, 0.75]])
    """
    first = np.flatnonzero(np.diff(component_class, prepend=-1))
    logs = np.empty((len(rows), len(first)))
    for part in slices(len(rows), rows_at_a_time(mixture)):
        by_component = component_logs(mixture, encode(rows[part])) + mixture.log_weight
        logs[part] = np.logaddexp.reduceat(by_component, first, axis=1)
    return logs


def class_logs_of_joint(mixture: Mixture, codewords: ByteArray, rows: FloatArray) -> FloatArray:
    """Where the last variables are the class: `codewords` (n_classes, n_class_vars) are its values.

    Rows hold the other variables: 0, 1 and NaN.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> from strudel.circuits.mixture import as_mixture
    >>> mixture = as_mixture(figure_1_circuit())
    >>> codewords = np.array([[0], [1]], dtype=np.uint8)
    >>> np.exp(class_logs_of_joint(mixture, codewords, np.full((1, 3), np.nan))).round(3)
    array([[0.6, 0.4]])
    """
    logs = np.empty((len(rows), len(codewords)))
    for part in slices(len(rows), rows_at_a_time(mixture)):
        n_rows = part.stop - part.start
        for c, word in enumerate(codewords):
            bits = np.broadcast_to(word.astype(np.float64), (n_rows, len(word)))
            joint = component_logs(mixture, encode(np.hstack([rows[part], bits])))
            logs[part, c] = log_mean(mixture, joint)
    return logs
