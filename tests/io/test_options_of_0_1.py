"""Options as version 0.1 wrote them, and its files."""

import json

import numpy as np
import pytest

from strudel import (
    EM,
    BaggedEM,
    Beam,
    BestFirst,
    Boosting,
    Greedy,
    LearnPSDD,
    PerComponent,
    Race,
    Strudel,
    StrudelMixture,
    TableEncoder,
    load,
    load_dataset,
    log_likelihood,
)
from strudel.io.options_of_0_1 import encoder_options_of_0_1, options_of_0_1

CIRCUIT = {
    "preset": "paper",
    "edge_score": "flow",
    "variable_score": "mutual_information",
    "search": "greedy",
    "copies": "depth",
    "copy_levels": 3,
    "operation_score": "per_edge",
    "split_sides": "left",
    "init": None,
    "vtree": None,
    "max_splits": None,
    "patience": 100,
    "max_edges": None,
    "max_seconds": None,
    "pseudocount": 1.0,
    "copy_depth": 1,
    "validation_fraction": 0.1,
    "tie_rule": "root_first",
    "beam_width": 5,
    "beam_selection": "train",
    "beam_kl_threshold": None,
    "clones": True,
    "smoothing": "uniform",
    "smoothing_strength": "auto",
    "sampled_rows": None,
    "structure_rows": None,
    "constraint": None,
    "encoder": None,
    "respect_one_hot": True,
    "warm_start": False,
    "random_state": None,
    "n_jobs": None,
    "verbose": 0,
}
MIXTURE = {
    "n_components": 10,
    "structure": "shared",
    "n_splits": "auto",
    "method": "em",
    "n_runs": None,
    "n_bags": 10,
    "n_restarts": 1,
    "start": "k-means",
    "smoothing": "single",
    "pseudocount": "auto",
    "max_iterations": 500,
    "patience": 10,
    "max_components": 3200,
    "max_seconds": None,
    "search": "auto",
    "edge_score": "flow",
    "variable_score": "mutual_information",
    "init": "chow_liu",
    "vtree": "chow_liu",
    "copy_depth": 1,
    "max_splits": None,
    "max_edges": None,
    "structure_rows": None,
    "constraint": None,
    "encoder": None,
    "respect_one_hot": True,
    "validation_fraction": 0.1,
    "random_state": None,
    "n_jobs": None,
    "verbose": 0,
}


def circuit(**changes):
    """The model of this version that a file of 0.1 with these options gives."""
    assert set(changes) <= set(CIRCUIT)
    return Strudel(**options_of_0_1("Strudel", CIRCUIT | changes))


def mixture(**changes):
    assert set(changes) <= set(MIXTURE)
    return StrudelMixture(**options_of_0_1("StrudelMixture", MIXTURE | changes))


def same(model, other):
    """Whether two estimators ask for the same, however they say it."""
    if isinstance(model, Strudel):
        return model._options() == other._options()
    return model._task(has_valid=True) == other._task(has_valid=True)


def test_the_defaults_are_the_defaults():
    assert circuit().get_params() == Strudel().get_params()
    assert same(mixture(), StrudelMixture())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"edge_score": "random"}, {"search": Greedy(edge_score="random")}),
        ({"variable_score": "gain"}, {"search": Greedy(variable_score="gain")}),
        ({"tie_rule": "depth_first"}, {"search": Greedy(tie_rule="depth_first")}),
        ({"copy_depth": 3}, {"search": Greedy(copy_depth=3)}),
        ({"search": "best_first"}, {"search": "best_first"}),
        ({"search": "best_first", "clones": False}, {"search": BestFirst(clones=False)}),
        ({"search": "learnpsdd"}, {"search": "learnpsdd"}),
        (
            {"search": "learnpsdd", "copies": "minimal", "split_sides": "both", "copy_levels": 1},
            {"search": LearnPSDD(copies="minimal", split_sides="both", copy_levels=1)},
        ),
        (
            {
                "search": "learnpsdd",
                "operation_score": "heuristic",
                "edge_score": "random",
                "clones": False,
                "split_sides": "both",
            },
            {
                "search": LearnPSDD(
                    operation_score=Greedy(edge_score="random"), clones=False, split_sides="both"
                )
            },
        ),
        (
            {"search": "beam", "beam_width": 2, "beam_selection": "valid", "copy_depth": 3},
            {"search": Beam(width=2, selection="valid", copy_depth=3)},
        ),
        ({"search": "beam", "beam_kl_threshold": 0.5}, {"search": Beam(kl_threshold=0.5)}),
        ({"search": "auto"}, {"search": "race"}),
        (
            {"search": "auto", "clones": False, "copies": "minimal", "sampled_rows": 50},
            {
                "search": Race(
                    best_first=BestFirst(clones=False),
                    learnpsdd=LearnPSDD(clones=False, copies="minimal"),
                    sampled_rows=50,
                )
            },
        ),
        ({"sampled_rows": "auto"}, {"search": Greedy(sampled_rows="auto")}),
        ({"structure_rows": 500}, {"search": Greedy(structure_rows=500)}),
        ({"preset": "fast"}, {"preset": "fast"}),
        ({"preset": "fast", "patience": 7}, {"preset": "fast", "patience": 7}),
        ({"preset": "accurate"}, {"preset": "accurate"}),
        ({"preset": "accurate", "search": "beam"}, {"preset": "accurate", "search": "beam"}),
        (
            {"preset": "accurate", "sampled_rows": 50, "max_seconds": 9.0},
            {"preset": "accurate", "search": Race(sampled_rows=50), "max_seconds": 9.0},
        ),
        (
            {"preset": "accurate", "smoothing_strength": 3.0, "pseudocount": 0.5},
            {"preset": "accurate", "smoothing_strength": 3.0, "pseudocount": 0.5},
        ),
        ({"smoothing": "hierarchical"}, {"smoothing": "hierarchical"}),
        (
            {"init": "independent", "vtree": "bottom_up", "max_splits": 4, "max_edges": 90},
            {"init": "independent", "vtree": "bottom_up", "max_splits": 4, "max_edges": 90},
        ),
    ],
    ids=str,
)
def test_every_option_of_a_circuit(old, new):
    assert same(circuit(**old), Strudel(**new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            {"n_runs": 4, "n_restarts": 2, "start": "random", "max_iterations": 9, "patience": 3},
            {"method": EM(n_runs=4, n_init=2, init_params="random", max_iter=9, patience=3)},
        ),
        ({"start": "k-means++"}, {"method": EM(init_params="k-means++")}),
        ({"method": "bagged_em"}, {"method": "bagged_em"}),
        ({"method": "bagged_em", "n_bags": 3}, {"method": BaggedEM(n_bags=3)}),
        ({"n_bags": 3}, {}),
        ({"method": "boosting", "n_restarts": 5}, {"method": Boosting(n_init=5)}),
        ({"structure": "per_component"}, {"method": "per_component"}),
        ({"structure": "per_component", "n_runs": 3}, {"method": PerComponent(n_runs=3)}),
        (
            {"structure": "per_component", "method": "bagged_em", "n_bags": 3, "n_runs": 2},
            {"method": PerComponent(n_bags=3)},
        ),
        ({"n_splits": 30}, {"n_splits": 30}),
        ({"n_splits": 30, "max_splits": 7}, {"n_splits": 30}),
        ({"max_splits": 7}, {"n_splits": range(8)}),
        ({"search": "greedy"}, {"search": "greedy"}),
        ({"search": "best_first", "n_splits": 30}, {"search": "best_first", "n_splits": 30}),
        ({"edge_score": "random"}, {"search": Greedy(edge_score="random")}),
        (
            {"edge_score": "random", "search": "best_first"},
            {"search": "best_first"},
        ),
        ({"copy_depth": 3, "n_splits": 30}, {"search": Greedy(copy_depth=3), "n_splits": 30}),
        ({"structure_rows": 90}, {"search": BestFirst(structure_rows=90)}),
        (
            {"structure_rows": 90, "n_splits": 5},
            {"search": Greedy(structure_rows=90), "n_splits": 5},
        ),
        (
            {"structure_rows": 90, "search": "best_first"},
            {"search": BestFirst(structure_rows=90)},
        ),
        (
            {"n_components": "auto", "max_components": 60},
            {"n_components": "auto", "max_components": 60, "method": "em"},
        ),
        ({"n_components": 9, "max_components": 4}, {"n_components": 9}),
        (
            {"smoothing": "uniform", "pseudocount": 2.0, "max_edges": 900, "max_seconds": 8.0},
            {"smoothing": "uniform", "pseudocount": 2.0, "max_edges": 900, "max_seconds": 8.0},
        ),
        (
            {"init": "independent", "vtree": "balanced"},
            {"init": "independent", "vtree": "balanced"},
        ),
    ],
    ids=str,
)
def test_every_option_of_a_mixture(old, new):
    assert same(mixture(**old), StrudelMixture(**new))


def test_whether_codes_are_respected_is_an_option_of_the_encoder():
    assert circuit(encoder="auto").encoder == "auto"
    encoder = circuit(encoder="auto", respect_one_hot=False).encoder
    assert encoder.get_params() == TableEncoder(respect_one_hot=False).get_params()
    own = TableEncoder(n_bins=3).get_params()
    assert encoder_options_of_0_1(own, CIRCUIT) == own
    free = encoder_options_of_0_1(own, CIRCUIT | {"respect_one_hot": False})
    assert free == own | {"respect_one_hot": False}


@pytest.mark.parametrize("make", [Strudel, StrudelMixture])
def test_options_of_this_version_stay_as_they_are(make):
    params = make().get_params()
    assert options_of_0_1(make.__name__, params) is params
    assert options_of_0_1("StrudelImputer", {"edge_score": 1}) == {"edge_score": 1}


# Files that version 0.1 wrote


@pytest.fixture(scope="module")
def models(data_folder):
    if not (data_folder / "models").is_dir():
        pytest.skip("needs the model files of version 0.1")
    return data_folder / "models"


@pytest.fixture(scope="module")
def facts(models):
    return json.loads((models / "facts.json").read_text())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("nltcs-circuit", {"max_splits": 60}),
        ("nltcs-best-first", {"search": BestFirst(), "smoothing": "hierarchical"}),
        ("nltcs-constrained", {"constraint": "at_least(1, x0, x1, x2)"}),
        ("nltcs-mixture", {"n_components": 4, "n_splits": 30, "method": EM()}),
        ("nltcs-per-component", {"n_components": 2, "n_splits": 20, "method": PerComponent()}),
    ],
)
def test_models_of_rows_answer_as_they_did(models, facts, name, options):
    model = load(models / f"{name}.strudel")
    params = model.get_params()
    assert {key: params[key] for key in options} == options
    data = load_dataset("nltcs")
    rows = data.test
    if name == "nltcs-constrained":
        rows = data.train[data.train[:, :3].any(axis=1)][:3000]
        assert model.score([[0] * 16]) == -np.inf
    assert model.score(rows) == pytest.approx(facts[name], abs=1e-9)


def test_a_mixture_without_an_estimator(models, facts):
    mixture = load(models / "nltcs-bare-mixture.strudel")
    score = log_likelihood(mixture, load_dataset("nltcs").test).mean()
    assert score == pytest.approx(facts["nltcs-per-component"], abs=1e-9)


@pytest.fixture(scope="module")
def wine():
    datasets = pytest.importorskip("sklearn.datasets")
    pytest.importorskip("pandas")
    data = datasets.load_wine(as_frame=True)
    growers = np.array(["Anna", "Bruno", "Carla"])[data.target]
    return data.data.iloc[:, :5], growers


def test_models_of_tables_answer_as_they_did(models, facts, wine):
    columns, growers = wine
    classifier = load(models / "wine-classifier.strudel")
    assert classifier.score(columns, growers) == pytest.approx(facts["wine-classifier"])
    table = columns.assign(grower=growers)
    model = load(models / "wine-table.strudel")
    assert model.score(table) == pytest.approx(facts["wine-table"], abs=1e-9)
    assert model.encoder == "auto"
    gaps = table.copy()
    gaps.loc[1::3, "alcohol"] = np.nan
    gaps.loc[::4, "grower"] = None
    filled = load(models / "wine-imputer.strudel").transform(gaps)
    assert filled["alcohol"].mean() == pytest.approx(13.040730337078651)  # as version 0.1 did
    assert (filled["grower"] == "Anna").sum() == 59
