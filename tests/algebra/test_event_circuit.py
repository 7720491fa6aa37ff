"""Events over columns: conjunctions, cases and circuits against tables of all states."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from column_circuits import column_circuits, joint_of, states_of
from formulas import need_pysdd
from strategies import examples
from strudel.algebra.event_circuit import at_bounds, event_circuit, given_event
from strudel.circuits.products import product
from strudel.circuits.reweigh import normalized
from strudel.logic.column_classes import cases_of, conjunction_of
from strudel.logic.events import at_least, at_most, exactly
from strudel.logic.terms import Variables, said_event
from strudel.queries import event_probability
from strudel.queries.cells import log_probabilities
from strudel.tables.evidence import evidence_of_regions, nothing_known
from strudel.tables.schema import Columns

REL = 1e-9


@st.composite
def events(draw, columns, depth=3):
    """Comparisons of columns, joined by any operators."""
    if depth == 0 or draw(st.booleans()):
        column = draw(st.sampled_from(columns.columns))
        term = Variables(columns)[column.name]
        if column.is_numeric:
            bound = draw(st.sampled_from([0.5, 2.0, 4.2, 8.0]))
            return draw(st.sampled_from([term < bound, term >= bound, term.between(bound, 9.1)]))
        if column.kind == "bit":
            return term
        values = draw(st.lists(st.sampled_from(column.values), min_size=1, unique=True))
        return term.isin(values)
    left, right = (draw(events(columns, depth - 1)) for _ in range(2))
    kind = draw(st.sampled_from(["and", "or", "not", "xor", "implies", "iff", "count"]))
    if kind == "count":
        return at_least(2, [left, right, draw(events(columns, 0))])
    both = {
        "and": left & right,
        "or": left | right,
        "not": ~left,
        "xor": left ^ right,
        "implies": left >> right,
        "iff": left == right,
    }
    return both[kind]


def truth(event, columns, cells):
    """Whether an event holds for a combination of cells, all of whose bounds are edges."""
    if event.kind == "constant":
        return event.low == 1
    if event.kind in ("in", "variable"):
        place = columns.place(event.var)
        if event.kind == "variable":
            return cells[place] == 1
        column = columns[place]
        at = (-np.inf, *column.edges)[cells[place]] if column.is_numeric else cells[place]
        return any(low <= at < high for low, high in event.region)
    below = [truth(child, columns, cells) for child in event.children]
    if event.kind == "count":
        return event.low <= sum(below) <= event.high
    join = {
        "and": all,
        "or": any,
        "not": lambda x: not x[0],
        "xor": lambda x: x[0] != x[1],
        "iff": lambda x: x[0] == x[1],
        "implies": lambda x: not x[0] or x[1],
    }
    return join[event.kind](below)


@st.composite
def circuits_and_events(draw):
    circuit = draw(column_circuits(max_columns=4, n_components=2))
    return circuit, draw(events(circuit.columns))


@pytest.mark.parametrize("is_compiled", [True, False])
@given(circuits_and_events())
@examples(60)
def test_events_agree_with_the_table_of_all_states(is_compiled, asked):
    if is_compiled:
        need_pysdd()
        agrees_with_the_table(*asked)
        return
    with pytest.MonkeyPatch.context() as patch:  # then by cases
        patch.setitem(sys.modules, "pysdd", None)
        agrees_with_the_table(*asked)


def agrees_with_the_table(circuit, event):
    fine = at_bounds(circuit, event)
    joint = joint_of(fine)
    holds = [truth(event, fine.columns, cells) for cells in states_of(fine.columns)]
    table = joint * np.array(holds).reshape(joint.shape)
    expected = table.sum()

    facts = conjunction_of(event, circuit.columns)
    if facts is not None and all(facts.values()):
        evidence = evidence_of_regions(circuit.columns, [{}]).within(facts)
        found = np.exp(log_probabilities(circuit, evidence))[0]
        assert found == pytest.approx(expected, rel=REL, abs=1e-13)
    cases = cases_of(event, circuit.columns)
    nothing = nothing_known(circuit.columns)
    found = sum(np.exp(log_probabilities(circuit, nothing.within(case)))[0] for case in cases)
    assert found == pytest.approx(expected, rel=REL, abs=1e-13)

    own = event_circuit(circuit, event)  # bounds inside cells are shares of cells
    made = None if own is None else normalized(product(circuit, own))
    found = 0.0 if made is None else np.exp(made[1])
    assert found == pytest.approx(expected, rel=REL, abs=1e-13)
    given_it, log_p = given_event(circuit, event)
    assert np.exp(log_p) == pytest.approx(expected, rel=REL, abs=1e-13)
    if given_it is not None:
        assert joint_of(given_it) == pytest.approx(table / expected, rel=1e-8, abs=1e-13)


@given(circuits_and_events())
@examples(40)
def test_a_written_event_is_read_back(asked):
    circuit, event = asked
    columns = circuit.columns
    again = said_event(str(event), columns)
    fine = at_bounds(circuit, event)
    for cells in states_of(fine.columns):
        assert truth(again, fine.columns, cells) == truth(event, fine.columns, cells)


@given(column_circuits(max_columns=4, n_components=2), st.data())
@examples(60)
def test_counts_of_any_columns_agree_with_their_cases(circuit, data):
    columns = circuit.columns
    facts = [data.draw(events(Columns((column,)), 0)) for column in columns]
    low = data.draw(st.integers(0, len(facts)))
    event = data.draw(st.sampled_from([at_least, at_most, exactly]))(low, facts)
    rows = nothing_known(columns).within_each([{}, {0: columns_region(columns[0])}])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_probability, "FEW_COUNTED", 0)
        found = event_probability._logs_of_event(circuit, event, rows)
        patch.setattr(event_probability, "FEW_COUNTED", 99)
        expected = event_probability._logs_of_event(circuit, event, rows)
    np.testing.assert_allclose(np.exp(found), np.exp(expected), rtol=REL, atol=1e-13)


def columns_region(column):
    """Some of the values of a column."""
    return ((3.0, 6.0),) if column.is_numeric else ((1.0, 9.0),)
