"""NNFs and SDDs: what they hold, and the rows that satisfy them."""

import math
import random

import numpy as np
import pytest
from hypothesis import given

import oracle
from makers import nnf_of, random_function, sdd_of
from strategies import seeds, vtrees
from strudel.errors import CircuitPropertyError
from strudel.logic.formula import AND, LITERAL, OR, Nnf
from strudel.logic.satisfying_rows import log_model_count, uniform_circuit
from strudel.logic.sdd import Sdd, nnf_from_sdd
from strudel.trees.vtree import Vtree, linear_vtree


@given(vtrees(max_vars=5), seeds)
def test_sdds_hold_for_their_rows_and_count_them(vtree, seed):
    rows = random_function(vtree.n_vars, random.Random(seed))
    check(sdd_of(rows, vtree), rows)
    assert nnf_from_sdd(sdd_of(rows, vtree)).holds(oracle.all_rows(vtree.n_vars)).sum() == len(rows)


@given(vtrees(max_vars=5), seeds)
def test_nnfs_hold_for_their_rows_and_count_them(vtree, seed):
    rows = random_function(vtree.n_vars, random.Random(seed))
    check(nnf_of(rows, vtree.n_vars), rows)


def check(formula, rows):
    everything = oracle.all_rows(formula.n_vars)
    assert formula.holds(everything).tolist() == [row in rows for row in everything]
    assert math.exp(log_model_count(formula)) == pytest.approx(len(rows))
    if rows:
        circuit = uniform_circuit(formula)
        wanted = [1 / len(rows) if row in rows else 0.0 for row in everything]
        assert oracle.probabilities(circuit) == pytest.approx(wanted)
    else:
        with pytest.raises(ValueError, match="No row satisfies"):
            uniform_circuit(formula)


def test_rows_that_satisfy_two_ways_are_not_counted_twice():
    nnf = Nnf.from_nodes([(LITERAL, 1), (LITERAL, 3), (OR, [0, 1])], n_vars=2)
    with pytest.raises(CircuitPropertyError, match="deterministic"):
        log_model_count(nnf)


def test_a_formula_that_shares_variables_is_refused():
    nnf = Nnf.from_nodes([(LITERAL, 1), (LITERAL, 0), (AND, [0, 1])], n_vars=1)
    with pytest.raises(CircuitPropertyError, match="share variable 1"):
        uniform_circuit(nnf)


def test_another_vtree_may_be_given():
    nnf = Nnf.from_nodes([(LITERAL, 1), (LITERAL, 3), (AND, [0, 1])], n_vars=2)
    vtree = Vtree.from_nested(((2, 1), 0))
    assert uniform_circuit(nnf, vtree).vtree == vtree
    assert math.exp(log_model_count(nnf, vtree)) == pytest.approx(2)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([], "no nodes"),
        ([(LITERAL, 6)], "variables 0..2"),
        ([(AND, [0])], "before their parents"),
        ([(7, [])], "must be a literal"),
    ],
)
def test_arrays_that_are_no_nnf_are_refused(nodes, words):
    with pytest.raises(ValueError, match=words):
        Nnf.from_nodes(nodes, n_vars=3)


@pytest.mark.parametrize(
    ("decisions", "root", "words"),
    [
        ([(0, [(2, 4)])], 6, "inner vtree node"),
        ([(2, [(4, 2)])], 6, "primes must lie on the left"),
        ([(2, [(6, 4)])], 6, "before their decisions"),
        ([], 9, "root is not a node"),
    ],
)
def test_arrays_that_are_no_sdd_are_refused(decisions, root, words):
    with pytest.raises(ValueError, match=words):
        Sdd.from_decisions(linear_vtree(2), decisions, root)


def test_constants_and_literals_may_be_roots():
    vtree = linear_vtree(2)
    rows = np.array(oracle.all_rows(2))
    for root, wanted in ((0, [0] * 4), (1, [1] * 4), (3, rows[:, 0]), (4, 1 - rows[:, 1])):
        assert Sdd.from_decisions(vtree, [], root).holds(rows).tolist() == list(map(bool, wanted))
