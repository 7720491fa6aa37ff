"""Columns with more categories than cells: every value is asked for, drawn and shown."""

import numpy as np
import pandas as pd
import pytest

import strudel
from strudel import Strudel, StrudelImputer, variables
from strudel.explorer.page import page_data

N_PORTS = 150


def flights(n_rows=3000, power=1.3):
    """Many ports, the first ones frequent, and what depends on them."""
    rng = np.random.default_rng(0)
    share = 1.0 / np.arange(1, N_PORTS + 1) ** power
    port = np.append(np.arange(N_PORTS), rng.choice(N_PORTS, n_rows, p=share / share.sum()))
    late = rng.random(len(port)) < np.where(port < 20, 0.3, 0.6)
    return pd.DataFrame(
        {
            "port": np.array([f"P{number:03}" for number in range(N_PORTS)])[port],
            "late": np.where(late, "yes", "no"),
            "miles": 100.0 * (port % 7) + rng.normal(size=len(port)),
        }
    )


@pytest.fixture(scope="module", params=["circuit", "mixture"])
def fitted(request):
    frame = flights()
    if request.param == "circuit":
        return frame, Strudel(n_components=1, max_splits=4, random_state=0).fit(frame)
    model = Strudel(n_components=3, max_splits=2, random_state=0)
    return frame, model.fit(frame)


def rare_values(model):
    """The values that share a cell, the commonest of them first."""
    column = model.circuit_.columns[model.circuit_.columns.place("port")]
    group = column.group_of_cell
    places = np.flatnonzero(group == group[-1])
    return [column.values[p] for p in sorted(places, key=lambda p: -column.counts[p])]


@pytest.mark.compiled
def test_every_value_can_be_asked_for_and_is_as_probable_as_frequent(fitted):
    frame, model = fitted
    frequency = frame["port"].value_counts(normalize=True)
    assert len(rare_values(model)) > 60
    found = model.marginal_probabilities()["port"]
    assert set(found) == set(frequency.index)
    assert sum(found.values()) == pytest.approx(1.0)
    x = variables(model)["port"]
    for value in [*frequency.index[:3], *frequency.index[-40::4]]:
        assert found[value] == pytest.approx(frequency[value], abs=0.004)
        assert strudel.probability(model, x == value) == pytest.approx(found[value])
        assert strudel.probability(model, f"port != {value}") == pytest.approx(1 - found[value])
        assert strudel.probability(model, {"port": value}) == pytest.approx(found[value])
        assert np.exp(strudel.log_marginal(model, {"port": value})) == pytest.approx(found[value])


@pytest.mark.compiled
def test_sets_of_values_add_up(fitted):
    _, model = fitted
    found = model.marginal_probabilities()["port"]
    rare = rare_values(model)
    some = [*rare[3:60:4], "P000"]
    x = variables(model)
    inside = x["port"].isin(some)
    total = sum(found[value] for value in some)
    assert strudel.probability(model, inside) == pytest.approx(total)
    assert strudel.probability(model, ~inside) == pytest.approx(1 - total)
    given = model.marginal_probabilities({"port": some})["port"]
    for value in found:
        assert given[value] == pytest.approx(found[value] / total * (value in some), abs=1e-12)
    late = x["late"] == "yes"
    parts = [strudel.probability(model, late & (x["port"] == value)) for value in some]
    assert strudel.probability(model, late, given={"port": some}) == pytest.approx(
        sum(parts) / total
    )


def test_a_value_that_is_given_is_certain(fitted):
    frame, model = fitted
    value, second = rare_values(model)[:2]
    known = pd.DataFrame({"port": [value, "P000", None], "late": ["yes", "no", "no"]})
    marginals = model.marginal_probabilities(known)["port"]
    assert marginals[value][:2].tolist() == [1.0, 0.0]
    assert marginals["P000"][:2].tolist() == [0.0, 1.0]
    assert 0.0 < marginals[value][2] < 0.1
    is_first = variables(model)["port"] == value
    both = strudel.probability(model, is_first, given=known)
    assert both.tolist() == pytest.approx([1.0, 0.0, marginals[value][2]])
    assert strudel.probability(model, is_first, given={"port": second}) == 0.0
    assert set(model.sample(5, given={"port": value}, random_state=0)["port"]) == {value}
    logs = strudel.log_conditional(model, {"port": [value]}, given={"port": [value, second]})
    counts = frame["port"].value_counts()
    assert np.exp(logs) == pytest.approx(counts[value] / (counts[value] + counts[second]))


@pytest.mark.compiled
def test_conditioned_models_keep_the_values(fitted):
    _, model = fitted
    value, second = rare_values(model)[:2]
    x = variables(model)
    for event in (x["port"] == value, (x["port"] == value) | (x["miles"] > 550.0)):
        total = strudel.probability(model, event)
        given = strudel.condition(model, event)
        found = strudel.marginal_probabilities(given)["port"]
        assert sum(found.values()) == pytest.approx(1.0)
        for asked in (value, second, "P000"):
            both = strudel.probability(model, event & (x["port"] == asked))
            assert found[asked] == pytest.approx(both / total)
    drawn = strudel.sample(strudel.condition(model, {"port": value}), 20, random_state=0)
    assert set(drawn["port"]) == {value}


@pytest.mark.compiled
def test_drawn_values_come_with_their_shares(fitted):
    frame, model = fitted
    n_rows = 20_000
    drawn = model.sample(n_rows, random_state=0)["port"].value_counts(normalize=True)
    assert set(drawn.index) <= set(frame["port"])
    for value, chance in model.marginal_probabilities()["port"].items():
        assert abs(drawn.get(value, 0.0) - chance) < 5.0 * np.sqrt(chance / n_rows)


def test_likelihoods_are_of_values(fitted):
    frame, model = fitted
    ports = sorted(set(frame["port"]))
    pairs = pd.DataFrame(
        [(port, late) for port in ports for late in ("no", "yes")], columns=["port", "late"]
    )
    assert np.exp(strudel.log_marginal(model, pairs)).sum() == pytest.approx(1.0)


def test_entropy_and_the_most_probable_state_are_those_of_all_values():
    frame = flights(600, power=0.2)[["port", "late"]]  # rare values together weigh most
    model = Strudel(n_components=1, max_splits=2, random_state=0).fit(frame)
    assert len(rare_values(model)) == N_PORTS - 31
    ports = sorted(set(frame["port"]))
    pairs = pd.DataFrame(
        [(port, late) for port in ports for late in ("no", "yes")], columns=["port", "late"]
    )
    log_p = strudel.log_likelihood(model, pairs)
    assert np.exp(log_p).sum() == pytest.approx(1.0)
    assert strudel.entropy(model) == pytest.approx(-(np.exp(log_p) * log_p).sum())
    state, best = model.most_probable_state()
    assert best == pytest.approx(log_p.max())
    assert strudel.log_likelihood(model, state[["port", "late"]]) == pytest.approx([log_p.max()])
    rare = rare_values(model)[5]
    _, best = model.most_probable_state({"port": rare})
    assert best == pytest.approx(log_p[(pairs["port"] == rare).to_numpy()].max())


@pytest.mark.compiled
def test_nothing_is_invented_where_values_are_missing():
    frame = flights(1500)
    holes = frame.copy()
    holes.loc[::5, "port"] = None
    for strategy in ("auto", "sample", "map"):
        filled = StrudelImputer(
            Strudel(n_components=1, max_splits=0, random_state=0), strategy=strategy, random_state=0
        ).fit_transform(holes)
        assert set(filled["port"]) <= set(frame["port"])


def test_a_saved_model_and_its_page_know_all_values(fitted, tmp_path):
    frame, model = fitted
    strudel.save(model, tmp_path / "a.strudel")
    again = strudel.load(tmp_path / "a.strudel")
    assert again.marginal_probabilities()["port"] == model.marginal_probabilities()["port"]
    data = page_data(model)
    assert set(data["columns"][0]["labels"]) == set(frame["port"])


def test_a_predictor_of_all_values_is_averaged_over_all_values():
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame = flights(1500)
    model = Strudel(n_components=1, max_splits=0, random_state=0).fit(frame[["port", "late"]])
    predictor = make_pipeline(OneHotEncoder(), Ridge())
    predictor.fit(frame[["port"]], frame["miles"])
    found = strudel.expected_prediction(model, predictor, {"late": "yes"})
    chance = model.marginal_probabilities({"late": "yes"})["port"]
    each = predictor.predict(pd.DataFrame({"port": list(chance)}))
    assert found == pytest.approx(np.array(list(chance.values())) @ each)
