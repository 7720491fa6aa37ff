"""Events: operators, counts, and their SDDs with and without PySDD."""

import copy
import pickle
import random
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulas import all_rows, event_of_truth, holds, need_pysdd, random_truth, seeds
from makers import random_function, sdd_of
from strategies import vtrees
from strudel._names import places_of
from strudel.circuits import figure_1_circuit, why_not_deterministic
from strudel.errors import CircuitPropertyError, MissingDependencyError
from strudel.logic.event_compiler import circuit_of_sdd, compile_event
from strudel.logic.events import Event, at_least, at_most, exactly, less_than
from strudel.logic.formula import Cnf, Dnf
from strudel.logic.pysdd_compiler import compile_with_pysdd
from strudel.logic.sdd import Sdd, nnf_from_sdd
from strudel.logic.simple_events import simple_event
from strudel.logic.terms import variables
from strudel.trees.vtree import Vtree, balanced_vtree, linear_vtree


@given(vtrees(max_vars=6), seeds, st.integers(0, 3))
def test_an_event_its_sdd_and_its_circuit_hold_for_the_same_rows(vtree, seed, depth):
    need_pysdd()
    n_vars = vtree.n_vars
    truth = random_truth(n_vars, random.Random(seed), depth)
    names = [f"v{var}" for var in range(n_vars)]
    event, rows = event_of_truth(truth, variables(names)), all_rows(n_vars)
    expected = [holds(truth, row) for row in rows]
    assert event.holds(rows, names).tolist() == expected
    sdd = compile_event(event, vtree, names)
    assert sdd.holds(rows).tolist() == expected
    circuit = circuit_of_sdd(sdd)
    if circuit is None:
        assert not any(expected)
    else:
        assert why_not_deterministic(circuit) is None
        from strudel import log_likelihood

        assert np.exp(log_likelihood(circuit, rows)) == pytest.approx(np.array(expected) * 1.0)


@given(vtrees(max_vars=7), st.data())
def test_simple_events_have_the_sdd_that_the_compiler_finds(vtree, data):
    need_pysdd()
    n_vars = vtree.n_vars
    x = variables([f"x{var}" for var in range(n_vars)])
    signs = data.draw(st.lists(st.booleans(), min_size=n_vars, max_size=n_vars))
    literals = [x[var] if sign else ~x[var] for var, sign in enumerate(signs)]
    cut = data.draw(st.integers(0, n_vars - 1))
    count = data.draw(st.sampled_from([at_least, at_most, exactly]))
    event = count(data.draw(st.integers(0, n_vars + 1)), literals[cut:])
    for literal in literals[:cut]:
        event &= literal
    place = places_of(x.columns.names)
    assert simple_event(event, place) is not None
    mine, theirs = compile_event(event, vtree), compile_with_pysdd(event, vtree, place)
    rows = all_rows(n_vars)
    assert mine.holds(rows).tolist() == theirs.holds(rows).tolist()
    assert (mine.n_nodes, mine.n_elements) == (theirs.n_nodes, theirs.n_elements)


@given(vtrees(max_vars=5), seeds)
def test_sdds_move_between_vtrees(vtree, seed):
    need_pysdd()
    rng = random.Random(seed)
    rows = random_function(vtree.n_vars, rng)
    other = linear_vtree(vtree.n_vars)
    moved = compile_event(sdd_of(rows, vtree), other)
    assert moved.vtree is other
    states = all_rows(vtree.n_vars)
    assert moved.holds(states).tolist() == [row in rows for row in states]


def test_formulas_of_every_kind_are_events():
    need_pysdd()
    vtree, rows = balanced_vtree(4), all_rows(4)
    cnf = Cnf.from_literals([[1, -2], [2, 3], [-3, -1]], n_vars=4)
    dnf = Dnf.from_literals([[1, -2], [2, 3]])  # over fewer variables
    nnf = nnf_from_sdd(compile_event(cnf, vtree))
    for formula in (cnf, nnf):
        assert compile_event(formula, vtree).holds(rows).tolist() == cnf.holds(rows).tolist()
    three = np.array(rows)[:, :3]
    assert compile_event(dnf, vtree).holds(rows).tolist() == dnf.holds(three).tolist()
    x = variables(["x0", "x1", "x2", "x3"])
    joined = x["x3"] & cnf | "~x3 & x0" | {"x1": 1, 2: 0}
    expected = [
        bool((d and cnf.holds([[a, b, c, d]])[0]) or (a and not d) or (b and not c))
        for a, b, c, d in rows
    ]
    assert compile_event(joined, vtree).holds(rows).tolist() == expected


def test_an_empty_formula_is_true_or_false():
    vtree = balanced_vtree(2)
    assert compile_event(Cnf.from_literals([], 2), vtree).holds([[0, 1]]).tolist() == [True]
    assert compile_event(Dnf.from_literals([], 2), vtree).holds([[0, 1]]).tolist() == [False]
    assert compile_event(Cnf.from_literals([[]], 2), vtree).holds([[0, 1]]).tolist() == [False]
    assert compile_event(True, vtree).holds([[0, 1]]).tolist() == [True]


def test_rows_and_dicts_are_events():
    vtree = balanced_vtree(3)
    for event in ({"x0": 1, "x2": 0}, {0: 1, 2: 0}, [1, np.nan, 0], [[1, None, 0]]):
        held = [row for row in all_rows(3) if compile_event(event, vtree).holds([row])[0]]
        assert held == [(1, 0, 0), (1, 1, 0)]
    with pytest.raises(ValueError, match="one row, but has 2"):
        compile_event([[1, 0, 0], [0, 0, 0]], vtree)


@pytest.fixture
def without_pysdd(monkeypatch):
    monkeypatch.setitem(sys.modules, "pysdd", None)


@pytest.mark.usefixtures("without_pysdd")
@pytest.mark.parametrize(
    "event",
    [
        {"x0": 1, "x3": 0},
        "x0 & ~x1 & x2",
        "~(x0 | x1)",
        "x0 | ~x1 | x2",
        "x0 -> x3",
        "x0 ^ x2",
        "at_least(2, x0, ~x1, x2)",
        "exactly(1, x0, x1, x2, x3) & ~x1",
        "~at_most(2, x0, x1, x2, x3)",
        "at_least(2, x0, x1, x2) & x0 & x1",
        "x0 & ~x0",
        "at_least(5, x0, x1)",
        "true",
    ],
)
def test_these_events_need_no_pysdd(event):
    from strudel.logic.terms import said_event
    from strudel.tables.schema import bit_columns

    rows = all_rows(4)
    found = compile_event(event, balanced_vtree(4)).holds(rows)
    assert (
        found.tolist()
        == said_event(event, bit_columns(["x0", "x1", "x2", "x3"])).holds(rows).tolist()
    )


@pytest.mark.usefixtures("without_pysdd")
def test_without_pysdd_an_sdd_on_the_same_vtree_works_and_a_cnf_says_what_to_install():
    vtree, same = Vtree.from_nested(((0, 1), 2)), Vtree.from_nested(((0, 1), 2))
    rows = {(0, 0, 1), (1, 1, 1), (1, 0, 0)}
    sdd = compile_event(sdd_of(rows, vtree), same)
    assert [row for row in all_rows(3) if sdd.holds([row])[0]] == sorted(rows)
    with pytest.raises(MissingDependencyError, match=r"pip install 'strudel-pc\[logic\]'"):
        compile_event(Cnf.from_literals([[1, 2], [-1, 3]]), vtree)


def test_equal_vtrees_may_number_their_nodes_differently():
    one = Vtree.from_nested(((0, 1), (2, 3)))
    other = Vtree(  # the right side first
        np.array([-1, -1, 0, -1, -1, 3, 5], dtype=np.int32),
        np.array([-1, -1, 1, -1, -1, 4, 2], dtype=np.int32),
        np.array([2, 3, -1, 0, 1, -1, -1], dtype=np.int32),
    )
    assert one == other
    rows = random_function(4, random.Random(1))
    sdd = compile_event(sdd_of(rows, one), other)
    assert [row for row in all_rows(4) if sdd.holds([row])[0]] == sorted(rows)


def test_an_sdd_whose_primes_overlap_is_refused():
    broken = Sdd.from_decisions(Vtree.from_nested((0, 1)), [(2, [(3, 5), (1, 1)])], root=6)
    with pytest.raises(CircuitPropertyError, match="primes of an SDD"):
        compile_event(broken, broken.vtree)


def test_deep_expressions_do_not_exhaust_the_stack():
    need_pysdd()
    x = variables(["x0", "x1", "x2"])
    deep = x[0]
    for i in range(5_000):
        deep = (deep ^ x[i % 3]) if i % 2 else ~deep
    rows = all_rows(3)
    found = compile_event(deep, balanced_vtree(3))
    assert found.holds(rows).tolist() == deep.holds(rows).tolist()
    again = x[0] ^ x[1]
    for _ in range(200):  # a formula of 2**200 characters, but of 200 different parts
        again = again ^ (again | x[2])
    assert len(repr(again)) < 5000
    assert (
        compile_event(again, balanced_vtree(3)).holds(rows).tolist() == again.holds(rows).tolist()
    )


def test_names_are_checked_with_close_matches():
    x = variables(["smoker", "cough"])
    with pytest.raises(ValueError, match=r"names 'smokr'.*Did you mean 'smoker'"):
        x["smokr"]
    event = x["smoker"] | x["cough"]
    with pytest.raises(ValueError, match="names 'smoker', which is not a variable"):
        compile_event(event, balanced_vtree(2))
    with pytest.raises(ValueError, match="several are called 'a'"):
        variables(["a", "a"])
    with pytest.raises(ValueError, match="over 5 variables, but the model has only 2"):
        compile_event(Cnf.from_literals([[5]]), balanced_vtree(2))


def test_variables_come_from_models_and_estimators():
    circuit = figure_1_circuit()
    assert [str(event) for event in variables(circuit)] == ["X1", "X2", "X3", "X4"]
    assert str(variables(circuit)[2]) == "X3"
    from strudel import Strudel

    with pytest.raises(ValueError, match="not fitted"):
        variables(Strudel(n_components=1))
    with pytest.raises(TypeError, match="list of names"):
        variables(3)


def test_what_python_would_get_wrong_is_refused():
    x = variables(["a", "b", "c"])
    for wrong in (
        lambda: x["a"] and x["b"],
        lambda: x["a"] == x["b"] == x["c"],
        lambda: not x["a"],
    ):
        with pytest.raises(TypeError, match="neither true nor false"):
            wrong()
    with pytest.raises(TypeError):
        x["a"] & 3
    with pytest.raises(TypeError, match="list of events"):
        at_least(1, x["a"])
    for k in (-1, True, 1.5):
        with pytest.raises(ValueError, match="whole number"):
            exactly(k, [x["a"]])
    with pytest.raises(ValueError, match="empty"):
        less_than([], 3)


def test_events_are_written_as_they_are_read():
    x = variables(["a", "b", "age > 60", "and"])
    event = (x["a"] & ~x["b"]) >> (x["age > 60"] | x["and"])
    assert str(event) == "(a & ~b) >> ('age > 60' | 'and')"
    assert repr(Event("and")) == "Event('true')"


def test_events_survive_pickling_and_copying():
    x = variables(["x0", "x1", "x2"])
    shared = x[0] ^ x[1]
    event = at_least(1, [shared, shared & x[2]]) | compile_event({"x1": 0}, balanced_vtree(3))
    for _ in range(5000):
        event = event ^ x[2]
    again = pickle.loads(pickle.dumps(event))
    assert again.holds(all_rows(3)).tolist() == event.holds(all_rows(3)).tolist()
    assert copy.deepcopy(event) is event
