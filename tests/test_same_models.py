"""Eighteen models and what they gave at version 0.1: no learned number changes unawares.

The figures are facts of our own models on the benchmark datasets (`same_models.json`). Here those
that learn in a moment are checked; `python tests/test_same_models.py` learns all of them.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from strudel import BaggedEM, Greedy, Strudel, load_dataset

EXPECTED = json.loads(Path(__file__).with_name("same_models.json").read_text(encoding="utf-8"))
AT_RANDOM = Greedy(edge_score="random", variable_score="random")
MODELS = {
    "paper nltcs": Strudel(n_components=1),
    "paper plants": Strudel(n_components=1),
    "paper dna": Strudel(n_components=1),
    "paper tretail": Strudel(n_components=1),
    "paper msweb": Strudel(n_components=1),
    "released ties nltcs": Strudel(
        n_components=1, search=Greedy(tie_rule="depth_first"), max_splits=300
    ),
    "random edge and variable nltcs": Strudel(n_components=1, search=AT_RANDOM, max_splits=200),
    "independent start plants": Strudel(n_components=1, init="independent", max_splits=300),
    "best first plants": Strudel(n_components=1, search="best_first", max_splits=300),
    "best first hierarchical dna": Strudel(
        n_components=1, search="best_first", smoothing="hierarchical", max_splits=200
    ),
    "learnpsdd nltcs": Strudel(n_components=1, search="learnpsdd", max_splits=150),
    "learnpsdd dna": Strudel(n_components=1, search="learnpsdd", max_splits=60),
    "constraint nltcs": Strudel(n_components=1, constraint="~(x0 & ~x0)", max_splits=50),
    "em 10 x 50 nltcs": Strudel(n_components=10, max_splits=50),
    "em 10 x 50 plants": Strudel(n_components=10, max_splits=50),
    "bagged 3 nltcs": Strudel(n_components=5, max_splits=50, method=BaggedEM(n_bags=3)),
    "boosting 5 nltcs": Strudel(n_components=5, max_splits=50, method="boosting"),
    "gaps nltcs": Strudel(n_components=1, max_splits=200),
}


def learned(name):
    """What one of the models gives."""
    data = load_dataset(name.split()[-1])
    train = data.train
    if name.startswith("gaps"):
        train = train.astype(float)
        train[np.random.default_rng(0).random(train.shape) < 0.2] = np.nan
    model = MODELS[name].set_params(random_state=0).fit(train, X_valid=data.valid)
    facts = {"test": model.score(data.test), "valid": model.score(data.valid)}
    return facts | ({"edges": model.circuit_.size} if model.circuit_.n_components == 1 else {})


def test_all_of_them_are_listed():
    assert set(MODELS) == set(EXPECTED)


@pytest.mark.compiled
@pytest.mark.parametrize("name", [name for name in MODELS if name.endswith("nltcs")])
def test_a_model_gives_what_it_gave(name, data_folder):
    assert learned(name) == pytest.approx(EXPECTED[name], rel=1e-9)


if __name__ == "__main__":
    wrong = 0
    for name in sys.argv[1:] or MODELS:
        found = learned(name)
        is_same = found == pytest.approx(EXPECTED[name], rel=1e-9)
        wrong += not is_same
        print("same " if is_same else "OTHER", name, "" if is_same else found, flush=True)
    sys.exit(wrong)
