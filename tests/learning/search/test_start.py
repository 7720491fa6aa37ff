"""Searches that start from a circuit of a logical constraint."""

from __future__ import annotations

import random
import tempfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from column_circuits import as_bits
from makers import random_function, sdd_of, search_options
from strategies import examples, partition_circuit, random_mixture, seeds, vtrees
from strudel import CircuitPropertyError, load_dataset, log_likelihood, read, write
from strudel.circuits import (
    CircuitBuilder,
    compile_factorized,
    even_structure,
    figure_1_circuit,
    why_not_deterministic,
)
from strudel.data import pack_columns
from strudel.learning import SearchOptions, fit_parameters, learn_structure
from strudel.learning.bits.flows import compute_flows
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import N_EDGES
from strudel.learning.search.greedy import VariablePicker, pick_edge
from strudel.logic import uniform_circuit
from strudel.trees.vtree import Vtree, balanced_vtree


@st.composite
def constrained_starts(draw, max_vars=8):
    """A circuit with fixed literals, wide sums and shared nodes, and rows that it allows."""
    vtree, rng = draw(vtrees(max_vars)), random.Random(draw(seeds))
    kind = draw(st.sampled_from(["sdd", "sdd", "partition"]))
    if kind == "partition":
        circuit = partition_circuit(vtree, rng, draw(st.integers(1, 4)))
        states = oracle.all_rows(vtree.n_vars)
        root = oracle.root(circuit)
        allowed = [row for row in states if oracle.satisfied(circuit, row)[root]]
    else:
        density = draw(st.sampled_from([0.02, 0.2, 0.5, 0.9]))
        allowed = sorted(random_function(vtree.n_vars, rng, density)) or [(0,) * vtree.n_vars]
        circuit = uniform_circuit(sdd_of(allowed, vtree))
    rows = np.array(rng.choices(allowed, k=draw(st.integers(1, 60))), dtype=np.uint8)
    return circuit, set(allowed), rows


def assert_supported(circuit, allowed):
    p = np.array(oracle.probabilities(circuit))
    is_allowed = np.array([row in allowed for row in oracle.all_rows(circuit.vtree.n_vars)])
    assert not np.any(p[~is_allowed])
    assert np.all(p[is_allowed] > 0)
    assert p.sum() == pytest.approx(1.0, abs=1e-12)


@examples(50)
@given(constrained_starts(), st.sampled_from([1, 3]), st.sampled_from(["flow", "random"]))
def test_splits_keep_the_constraint_to_the_end(start, copy_depth, edge_score):
    first, allowed, rows = start
    search = search_options(
        max_splits=400, patience=10**6, copy_depth=copy_depth, edge_score=edge_score, max_edges=5000
    )
    circuit, history = learn_structure(rows, rows, search=search, rng=0, start=first)
    assert_supported(circuit, allowed)
    assert why_not_deterministic(circuit) is None
    assert circuit.vtree == first.vtree
    if circuit.vtree.n_vars <= 5:
        assert oracle.is_deterministic(circuit)
    if history.stopped_because == "nothing left to split" and edge_score == "flow":
        # Every allowed row has a product of its own: the end is the table of frequencies.
        last, _ = learn_structure(rows, None, search=search, rng=0, start=first)
        assert last.n_parameters <= len(allowed)


@examples(30)
@given(constrained_starts(), st.sampled_from([1, 4]))
def test_counts_and_likelihoods_stay_exact(start, copy_depth):
    first, _, rows = start
    train, valid = pack_columns(rows), pack_columns(rows[::-2])
    growing = GrowingCircuit(as_bits(first), train, valid, copy_depth=copy_depth, room=1)
    picker, rng = VariablePicker(growing, "mutual_information"), np.random.default_rng(0)
    for _ in range(40):
        edge = pick_edge(growing, "flow", rng)
        if edge is None or growing.n_edges > 2000:
            break
        growing.split(edge, picker.pick(edge, rng))
        g, circuit = growing.growth, growing.snapshot()
        edges = np.flatnonzero(g.edge["death"][: g.size[N_EDGES]] > growing.n_splits)
        parent = g.edge["parent"][edges]
        order = (edges, -g.edge["birth"][edges], parent, g.node["vtree"][parent])
        edges = edges[np.lexsort(order)]
        for bits, name in ((train, "train"), (valid, "valid")):
            flows = compute_flows(circuit, bits)
            assert flows.is_possible.all()
            assert np.array_equal(g.edge[name][edges], flows.edge_count)
    fitted, _ = learn_structure(
        rows,
        search=search_options(max_splits=growing.n_splits, copy_depth=copy_depth),
        start=first,
    )
    mean = log_likelihood(fitted, rows).mean()
    assert growing.train_log_likelihood == pytest.approx(mean, rel=1e-10, abs=1e-12)


def test_a_single_variable_that_is_known():
    for value in (0, 1):
        vtree = Vtree.from_nested(0)
        first = uniform_circuit(sdd_of([(value,)], vtree))
        circuit, history = learn_structure(
            [[value]] * 3, search=SearchOptions(max_splits=5), start=first
        )
        assert oracle.probabilities(circuit) == [1.0 - value, float(value)]
        assert history.stopped_because == "nothing left to split"


def test_parameters_of_the_first_circuit_do_not_matter():
    first = figure_1_circuit()
    rows = np.random.default_rng(0).integers(0, 2, (50, 4), dtype=np.uint8)
    search = SearchOptions(max_splits=3)
    expected = learn_structure(rows, search=search, start=first)[0]
    other = random_mixture(first, 1, np.random.default_rng(0))
    found = learn_structure(rows, search=search, start=other)[0]
    assert np.array_equal(found.edge_log_theta, expected.edge_log_theta)


def test_a_row_that_is_excluded_is_named():
    first = uniform_circuit(sdd_of([(0, 1), (1, 0)], Vtree.from_nested((0, 1))))
    search = SearchOptions(max_splits=1)
    with pytest.raises(ValueError, match="row 2 of the training rows"):
        learn_structure([[0, 1], [1, 0], [1, 1], [0, 0]], search=search, start=first)
    with pytest.raises(ValueError, match="row 1 of the validation rows"):
        learn_structure([[0, 1]], [[0, 1], [1, 1]], search=search, start=first)


def test_what_cannot_be_grown_is_refused():
    search = SearchOptions(max_splits=1)
    builder = CircuitBuilder(Vtree.from_nested((0, 1)))
    edge = builder.literal(0, 0), builder.literal(1, 1), 0.5
    twice = builder.build(builder.add_sum([edge, edge]))
    with pytest.raises(CircuitPropertyError, match="starts from a deterministic circuit"):
        learn_structure([[0, 1]], search=search, start=twice)
    with pytest.raises(ValueError, match="2 columns, but the circuit to start from has 4"):
        learn_structure([[0, 1]], search=search, start=compile_factorized(balanced_vtree(4)))


@given(constrained_starts(max_vars=6))
def test_a_circuit_read_from_a_psdd_file_is_continued(start):
    first, allowed, rows = start
    search = SearchOptions(max_splits=10)
    first = even_structure(first)  # what is zero is no edge
    with tempfile.TemporaryDirectory() as folder:
        write(first, f"{folder}/m.psdd")
        write(first.vtree, f"{folder}/m.vtree")
        loaded = read(f"{folder}/m.psdd")
    circuit, _ = learn_structure(rows, search=search, start=loaded)
    assert_supported(circuit, allowed)
    assert why_not_deterministic(circuit) is None


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["nltcs.clt", "nltcs.10split", "nltcs_200"])
def test_a_circuit_of_another_program_is_continued(data_folder, name):
    nltcs = load_dataset("nltcs")
    first = read(data_folder / "circuits" / "psdd" / f"{name}.psdd")
    before = log_likelihood(fit_parameters(first, nltcs.train), nltcs.valid).mean()
    search = SearchOptions(max_splits=60)
    circuit, history = learn_structure(nltcs.train, nltcs.valid, search=search, start=first)
    assert circuit.vtree == first.vtree
    assert why_not_deterministic(circuit) is None
    assert history.valid[0] == pytest.approx(before)
    assert history.valid[history.best] == pytest.approx(log_likelihood(circuit, nltcs.valid).mean())
    assert history.valid[history.best] > before + 0.002
    assert log_likelihood(circuit, nltcs.test).mean() > log_likelihood(first, nltcs.test).mean()
