"""Agreement: whether a model is a distribution and answers as enumeration does."""

from __future__ import annotations

import contextlib
import itertools

import numpy as np

import strudel
from strudel.queries.model import model_of

MOST_VARS = 6  # that are enumerated


class Wrong(AssertionError):
    """A model or an answer that is wrong."""


def need(is_right, what):
    """A finding, unless it is right."""
    if not is_right:
        raise Wrong(what)


def table_of(model):
    """The probability of every row, from the arrays alone; None if there are too many rows."""
    if model.n_vars > MOST_VARS:
        return None
    if not isinstance(model, strudel.Mixture):
        return _table(model, model.edge_log_theta)
    columns = zip(np.exp(model.log_weight), model.edge_log_theta.T, strict=True)
    return sum(w * _table(model.structure, column) for w, column in columns)


def rows_of(n_vars):
    """All rows, the last variable changing fastest."""
    return np.array(list(itertools.product((0, 1), repeat=n_vars)))


def _table(circuit, log_theta):
    rows = rows_of(circuit.n_vars)
    value = np.zeros((circuit.n_nodes, len(rows)))
    for v in range(circuit.n_vars):
        value[2 * v], value[2 * v + 1] = rows[:, v] == 0, rows[:, v] == 1
    for node in range(2 * circuit.n_vars, circuit.n_nodes):
        for edge in range(circuit.node_edges[node], circuit.node_edges[node + 1]):
            term = np.exp(log_theta[edge]) * value[circuit.edge_left[edge]]
            if circuit.edge_right[edge] >= 0:
                term = term * value[circuit.edge_right[edge]]
            value[node] += term
    return value[-1]


def check_model(model, rng, *, tolerance=1e-4, asks=True):
    """The total is one; queries of one random row are what enumeration says."""
    model = model_of(model)
    model = model.with_table_code(None) if model.table_code is not None else model
    table = table_of(model)
    if table is None:
        if asks:
            total = float(strudel.log_marginal(model, np.full((1, model.n_vars), np.nan))[0])
            need(abs(total) < 100 * tolerance, f"the total is exp({total})")
        return
    need(abs(table.sum() - 1.0) < tolerance, f"the total is {table.sum()}")
    if not asks:
        return
    rows = rows_of(model.n_vars)
    row = rng.choice([0.0, 1.0, np.nan], size=model.n_vars)
    agrees = ((rows == row) | np.isnan(row)).all(axis=1)
    p = table[agrees].sum()
    found = float(np.exp(strudel.log_marginal(model, row[np.newaxis])[0]))
    need(abs(found - p) <= 1e-9 + 1e-6 * p, f"log_marginal of {row}: {found}, not {p}")
    found = np.exp(strudel.log_likelihood(model, rows))
    need(np.allclose(found, table, rtol=1e-6, atol=1e-12), "log_likelihood of all rows")
    if p < 1e-290:  # numbers have few digits there, other than their logs
        return
    wanted = (table[agrees, np.newaxis] * rows[agrees]).sum(axis=0) / p
    found = strudel.marginal_probabilities(model, given=row)
    need(
        np.allclose(found, wanted, rtol=1e-6, atol=1e-9),
        f"marginals given {row} ({p}): {found}, not {wanted}",
    )
    with contextlib.suppress(strudel.CircuitPropertyError):  # not of every circuit of a file
        _check_best(model, row, rows, agrees, table)
    joint = table[agrees] / p
    a, b = rng.permutation(model.n_vars)[:2] if model.n_vars > 1 else (0, 0)
    if a != b and np.isnan(row[[a, b]]).all():
        cells = np.zeros((2, 2))
        np.add.at(cells, (rows[agrees, a], rows[agrees, b]), joint)

        is_there = cells > 0
        log_outer = np.log(cells.sum(1) + 1e-320)[:, None] + np.log(cells.sum(0) + 1e-320)
        wanted = float((cells[is_there] * (np.log(cells[is_there]) - log_outer[is_there])).sum())
        found = strudel.mutual_information(model, [int(a)], [int(b)], given=row)
        need(abs(found - wanted) < 1e-6, f"information of {a} and {b}: {found}, not {wanted}")


def _check_best(model, row, rows, agrees, table):
    """The most probable state is one, and agrees with what is known."""
    state, log_p = strudel.most_probable_state(model, given=row)
    need(abs(np.exp(log_p) - table[agrees].max()) < 1e-6, f"most probable state given {row}")
    place = np.flatnonzero((rows == np.asarray(state)).all(axis=1))
    need(len(place) == 1 and agrees[place[0]], "a state against what is known")
