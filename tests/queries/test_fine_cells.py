"""Questions to circuits with fine cells: people see groups, bounds and numbers see cells."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import strudel
from strudel import Strudel
from strudel.circuits import Circuit
from strudel.circuits.other_columns import with_edges
from strudel.explorer.page import page_data
from strudel.queries import check, compare, correlations, expectation, quantile
from strudel.queries.cells import log_probabilities
from strudel.tables import TableEncoder
from strudel.tables.evidence import evidence_of

QUESTIONS = (None, {"age": 43}, {"age": (33, 47)}, "age > 51", {"pay": [0.0]}, {"job": "b"})


def people(n_rows=1500):
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, n_rows)
    pay = np.where(rng.random(n_rows) < 0.2, 0.0, rng.lognormal(3.0 + age / 60.0, 0.7, n_rows))
    job = np.where(rng.random(n_rows) < (age - 10) / 90, "a", np.where(pay > 40.0, "b", "c"))
    return pd.DataFrame({"age": age, "pay": pay.round(2), "job": job})


def fine(circuit):
    """The circuit with the fine cells of its table, in which it tells nothing new."""
    columns = TableEncoder().fit(people()).code_.as_columns
    edges = {place: own.edges for place, own in enumerate(columns) if own.is_numeric}
    return with_edges(circuit, edges).with_columns(columns)


@pytest.fixture(scope="module", params=[1, 3])
def pair(request):
    model = Strudel(n_components=request.param, max_splits=6, random_state=0).fit(people())
    return fine(model.circuit_), model.circuit_


def uneven(circuit):
    """The circuit with leaves that differ within groups, and the same without any groups."""
    rng = np.random.default_rng(1)
    logs = circuit.leaf_log_p + rng.normal(0.0, 0.5, circuit.leaf_log_p.shape)
    first = circuit.leaf_first
    for start, stop in pairwise(first):
        logs[start:stop] -= np.logaddexp.reduce(logs[start:stop], axis=0)
    made = replace(circuit, leaf_log_p=logs)
    alone = tuple(replace(column, groups=()) for column in circuit.columns)
    return made, made.with_columns(replace(circuit.columns, columns=alone))


def is_near(a, b):
    return a == pytest.approx(b, rel=1e-8, abs=1e-11)


@pytest.mark.parametrize("given", QUESTIONS)
def test_cells_that_tell_nothing_new_change_no_answer(pair, given):
    found, same = pair
    assert found.columns[0].n_cells > same.columns[0].n_cells
    assert is_near(strudel.probability(found, "pay < 31.4 & age >= 37", given),
                   strudel.probability(same, "pay < 31.4 & age >= 37", given))  # fmt: skip
    for name in ("age", "pay"):
        assert is_near(expectation(found, name, given), expectation(same, name, given))
        for share in (0.05, 0.5, 0.93):
            own, other = (quantile(own, name, share, given) for own in pair)
            assert is_near(own, other)
    marginals, others = (strudel.marginal_probabilities(own, given) for own in pair)
    for name in others:
        assert list(marginals[name]) == list(others[name])
        assert is_near(list(marginals[name].values()), list(others[name].values()))
    assert marginals.to_frame().shape == others.to_frame().shape
    for k in (1, 3):
        states, logs = zip(
            *(strudel.most_probable_state(own, given, k=k) for own in pair), strict=True
        )
        if given != {"age": 43}:  # of which the cell counts, and that is smaller
            assert is_near(np.ravel(logs[0]).tolist(), np.ravel(logs[1]).tolist())
        assert states[0].equals(states[1])
    best, other = (strudel.marginal_map(own, ["age", "job"], given) for own in pair)
    assert best.state == other.state
    if given != {"age": 43}:
        assert is_near(best.log_probability, other.log_probability)
    told, other = (strudel.mutual_information(own, "age", "job", given) for own in pair)
    assert is_near(told, other)
    if given != {"age": 43}:  # nothing varies with a number that is known
        assert np.allclose(*(correlations(own, given).values for own in pair), equal_nan=True)
    if found.n_components == 1:
        assert is_near(strudel.entropy(found, given), strudel.entropy(same, given))


def test_rows_are_as_likely_and_completed_alike(pair):
    found, same = pair
    rows = people(60)
    assert is_near(strudel.log_likelihood(found, rows).tolist(),
                   strudel.log_likelihood(same, rows).tolist())  # fmt: skip
    rows.loc[::2, "pay"] = np.nan
    rows.loc[1::3, "age"] = np.nan
    states = [strudel.most_probable_state(own, rows)[0] for own in pair]
    pd.testing.assert_frame_equal(*states)
    marginals, others = (strudel.marginal_probabilities(own, rows).to_frame() for own in pair)
    pd.testing.assert_frame_equal(marginals, others)


def test_questions_of_several_rows_may_know_parts_of_groups(pair):
    given = [{"age": (33, 47)}, {"job": "c"}, {"job": "a", "pay": (12.3, None)}, {}]
    states, logs = zip(*(strudel.most_probable_state(own, given) for own in pair), strict=True)
    pd.testing.assert_frame_equal(*states)
    assert is_near(logs[0].tolist(), logs[1].tolist())
    if pair[0].n_components == 1:
        assert is_near(*(strudel.entropy(own, given).tolist() for own in pair))


def test_pages_pairs_and_comparisons_show_groups(pair):
    found, same = (page_data(own) for own in pair)
    found["model"], found["numbers"] = same["model"], same["numbers"]
    for column, other in zip(found["columns"], same["columns"], strict=True):
        assert column.pop("numbers", []) == pytest.approx(other.pop("numbers", []))
    assert found == same
    a, b = (compare(own, {"job": "a"}, {"job": "b"}) for own in pair)
    assert a.names == b.names
    assert is_near(a.column_divergence.tolist(), b.column_divergence.tolist())
    assert all(list(a.probabilities[name]) == list(b.probabilities[name]) for name in a.names)
    assert check(pair[0], people()).names == check(pair[1], people()).names


@pytest.mark.parametrize(
    "given", [None, {"age": 43}, {"age": (33, 47)}, {"age": (33, 47), "job": "a"}]
)
def test_groups_add_up_the_cells_of_uneven_leaves(pair, given):
    found, alone = uneven(pair[0])
    grouped, single = (strudel.marginal_probabilities(own, given) for own in (found, alone))
    for column in found.columns:
        sums = np.bincount(column.shown_of_cell, list(single[column.name].values()))
        assert is_near(list(grouped[column.name].values()), sums.tolist())
    best = strudel.marginal_map(found, ["age", "job"], given)
    age, job = found.columns[0], found.columns[2]
    table = np.zeros((age.shown.n_cells, job.n_cells))
    for place, value in enumerate(job.values):
        part = strudel.probability(alone, {"job": value}, given)
        if part > 0.0:
            facts = (given or {}) | {"job": value}
            chance = list(strudel.marginal_probabilities(alone, facts)["age"].values())
            np.add.at(table[:, place], age.shown_of_cell, part * np.array(chance))
    log_given = log_probabilities(alone, evidence_of(alone.columns, given))[0]  # cells of numbers
    assert is_near(best.log_probability, math.log(table.max()) + log_given)


def test_a_file_keeps_groups(pair, tmp_path):
    strudel.save(pair[0], tmp_path / "fine.strudel")
    again = strudel.load(tmp_path / "fine.strudel")
    assert isinstance(again, Circuit)
    assert [own.groups for own in again.columns] == [own.groups for own in pair[0].columns]
    assert strudel.probability(again, "age < 31") == strudel.probability(pair[0], "age < 31")
