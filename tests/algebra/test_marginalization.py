"""Circuits over some of the columns against tables of all states."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from column_circuits import column_circuits, table_of
from joint import learned_circuit, special_circuits
from strategies import examples
from strudel import condition
from strudel.algebra import marginalization, marginalize
from strudel.circuits import compile_factorized, figure_1_circuit
from strudel.circuits.properties import why_not_deterministic
from strudel.queries.given import circuit_of
from strudel.trees.vtree import Vtree

REL = 1e-9


def sums_over_others(table, kept):
    """The table of some columns, in their order."""
    others = tuple(place for place in range(table.ndim) if place not in kept)
    rest = table.sum(axis=others)
    return np.moveaxis(rest, [sorted(kept).index(place) for place in kept], range(len(kept)))


@examples(200)
@given(column_circuits(max_columns=6), st.sampled_from([3, 2**21]), st.data())
def test_a_marginal_is_that_of_the_table(circuit, n_terms, data):
    order = data.draw(st.permutations(range(len(circuit.columns))))
    kept = list(order[: data.draw(st.integers(1, len(order)))])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marginalization, "BLOCK_TERMS", n_terms)
        found = marginalize(circuit, kept)
    assert found.columns.names == tuple(circuit.columns.names[place] for place in kept)
    expected = sums_over_others(table_of(circuit), kept)
    np.testing.assert_allclose(table_of(found), expected, rtol=REL, atol=1e-300)


def test_the_vtree_loses_leaves():
    circuit = compile_factorized(Vtree.from_nested(((0, (1, 2)), ((3, 4), 5))))
    assert marginalize(circuit, [1, 2, 5]).vtree == Vtree.from_nested(((0, 1), 2))
    assert marginalize(circuit, [5, 3, 0]).vtree == Vtree.from_nested((2, (1, 0)))
    assert marginalize(circuit, [4]).vtree == Vtree.from_nested(0)


def test_names_go_along():
    p = figure_1_circuit()
    assert marginalize(p, ["X4", "X1"]).columns.names == ("X4", "X1")
    assert marginalize(p, "X2").columns.names == ("X2",)
    with pytest.raises(ValueError, match="'X9'"):
        marginalize(p, ["X9"])


def test_nothing_summed_out_is_nothing_changed():
    p = circuit_of(figure_1_circuit())
    same = marginalize(p, range(4))
    assert (same.n_nodes, same.n_edges) == (p.n_nodes, p.n_edges)
    assert why_not_deterministic(same) is None


def test_the_total_stays_unless_normalised():
    joint = condition(figure_1_circuit(), {"X3": 1}, normalize=False)
    kept = marginalize(joint, ["X1", "X2"])
    assert table_of(kept).sum() == pytest.approx(0.6)
    kept = marginalize(joint, ["X1", "X2"], normalize=True)
    assert table_of(kept).ravel() == pytest.approx([0.06, 0.54, 0.04, 0.36])
    none = condition(compile_factorized(joint.vtree, [0.0] * 4), {0: 1}, normalize=False)
    assert not table_of(marginalize(none, [0, 1])).any()
    with pytest.raises(ValueError, match="zero everywhere"):
        marginalize(none, [0, 1], normalize=True)


def test_a_few_variables_of_a_large_circuit_are_a_table():
    circuit = learned_circuit(0, n_splits=15)
    found = marginalize(circuit, [1, 4, 6])
    assert found.n_edges <= 8 + 4
    assert why_not_deterministic(found) is None
    expected = sums_over_others(table_of(circuit), [1, 4, 6])
    np.testing.assert_allclose(table_of(found), expected, rtol=REL)
    faint = replace(circuit, log_total=-1000.0)
    assert marginalize(faint, [1, 4, 6]).log_total == pytest.approx(-1000.0)


def test_too_many_edges_are_refused():
    circuit = special_circuits()["learned 0"]
    with pytest.raises(ValueError, match="more than max_edges = 3"):
        marginalize(circuit, [0, 3, 5], max_edges=3)
