"""Circuits over columns: walks, products and folding against tables of all states."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from column_circuits import as_bits, column_circuits, joint_of, random_circuit
from joint import learned_circuit
from strategies import examples, mixed, seeds
from strudel.circuits import figure_1_circuit, walks
from strudel.circuits.circuit import Circuit
from strudel.circuits.other_columns import with_edges
from strudel.circuits.products import product
from strudel.circuits.reweigh import given_row, normalized
from strudel.queries.cells import cell_probabilities, log_probabilities
from strudel.tables.evidence import evidence_of_regions, nothing_known

REL = 1e-10


def weights_of(evidence, row):
    """Per column the weight of every cell."""
    found = []
    for place, column in enumerate(evidence.columns):
        code = evidence.codes[row, place]
        is_cell = code < column.n_cells
        own = (
            np.eye(column.n_cells)[code]
            if is_cell
            else evidence.weights[place][code - column.n_cells]
        )
        found.append(own)
    return found


def weighed(joint, weights):
    """The table of all states, each times the weights of its cells."""
    for axis, own in enumerate(weights):
        shape = [-1 if other == axis else 1 for other in range(joint.ndim)]
        joint = joint * own.reshape(shape)
    return joint


@st.composite
def regions_of(draw, columns):
    """Where some of the columns lie, cells of numbers cut."""
    found = {}
    for place in draw(st.lists(st.integers(0, len(columns) - 1), unique=True)):
        if columns[place].is_numeric:
            low = draw(st.sampled_from([-np.inf, 0.3, 2.0, 4.0]))
            high = draw(st.sampled_from([4.5, 6.0, 8.25, np.inf]))
            found[place] = ((low, high),)
        else:
            cell = draw(st.integers(0, columns[place].n_cells - 1))
            found[place] = ((float(cell), cell + draw(st.sampled_from([1.0, 2.0]))),)
    return found


@st.composite
def questions(draw, n_rows=3):
    """A circuit, and rows of what is known of its columns."""
    circuit = draw(column_circuits())
    rows = [draw(regions_of(circuit.columns)) for _ in range(n_rows)]
    return circuit, evidence_of_regions(circuit.columns, rows)


@pytest.mark.parametrize("n_splits", [0, 12, 60])
def test_sizes_are_those_of_the_paper(n_splits):
    circuit = learned_circuit(1, n_splits=n_splits)
    several, bits = mixed([circuit] * 3), as_bits(circuit)
    assert circuit.size == several.size == bits.n_edges
    assert circuit.n_parameters == bits.n_parameters
    assert several.n_parameters == 3 + 3 * bits.n_parameters
    assert figure_1_circuit().size == 16


@pytest.mark.parametrize("few", [0, 10**9], ids=["kernels", "in logs"])
@given(questions())
@examples(60)
def test_walks_agree_with_the_table_of_all_states(few, asked):
    circuit, evidence = asked
    joint = joint_of(circuit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walks, "FEW_VALUES", few)
        log_p, cells = cell_probabilities(circuit, evidence, range(len(circuit.columns)))
    for row in range(len(evidence)):
        table = weighed(joint, weights_of(evidence, row))
        assert np.exp(log_p[row]) == pytest.approx(table.sum(), rel=REL)
        for axis, own in enumerate(cells):
            others = tuple(other for other in range(table.ndim) if other != axis)
            if table.sum() > 0.0:
                expected = table.sum(axis=others) / table.sum()
                assert own[row] == pytest.approx(expected, rel=REL, abs=1e-14)
            else:
                assert np.isnan(own[row]).all()


@given(questions(n_rows=1))
@examples(60)
def test_a_circuit_given_evidence_is_a_circuit(asked):
    circuit, evidence = asked
    table = weighed(joint_of(circuit), weights_of(evidence, 0))
    found, log_p = given_row(circuit, evidence)
    assert np.exp(log_p) == pytest.approx(table.sum(), rel=REL)
    if found is None:
        assert table.sum() == 0.0
    else:
        assert joint_of(found) == pytest.approx(table / table.sum(), rel=REL, abs=1e-14)


@given(column_circuits(max_columns=3), seeds)
@examples(40)
def test_a_product_is_one_state_by_state(p, seed):
    import random

    q = random_circuit(p.columns, p.vtree, random.Random(seed), 2)
    both = joint_of(p) * joint_of(q)
    assume(both.sum() > 0.0)
    found, log_p = normalized(product(p, q))
    assert np.exp(log_p) == pytest.approx(both.sum(), rel=REL)
    assert joint_of(found) == pytest.approx(both / both.sum(), rel=1e-9, abs=1e-14)


@given(column_circuits(), st.floats(0.1, 9.9))
@examples(30)
def test_finer_cells_say_the_same_of_every_bound(circuit, bound):
    numbers = [place for place, column in enumerate(circuit.columns) if column.is_numeric]
    assume(numbers)
    finer = with_edges(circuit, {numbers[0]: [bound]})
    for below in (bound, 3.3, 8.0):
        rows = [{numbers[0]: ((-np.inf, below),)}]
        logs = [
            log_probabilities(one, evidence_of_regions(one.columns, rows))
            for one in (circuit, finer)
        ]
        assert logs[0] == pytest.approx(logs[1], rel=1e-9, abs=1e-12)


def test_arrays_that_do_not_fit_are_refused():
    circuit = figure_1_circuit()
    fields = {name: getattr(circuit, name) for name in circuit.__dataclass_fields__}
    for name, value, words in (
        ("log_weight", np.log([0.5]), "add up to"),
        ("edge_left", circuit.edge_left[::-1], "children"),
        ("sum_vtree", circuit.sum_vtree[::-1], "in their order"),
        ("leaf_log_p", circuit.leaf_log_p[1:], "leaves must have shape"),
    ):
        with pytest.raises(ValueError, match=words):
            Circuit(**fields | {name: value})


@given(column_circuits(), st.data())
@examples(60)
def test_what_is_known_in_two_ways_is_known_together(circuit, data):
    columns = circuit.columns
    rows = [[data.draw(regions_of(columns)) for _ in range(2)] for _ in range(2)]
    first, second = (evidence_of_regions(columns, own) for own in rows)
    found = log_probabilities(circuit, first.together(second))
    for row, both in enumerate(zip(*rows, strict=True)):
        alone = nothing_known(columns).within(both[0]).within(both[1])
        assert found[row] == pytest.approx(log_probabilities(circuit, alone)[0], rel=REL)
    again = first.together(second.take(np.array([1])))
    assert log_probabilities(circuit, again)[1] == found[1]


@given(column_circuits(), st.data())
@examples(60)
def test_evidence_about_finer_cells_is_as_probable(circuit, data):
    columns = circuit.columns
    evidence = evidence_of_regions(columns, [data.draw(regions_of(columns)) for _ in range(2)])
    edges = {}
    for place, column in enumerate(columns):
        if column.is_numeric:
            edges[place] = data.draw(st.sets(st.sampled_from([0.5, 2.25, 4.0, 8.0])))
            if not evidence.is_known()[0, place]:
                evidence = evidence.with_number(0, place, 4.5)
    fine = with_edges(circuit, edges)
    found = log_probabilities(fine, evidence.refined(fine.columns))
    assert found == pytest.approx(log_probabilities(circuit, evidence), rel=REL)
