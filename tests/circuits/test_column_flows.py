"""Flows of complete rows over columns, against walks of the same rows."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given

from column_circuits import category_column, column_circuits, random_circuit, states_of
from strategies import circuits, examples
from strudel.circuits import flows as column_flows
from strudel.circuits.flows import flow_log_likelihood, flow_logs, lines_of, lines_taken
from strudel.circuits.properties import why_not_deterministic
from strudel.circuits.reweigh import side_by_side
from strudel.circuits.walks import component_logs
from strudel.errors import CircuitPropertyError
from strudel.queries.given import log_mean
from strudel.tables.evidence import Evidence, nothing_known
from strudel.tables.schema import Columns
from strudel.trees.vtree import Vtree


def rows_of(circuit):
    """All states, some of them often, so that more than a block of rows is alike."""
    states = np.array(states_of(circuit.columns), dtype=np.int32)
    return np.concatenate([states, np.repeat(states[-1:], 600, axis=0), states])


def check_flows(circuit):
    cells = rows_of(circuit)
    rows = Evidence(
        circuit.columns, cells, nothing_known(circuit.columns).weights, numbers={}, regions={}
    )
    expected = component_logs(circuit, rows)
    found = flow_logs(circuit, cells)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    total = flow_log_likelihood(circuit, cells)
    np.testing.assert_allclose(total, log_mean(circuit, expected), rtol=1e-10, atol=1e-10)
    taken, table = lines_taken(circuit, cells), lines_of(circuit).log_value
    sums = np.append(table, np.zeros((1, circuit.n_components)), axis=0)[taken[:, :-1]].sum(axis=1)
    sums[taken[:, -1] == -1] = -np.inf
    np.testing.assert_allclose(sums, found, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("most_cells", [64, 2])
@given(column_circuits(max_columns=3))
@examples(60)
def test_flows_are_those_of_walks_or_refused(most_cells, circuit):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_flows, "MOST_CELLS_IN_WORDS", most_cells)
        try:
            check_flows(circuit)
        except CircuitPropertyError:
            own = [circuit.components(np.array([c])) for c in range(circuit.n_components)]
            assert circuit.n_components > 1 or why_not_deterministic(own[0]) is not None


@given(circuits(max_vars=5))
@examples(30)
def test_flows_of_bits_are_those_of_walks(circuit):
    check_flows(circuit)


@pytest.mark.compiled
def test_rows_that_take_all_edges_of_a_sum_are_refused():
    columns = Columns(tuple(category_column(name, 6) for name in "abc"))
    apart = random_circuit(columns, Vtree.from_nested((0, (1, 2))), random.Random(0), 300)
    circuit = side_by_side(apart)  # far more cells of leaves than a deterministic one lets pass
    cells = np.random.default_rng(1).integers(0, 6, (600, 3)).astype(np.int32)
    with pytest.raises(CircuitPropertyError, match="two edges of one sum"):
        flow_logs(circuit, cells)
