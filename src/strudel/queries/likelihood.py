"""Likelihood of rows: by flows if they are complete, otherwise of what is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from strudel._torch import find_device
from strudel._types import AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.flows import flow_log_likelihood, flow_logs
from strudel.circuits.passes import distinct_rows
from strudel.circuits.walks import component_logs_of, dense_of, leaf_rows, made_once
from strudel.data.validation import check_binary, slices
from strudel.errors import CircuitPropertyError
from strudel.queries.by_block import lazily
from strudel.queries.cells import cell_probabilities
from strudel.queries.given import circuit_of, log_mean
from strudel.tables.evidence import Evidence, evidence_of_rows, nothing_known
from strudel.tables.schema import Columns

BLOCK_LOGS = 2**24  # of rows and components, made at a time


@lazily("X")
def log_likelihood(model: Any, X: ArrayLike, *, device: Any = "cpu") -> FloatArray:
    """Log-likelihood of fully observed rows.

    Parameters
    ----------
    model : Circuit or fitted estimator
        Rows pass a deterministic circuit by its flows, once for all of its components; any other
        circuit is evaluated.
    X : array-like of shape (n_rows, n_columns)
        0 and 1, or a table with the columns of the model.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        "cuda" multiplies flows and parameters on a GPU, which pays for many rows and components; it
        needs PyTorch. Logs are then right to 1e-5 of their size.

    Returns
    -------
    ndarray of shape (n_rows,)
        Exact natural logs; ``-inf`` where a row is impossible.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> log_likelihood(figure_1_circuit(), [[1, 0, 1, 0]]).round(4)
    array([-3.9528])
    """
    circuit = circuit_of(model)
    cells, log_density = _complete_rows(circuit.columns, X)
    place = find_device(device)
    if place is None:
        try:
            return flow_log_likelihood(circuit, cells) + log_density + circuit.log_total
        except CircuitPropertyError:  # some row takes two edges of one sum: a real sum
            pass
    nothing = nothing_known(circuit.columns)
    rows = Evidence(circuit.columns, cells.astype(np.int32), nothing.weights, {}, {})
    return log_probabilities_of_rows(circuit, rows, place) + log_density + circuit.log_total


@lazily("X")
def observed_log_likelihood(model: Any, X: Any) -> FloatArray:
    """Log-likelihood of the known values of every row; unknown ones (NaN) are summed out.

    Parameters
    ----------
    model : Circuit or fitted estimator
    X : array-like or frame of shape (n_rows, n_columns)
        The columns of the model, NaN or None where a value is unknown. A frame may have them in any
        order, and lack some.

    Returns
    -------
    ndarray of shape (n_rows,)
        Exact natural logs; ``-inf`` where a row is impossible.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> observed_log_likelihood(figure_1_circuit(), [[1, np.nan, 0, 1]]).round(2)
    array([-1.63])
    """
    circuit = circuit_of(model)
    evidence = evidence_of_rows(circuit.columns, X)
    log_p = log_probabilities_of_rows(circuit, evidence)
    return log_p + evidence.log_density() + circuit.log_total


def _complete_rows(columns: Columns, X: Any) -> tuple[AnyArray, FloatArray | float]:
    """The cells of rows in which every value is known, and the log-density of their numbers."""
    if columns.are_bits:
        rows, _ = check_binary(X, n_vars=len(columns), feature_names=columns.names)
        return rows, 0.0
    evidence = evidence_of_rows(columns, X)
    is_known = evidence.is_known()
    if not is_known.all():
        row, place = np.argwhere(~is_known)[0]
        raise ValueError(
            f"X must have a value in every column, but {columns.names[place]!r} is missing at row "
            f"{row}. log_marginal takes rows with missing values and sums them out."
        )
    return evidence.codes, evidence.log_density()


def log_probabilities_of_rows(
    circuit: Circuit, evidence: Evidence, device: Any = None
) -> FloatArray:
    """Log-probability `(n_rows,)` of every row, cells for numbers."""
    return in_blocks(circuit, evidence, lambda rows: logs_of_rows(circuit, rows, device))


def in_blocks(
    circuit: Circuit, evidence: Evidence, logs_of: Callable[[Evidence], FloatArray]
) -> FloatArray:
    """Log-probability `(n_rows,)` of every row, from those under all components, block by block."""
    log_p = np.empty(len(evidence))
    for part in slices(len(evidence), max(1, BLOCK_LOGS // circuit.n_components)):
        rows = evidence.take(np.arange(part.start, part.stop))
        log_p[part] = log_mean(circuit, logs_of(rows))
    return log_p


def logs_of_rows(circuit: Circuit, evidence: Evidence, device: Any = None) -> FloatArray:
    """Log-probabilities `(n_rows, k)` of rows; by flows where they are complete."""
    codes, logs = evidence.codes, np.empty((len(evidence), circuit.n_components))
    is_open: AnyArray = np.any(~evidence.is_single_cell(), axis=1)
    if device is None and dense_of(circuit):  # whose rows take many edges of a sum
        is_open[:] = True
    if not is_open.all():
        try:
            if device is None:
                logs[~is_open] = flow_logs(circuit, codes[~is_open])
            else:
                from strudel.circuits.on_device.column_rows import flow_logs_on  # late: needs torch

                logs[~is_open] = flow_logs_on(device, circuit, codes[~is_open])
        except CircuitPropertyError:  # some row takes two edges of one sum: a real sum
            is_open[:] = True
    if is_open.any():
        rows = leaf_rows(circuit, evidence.weights)
        few, place = distinct_rows(codes[is_open])
        if device is None:
            logs[is_open] = component_logs_of(circuit, rows, few)[place]
        else:
            from strudel.circuits.on_device.column_rows import component_logs_on

            logs[is_open] = component_logs_on(device, circuit, rows, few)[place]
    return logs


def joint_logs(circuit: Circuit, evidence: Evidence, place: int) -> FloatArray:
    """Log-probability of every row together with each cell of a column, of which it says nothing.

    A column with a single leaf is independent of the others given the component: rows that know
    all other columns go by flows.
    """
    leaves = slice(*circuit.column_leaves[place : place + 2])
    if leaves.stop - leaves.start > 1:
        log_p, [shares] = cell_probabilities(circuit, evidence, [place])
        with np.errstate(divide="ignore"):
            return np.asarray(log_p[:, np.newaxis] + np.log(np.nan_to_num(shares)))
    chance = np.exp(circuit.leaf_table(place)[0]).T  # (k, n_cells)
    joint = np.empty((len(evidence), chance.shape[1]))
    rest = _without(circuit, place)
    rows = evidence.with_cells({place: np.zeros(len(evidence), dtype=np.int32)})
    for part in slices(len(evidence), max(1, BLOCK_LOGS // circuit.n_components)):
        logs = logs_of_rows(rest, rows.take(np.arange(part.start, part.stop)))
        logs += circuit.log_weight
        top = logs.max(axis=1, keepdims=True)
        top[top == -np.inf] = 0.0
        with np.errstate(divide="ignore"):
            joint[part] = np.log(np.exp(logs - top) @ chance) + top
    return joint


def _without(circuit: Circuit, place: int) -> Circuit:
    """The circuit in which a column says nothing: its leaves are 1 for every cell."""

    def make(whole: Circuit) -> Circuit:
        logs = whole.leaf_log_p.copy()
        first, last = whole.leaf_first[whole.column_leaves[place : place + 2]]
        logs[first:last] = 0.0
        return replace(whole, leaf_log_p=logs)

    rest: Circuit = made_once(circuit, f"_without_{place}", make)
    return rest
