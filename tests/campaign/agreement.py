"""Agreement: whether a model is a distribution and answers as enumeration does."""

from __future__ import annotations

import contextlib
import itertools
import math

import numpy as np

import strudel
from column_circuits import joint_of
from strudel.queries.given import circuit_of

MOST_VARS = 6  # that are enumerated


class Wrong(AssertionError):
    """A model or an answer that is wrong."""


def need(is_right, what):
    """A finding, unless it is right."""
    if not is_right:
        raise Wrong(what)


def table_of(model):
    """The probability of every row of cells, from the arrays alone; None if there are too many."""
    circuit = circuit_of(model)
    if math.prod(column.n_cells for column in circuit.columns) > 2**MOST_VARS:
        return None
    return joint_of(circuit) * math.exp(circuit.log_total)


def rows_of(n_vars):
    """All rows, the last variable changing fastest."""
    return np.array(list(itertools.product((0, 1), repeat=n_vars)))


def check_model(model, rng, *, tolerance=1e-4, asks=True):
    """The total is one; queries of one random row are what enumeration says."""
    model = circuit_of(model)
    n_vars, table = len(model.columns), table_of(model)
    if table is None:
        if asks:
            total = float(strudel.log_marginal(model, np.full((1, n_vars), np.nan))[0])
            need(abs(total) < 100 * tolerance, f"the total is exp({total})")
        return
    need(abs(table.sum() - 1.0) < tolerance, f"the total is {table.sum()}")
    if not asks or not model.columns.are_bits:
        return
    table = table.ravel()
    rows = rows_of(n_vars)
    row = rng.choice([0.0, 1.0, np.nan], size=n_vars)
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
    a, b = rng.permutation(n_vars)[:2] if n_vars > 1 else (0, 0)
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
