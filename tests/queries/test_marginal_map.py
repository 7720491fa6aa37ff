"""Facts about `marginal_map`; answers by enumeration."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import oracle
from column_circuits import column_circuits, joint_of
from strategies import circuits, examples, partly_observed_rows, seeds
from strudel.circuits.builder import CircuitBuilder
from strudel.circuits.compile import compile_chow_liu, figure_1_circuit
from strudel.data.datasets import load_dataset
from strudel.models.strudel import Strudel
from strudel.queries.event_probability import log_marginal
from strudel.queries.most_probable import marginal_map
from strudel.queries.state_bounds import Question, passes, relax, row_values
from strudel.queries.state_search import StateSearch
from strudel.tables.evidence import nothing_known
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.vtree import balanced_vtree, vtree_from_chow_liu

NONE = -1


def state_probabilities(circuit, query, row):
    """The probability of every state of the query variables together with what the row knows."""
    total = {}
    for full in oracle.completions(row):
        state = tuple(full[var] for var in query)
        total[state] = total.get(state, 0.0) + oracle.probability(circuit, full)
    return total


def check_against_enumeration(circuit, query, row):
    total = state_probabilities(circuit, query, row)
    found = marginal_map(circuit, query, row)
    best = math.log(max(total.values()))
    assert list(found.state) == query
    assert found.is_optimal
    assert found.log_probability == pytest.approx(best, rel=1e-10, abs=1e-10)
    assert found.upper_bound == found.log_probability
    own = total[tuple(found.state.values())]
    assert math.log(own) == pytest.approx(found.log_probability, rel=1e-10, abs=1e-10)


@st.composite
def questions(draw, circuit):
    """Some of the variables, and a row that may also know some of them."""
    order = draw(st.permutations(range(circuit.vtree.n_vars)))
    row = draw(partly_observed_rows(len(order)))
    return order[: draw(st.integers(1, len(order)))], row


@examples(250)
@given(st.one_of(circuits(7), circuits(7, deterministic=False)), st.data())
def test_circuits_agree_with_enumeration(circuit, data):
    query, row = data.draw(questions(circuit))
    assume(oracle.log_marginal(circuit, row) > -math.inf)
    check_against_enumeration(circuit, query, row)


@examples(80)
@given(column_circuits(), seeds)
def test_columns_with_several_cells_agree_with_enumeration(circuit, seed):
    rng = np.random.default_rng(seed)
    n_columns = len(circuit.columns)
    places = rng.permutation(n_columns)[: rng.integers(1, n_columns + 1)].tolist()
    hidden = tuple(place for place in range(n_columns) if place not in places)
    table = joint_of(circuit).sum(axis=hidden)
    evidence = nothing_known(circuit.columns)
    search = StateSearch(Question(circuit, evidence, places), 0)
    search.run(math.inf, math.inf)
    cells, log_p = search.states()
    assert search.upper_bound is None
    assert log_p[0] == pytest.approx(math.log(table.max()), abs=1e-10)
    assert table[tuple(cells[0, sorted(places)])] == pytest.approx(table.max(), rel=1e-9)


@examples(100)
@given(st.one_of(column_circuits(), column_circuits(n_components=1)), seeds)
def test_bounds_hold_for_every_state_of_a_partial_assignment(circuit, seed):
    rng = np.random.default_rng(seed)
    n_columns = len(circuit.columns)
    places = rng.permutation(n_columns)[: rng.integers(1, n_columns + 1)].tolist()
    row = row_values(Question(circuit, nothing_known(circuit.columns), places), 0)
    value = row.values()
    relaxation = relax(row, value, value[-1] + circuit.log_weight, -math.inf)
    assert not relaxation.rest
    table = joint_of(circuit).sum(axis=tuple(set(range(n_columns)) - set(places)))
    for _ in range(4):
        own = [rng.integers(0, 2, n_cells) for n_cells in table.shape]
        for allowed in own:
            allowed[rng.integers(len(allowed))] = 1
        allowed = np.concatenate(own).astype(np.uint8)[np.newaxis]
        total, choices = passes(relaxation, allowed, is_exact=False, is_down=True)
        scale = math.exp(relaxation.log_unit)
        of_state = [np.flatnonzero(column) for column in own]
        inside = table[np.ix_(*of_state)]
        assert total[0] * scale >= inside.max() * (1.0 - 1e-12)
        starts = relaxation.choice_first[:-1]
        for axis, cells in enumerate(of_state):
            for at, cell in enumerate(cells):
                bound = choices[0, starts[axis] + cell] * scale
                assert bound >= np.take(inside, at, axis).max() * (1.0 - 1e-12)
        if inside.size == 1:
            assert total[0] * scale == pytest.approx(inside.max(), rel=1e-10)
            near = passes(relaxation, allowed, is_exact=True, is_down=True)[1][0] * scale
            for axis, start in enumerate(starts):
                at = [int(cells[0]) for cells in of_state]
                for cell in range(table.shape[axis]):
                    at[axis] = cell
                    assert near[start + cell] == pytest.approx(table[tuple(at)], abs=1e-12)


@pytest.fixture(scope="module")
def digits_circuit():
    """64 variables."""
    data = load_dataset("digits")
    return Strudel(n_components=1, random_state=0).fit(data.train, X_valid=data.valid).circuit_


@pytest.mark.compiled
@pytest.mark.parametrize("limits", [{"max_nodes": 0}, {"max_nodes": 3}, {"max_seconds": 0.0}])
def test_limits_give_a_state_and_a_bound(digits_circuit, limits):
    query = list(range(0, 64, 2))
    found = marginal_map(digits_circuit, query, **limits)
    assert found.n_nodes <= limits.get("max_nodes", 0)
    assert found.log_probability <= found.upper_bound
    assert found.is_optimal == (found.log_probability == found.upper_bound)
    own = log_marginal(digits_circuit, found.state)[0]
    assert found.log_probability == pytest.approx(own, rel=1e-12)


@pytest.mark.compiled
def test_without_limits_the_bound_is_reached_and_no_sample_is_better(digits_circuit):
    query = list(range(0, 64, 2))
    known = {1: 1, 3: 0}
    found = marginal_map(digits_circuit, query, known)
    assert found.is_optimal
    early = marginal_map(digits_circuit, query, known, max_nodes=1)
    assert early.log_probability <= found.log_probability <= early.upper_bound
    rows = np.random.default_rng(0).integers(0, 2, size=(500, 64)).astype(float)
    rows[:250, query] = list(found.state.values())
    change = np.random.default_rng(1).integers(0, len(query), size=250)
    rows[np.arange(250), np.array(query)[change]] = (
        1 - rows[np.arange(250), np.array(query)[change]]
    )
    rows[:, 1::2] = np.nan
    rows[:, 1], rows[:, 3] = 1, 0
    assert log_marginal(digits_circuit, rows).max() <= found.log_probability + 1e-9


@pytest.mark.compiled
def test_the_first_variables_of_a_long_chain_need_one_pass():
    found = marginal_map(chain(1000, stay=0.6), range(900))
    # All equal; far below the smallest double, about e^-745, if it were not for the scales.
    assert found.log_probability == pytest.approx(math.log(0.5) + 899 * math.log(0.6), rel=1e-12)
    assert (found.is_optimal, found.n_nodes) == (True, 0)
    unlikely = marginal_map(chain(2000, stay=0.5), range(1800))
    assert unlikely.log_probability == pytest.approx(1800 * math.log(0.5), rel=1e-12)


@pytest.mark.compiled
def test_bounds_hold_on_a_long_chain_with_every_second_variable_hidden():
    found = marginal_map(chain(200, stay=0.9), range(0, 200, 2), max_nodes=20)
    best = math.log(0.5) + 99 * math.log(0.82)  # all equal: two steps stay or change twice
    assert found.log_probability <= best + 1e-9
    assert best <= found.upper_bound


def chain(n_vars, stay):
    """A fair coin and its followers, each of which keeps the value before with one probability."""
    parent = np.arange(-1, n_vars - 1, dtype=np.int32)
    theta = np.tile([1.0 - stay, stay], (n_vars, 1))
    theta[0] = 0.5
    tree = ChowLiuTree(parent, theta)
    return compile_chow_liu(tree, vtree_from_chow_liu(tree))


def test_tiny_parameters_do_not_lose_the_answer():
    """Values that differ by a factor of 1e200 within one vtree node."""
    builder = CircuitBuilder(balanced_vtree(2))
    tiny = 1e-200
    root = builder.add_sum(
        [
            (builder.literal(0, 1), builder.literal(1, 1), tiny),
            (builder.literal(0, 0), builder.literal(1, 0), 1.0),
            (builder.literal(0, 1), builder.literal(1, 0), 2 * tiny),
        ]
    )
    found = marginal_map(builder.build(root), ["x1"], {"x0": 1})
    assert found.state == {"x1": 0}
    assert found.log_probability == pytest.approx(math.log(2) + math.log(tiny))
    assert found.is_optimal


def test_variables_that_are_given_keep_their_value():
    found = marginal_map(figure_1_circuit(), ["X1", "X2"], {"X1": 0})
    assert found.state["X1"] == 0
    only = marginal_map(figure_1_circuit(), "X1", {"X1": 0})
    assert only.state == {"X1": 0}
    assert only.log_probability == pytest.approx(log_marginal(figure_1_circuit(), {"X1": 0})[0])
    assert (only.is_optimal, only.n_nodes) == (True, 0)


def test_the_state_is_named_as_the_question_was():
    circuit = figure_1_circuit()
    assert list(marginal_map(circuit, ["X3", "X1"]).state) == ["X3", "X1"]
    assert list(marginal_map(circuit, (2, 0)).state) == [2, 0]
    assert list(marginal_map(circuit.with_names(tuple("abcd")), "b").state) == ["b"]


@pytest.mark.parametrize(
    ("query", "given_row", "words"),
    [
        ([], None, "at least one column"),
        (["X9"], None, "'X9'"),
        (["X1", 0], None, "twice"),
        ([7], None, "7"),
        (["X1"], [[1, 0, 1, 0], [0, 0, 0, 0]], "one row"),
        (["X1"], {"X2": 3}, "must be 0 or 1"),
    ],
)
def test_bad_questions_are_refused(query, given_row, words):
    with pytest.raises(ValueError, match=words):
        marginal_map(figure_1_circuit(), query, given_row)


def test_impossible_evidence_is_refused():
    builder = CircuitBuilder(balanced_vtree(2))
    root = builder.add_sum([(builder.literal(0, 1), builder.add_leaf_sum(1, 0.5), 1.0)])
    with pytest.raises(ValueError, match="probability zero"):
        marginal_map(builder.build(root), ["x1"], {"x0": 0})
