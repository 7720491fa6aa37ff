"""Circuits over bits, of learners: their flows, and what they are over columns."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from column_circuits import as_bits, column_circuits, joint_of, mixture_of
from strategies import circuits, examples, mixtures
from strudel import CircuitPropertyError, Vtree, log_likelihood
from strudel._types import NONE
from strudel.circuits import CircuitBuilder, figure_1_circuit
from strudel.learning.bits.flows import compute_flows
from strudel.learning.bits.fold import folded, over_columns
from strudel.learning.bits.likelihood import rows_log_likelihood, rows_responsibilities
from strudel.learning.bits.mixture import BitMixture, average
from strudel.queries import responsibilities
from strudel.tables.learn_code import code_of_columns


@given(circuits(max_vars=6, deterministic=True), st.integers(0, 2**31))
def test_active_edges_are_those_of_the_induced_tree(circuit, seed):
    circuit = as_bits(circuit)
    rng = np.random.default_rng(seed)
    rows = np.array(oracle.all_rows(circuit.n_vars))[rng.integers(2**circuit.n_vars, size=9)]
    weight = rng.integers(1, 5, 9)
    flows = compute_flows(circuit, rows, sample_weight=weight)
    count = np.zeros(circuit.n_edges)
    for s, row in enumerate(rows):
        active = sorted(oracle.active_edges(circuit, row))
        assert sorted(flows.active_edge[flows.active_edge[:, s] != NONE, s]) == active
        assert flows.is_possible[s] == bool(active)
        count[active] += weight[s]
    assert np.array_equal(flows.edge_count, count)


@pytest.mark.parametrize("n_rows", [1, 63, 64, 65, 511, 512, 513, 1200])
def test_blocks_of_rows_join_without_a_seam(n_rows):
    rows = np.random.default_rng(n_rows).integers(0, 2, (n_rows, 4))
    circuit = as_bits(figure_1_circuit())
    active = compute_flows(circuit, rows).active_edge
    expected = {row: sorted(oracle.active_edges(circuit, row)) for row in oracle.all_rows(4)}
    for s, row in enumerate(rows.tolist()):
        assert sorted(active[active[:, s] != NONE, s]) == expected[tuple(row)]


def test_an_impossible_row_has_no_active_edge():
    builder = CircuitBuilder(Vtree.from_nested((0, 1)))
    root = builder.add_sum([(builder.literal(0, 1), builder.add_leaf_sum(1, 0.5), 1.0)])
    flows = compute_flows(as_bits(builder.build(root)), [[0, 1], [1, 1]])
    assert flows.is_possible.tolist() == [False, True]
    assert np.all(flows.active_edge[:, 0] == NONE)


def test_rows_that_do_not_fit_or_have_two_ways_are_refused():
    builder = CircuitBuilder(Vtree.from_nested((0, 1)))
    a, b, c, d = (builder.add_leaf_sum(var, 0.5) for var in (0, 0, 1, 1))
    circuit = as_bits(builder.build(builder.add_sum([(a, c, 0.5), (b, d, 0.5)])))
    with pytest.raises(CircuitPropertyError, match="deterministic"):
        compute_flows(circuit, [[0, 1]])
    with pytest.raises(ValueError, match=r"3 columns.*2 variables"):
        compute_flows(circuit, [[0, 1, 1]])


@given(st.one_of(circuits(), circuits(deterministic=False)))
@examples(60)
def test_a_folded_circuit_is_the_same_distribution(circuit):
    bits = as_bits(circuit)
    assert joint_of(folded(bits)).ravel() == pytest.approx(oracle.probabilities(bits), rel=1e-10)


@given(column_circuits())
@examples(40)
def test_a_circuit_over_the_codes_of_its_columns_folds_to_itself(circuit):
    code = None if circuit.columns.are_bits else code_of_columns(circuit.columns)
    again = over_columns(mixture_of(circuit), circuit.columns, code)
    np.testing.assert_allclose(joint_of(again), joint_of(circuit), rtol=1e-10, atol=1e-15)


@given(mixtures())
@examples(40)
def test_a_mixture_keeps_its_parameters_and_the_likelihood_of_rows(mixture):
    bits = mixture_of(mixture)
    assert mixture_of(folded(bits)).edge_log_theta == pytest.approx(bits.edge_log_theta, abs=0)
    rows = np.array(oracle.all_rows(bits.n_vars), dtype=np.uint8)
    found = rows_log_likelihood(bits, rows)
    np.testing.assert_allclose(found, log_likelihood(mixture, rows), rtol=1e-12)
    possible = rows[found > -np.inf].astype(float)
    expected = responsibilities(mixture, possible)
    np.testing.assert_allclose(rows_responsibilities(bits, possible), expected, rtol=1e-12)


def test_average_is_the_mean_of_the_densities():
    one = mixture_of(figure_1_circuit())
    two = BitMixture(one.structure, np.zeros((one.n_edges, 2)) - 0.5, np.log([0.3, 0.7]))
    both = average([one, two])
    assert both.weights == pytest.approx([0.5, 0.15, 0.35])
    with pytest.raises(ValueError, match="read-only"):
        both.log_weight[0] = 0.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"edge_log_theta": np.zeros((3, 2))}, r"must have shape \(16, 2\)"),
        ({"log_weight": np.log([0.3, 0.3])}, "add up to 0.6"),
        ({"edge_log_theta": np.full((16, 2), np.inf)}, "logs of the parameters"),
        ({"known": np.ones((4, 3))}, r"per variable and component, not \(4, 3\)"),
        ({"log_weight": np.zeros(0), "edge_log_theta": np.zeros((16, 0))}, "at least one"),
    ],
)
def test_what_is_not_a_mixture_is_refused(change, words):
    structure = as_bits(figure_1_circuit())
    arrays = {"edge_log_theta": np.zeros((16, 2)), "log_weight": np.log([0.5, 0.5])} | change
    with pytest.raises(ValueError, match=words):
        BitMixture(structure, **arrays)


def test_what_is_not_in_normal_form_is_refused():
    circuit = as_bits(figure_1_circuit())
    for name in ("edge_left", "edge_right", "node_vtree", "node_edges"):
        with pytest.raises(ValueError, match="These arrays are not a circuit"):
            replace(circuit, **{name: getattr(circuit, name)[::-1].copy()})
