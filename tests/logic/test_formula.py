"""Clauses and terms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from strudel.logic.formula import Cnf, Dnf

literals = st.integers(1, 4).flatmap(lambda var: st.sampled_from([var, -var]))
groups = st.lists(st.lists(literals, max_size=4), max_size=5)


def is_true(literal, row):
    return row[abs(literal) - 1] == (literal > 0)


@given(groups)
def test_formulas_hold_as_their_definition_says(lists):
    rows = oracle.all_rows(4)
    cnf, dnf = Cnf.from_literals(lists, n_vars=4), Dnf.from_literals(lists, n_vars=4)
    assert cnf.to_literals() == dnf.to_literals() == lists
    assert cnf.holds(rows).tolist() == [
        all(any(is_true(literal, row) for literal in clause) for clause in lists) for row in rows
    ]
    assert dnf.holds(rows).tolist() == [
        any(all(is_true(literal, row) for literal in term) for term in lists) for row in rows
    ]


def test_equality_is_by_content():
    assert Cnf.from_literals([[1, -2]]) == Cnf.from_literals([[1, -2]])
    assert Cnf.from_literals([[1, -2]]) != Dnf.from_literals([[1, -2]])
    assert len({Cnf.from_literals([[1]]), Cnf.from_literals([[1]])}) == 1


@pytest.mark.parametrize(("groups", "n_vars"), [([[0]], 1), ([[3]], 2)])
def test_bad_literals_are_refused(groups, n_vars):
    with pytest.raises(ValueError, match=r"[Ll]iteral"):
        Cnf.from_literals(groups, n_vars=n_vars)
