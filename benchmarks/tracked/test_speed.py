"""What a user waits for, in a few minutes and without downloads: run on every commit of main.

pip install -e '.[bench]'
pytest benchmarks/tracked                                        a table of times
pytest benchmarks/tracked --benchmark-autosave                   keep them
pytest benchmarks/tracked --benchmark-compare                    beside those that were kept last

One thread, kernels compiled before the clock starts. The first run compiles them.
"""

import subprocess
import sys

import numpy as np
import pytest
from em_step import prepare_step

from strudel import (
    Strudel,
    load_dataset,
    log_likelihood,
    log_marginal,
    marginal_probabilities,
    most_probable_state,
    sample,
)

SEED = 0


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


@pytest.fixture(scope="module")
def circuit(digits):
    return (
        Strudel(n_components=1, random_state=SEED).fit(digits.train, X_valid=digits.valid).circuit_
    )


@pytest.fixture(scope="module")
def gaps(digits):
    """Test images of which only the top half is known."""
    X = digits.test.astype(float)
    X[:, 32:] = np.nan
    return X


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"max_splits": 300}, id="greedy, 300 splits"),
        pytest.param({"search": "best_first", "max_splits": 100}, id="best-first, 100 operations"),
    ],
)
def test_learning(benchmark, digits, options):
    model = Strudel(n_components=1, random_state=SEED, **options)
    timed(benchmark, lambda: model.fit(digits.train, X_valid=digits.valid))


def test_em_step(benchmark, digits):
    step, _, _ = prepare_step(digits.train, n_components=50)
    timed(benchmark, step, rounds=50)


def test_log_likelihood(benchmark, circuit, digits):
    timed(benchmark, lambda: log_likelihood(circuit, digits.test), rounds=30)


def test_log_marginal(benchmark, circuit, gaps):
    timed(benchmark, lambda: log_marginal(circuit, gaps))


def test_marginal_probabilities(benchmark, circuit, gaps):
    timed(benchmark, lambda: marginal_probabilities(circuit, gaps[:100]))


def test_most_probable_state(benchmark, circuit, gaps):
    timed(benchmark, lambda: most_probable_state(circuit, gaps[:100]))


def test_sample(benchmark, circuit):
    timed(benchmark, lambda: sample(circuit, 1000))


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["-c", "import strudel"], id="import strudel"),
        pytest.param(["-c", "from strudel import Strudel"], id="import Strudel"),
        pytest.param(["-m", "strudel", "--version"], id="strudel --version"),
        pytest.param(["-m", "strudel", "fit", "--help"], id="strudel fit --help"),
    ],
)
def test_start(benchmark, arguments):
    def start():
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

    timed(benchmark, start, rounds=10)


def timed(benchmark, call, rounds=10):
    benchmark.pedantic(call, rounds=rounds, warmup_rounds=1)
