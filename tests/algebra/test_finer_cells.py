"""A model with finer cells is the same model."""

import functools

import numpy as np
import pandas as pd
import pytest

import strudel
from strudel import Strudel
from strudel.algebra.finer_cells import with_finer_cells
from strudel.circuits.properties import why_not_deterministic
from strudel.queries import expectation
from strudel.tables import TableEncoder

approx = pytest.approx
BOUNDS = {"size": [3.0, 5.0, 6.0, 9.0], "score": [1.25, 2.0, 11.0]}
GIVEN = [
    {"size": (3, 9)},
    {"size": (None, 6), "score": (1.25, 2.0)},
    {"score": (2.0, None), "colour": "red"},
    {"size": (4, 8), "score": (0.5, 3.7)},  # neither edges nor bounds
    {"size": 5, "colour": "blue"},
    {"score": 1.3},
]


def table(n=300):
    rng = np.random.default_rng(0)
    colour = rng.choice(["red", "green", "blue"], n)
    size = rng.integers(0, 12, n) + 4 * (colour == "red")
    return pd.DataFrame(
        {"colour": colour, "size": size, "score": rng.gamma(2.0, 2.0, n) + size / 5}
    )


@functools.cache
def learned(kind):
    few = TableEncoder(n_bins=4, code="one_hot" if kind == "one-hot" else "thermometer")
    if kind == "mixture":
        model = Strudel(n_components=3, max_splits=3, columns=few, random_state=0)
        return model.fit(table()).circuit_
    return Strudel(n_components=1, columns=few, random_state=0, max_splits=10).fit(table()).circuit_


@pytest.mark.parametrize("kind", ["learned", "one-hot", "mixture"])
def test_answers_stay_the_same(kind):
    model = learned(kind)
    finer = with_finer_cells(model, BOUNDS, "test")
    assert finer.table_code.column("size").n_values > model.table_code.column("size").n_values
    for given in GIVEN:
        found, wanted = (strudel.log_marginal(one, [given])[0] for one in (finer, model))
        assert found == approx(wanted, rel=1e-9, abs=1e-12)
        before, after = (expectation(one, "score", given=given) for one in (model, finer))
        assert after == approx(before, rel=1e-9)
    rows = table().iloc[:20]
    wanted = strudel.log_likelihood(model, rows)
    assert strudel.log_likelihood(finer, rows) == approx(wanted, rel=1e-9)


def test_a_cell_is_divided_as_its_density_says():
    model = learned("learned")
    finer = with_finer_cells(model, BOUNDS, "test")
    column = finer.table_code.column("score")
    chances = list(strudel.marginal_probabilities(finer, {"colour": "red"})["score"].values())
    ends = [-np.inf, *column.edges, np.inf]
    for chance, low, high in zip(chances, ends[:-1], ends[1:], strict=True):
        event = {"score": (None if np.isinf(low) else low, None if np.isinf(high) else high)}
        log_p = strudel.log_conditional(model, event, given={"colour": "red"})
        assert chance == approx(np.exp(np.ravel(log_p)[0]), rel=1e-9, abs=1e-14)


def test_finer_circuits_stay_deterministic_and_names_of_edges_stay():
    model = learned("learned")
    finer = with_finer_cells(model, BOUNDS, "test")
    assert finer.is_in_normal_form
    assert why_not_deterministic(finer) is None
    assert set(model.feature_names) <= set(finer.feature_names)
    assert with_finer_cells(finer, BOUNDS, "test") is finer


def test_variables_that_lie_apart_are_refused():
    encoder = TableEncoder(n_bins=4).fit(table())
    rows = encoder.transform(table())
    order = [*range(0, rows.shape[1], 2), *range(1, rows.shape[1], 2)]
    apart = strudel.Vtree.from_nested(_chain(order))
    circuit = Strudel(n_components=1, vtree=apart, max_splits=0).fit(rows).circuit_
    with pytest.raises(ValueError, match=r"the model keeps its variables .* apart"):
        with_finer_cells(circuit.with_table_code(encoder.code_), BOUNDS, "test")


def _chain(items):
    nested = items[-1]
    for item in reversed(items[:-1]):
        nested = (item, nested)
    return nested


@pytest.mark.parametrize("kind", ["learned", "mixture", "circuits"])
def test_models_are_given_any_event_with_bounds(kind):
    pytest.importorskip("pysdd")
    model = learned(kind)
    columns = strudel.variables(model)
    is_large, is_red = columns["size"] > 7, columns["colour"] == "red"
    events = [
        is_large | is_red,
        ~(is_large & is_red),
        (is_large | (columns["score"] < 2.2)) & ~is_red,
    ]
    for place, event in enumerate(events):
        given = strudel.condition(model, event)
        for asked in (columns["score"] >= 3.3, columns["size"] < 9):
            wanted = strudel.probability(model, asked & event) / strudel.probability(model, event)
            assert strudel.probability(given, asked) == approx(wanted, rel=1e-9)
        rows = strudel.sample(given, 200, random_state=0)
        held = (rows["size"] > 7).to_numpy(), (rows["colour"] == "red").to_numpy()
        low = (rows["score"] < 2.2).to_numpy()
        holds = [held[0] | held[1], ~(held[0] & held[1]), (held[0] | low) & ~held[1]]
        assert holds[place].all()


@pytest.mark.parametrize("kind", ["learned", "one-hot"])
def test_cells_have_their_medians(kind):
    finer = with_finer_cells(learned(kind), {**BOUNDS, "size": [2.5, 5.0, 6.5]}, "test")
    for name in ("size", "score"):
        column = finer.table_code.column(name)
        ends = [-np.inf, *column.edges, np.inf]
        new = set(column.edges) - set(learned(kind).table_code.column(name).edges)
        wanted = column.cells.medians(np.ones(column.n_values, dtype=bool))
        for value, median, low, high in zip(
            column.values, wanted, ends[:-1], ends[1:], strict=True
        ):
            assert low <= value < high
            if new & {low, high}:
                assert value == approx(median, rel=1e-9)
