"""Likelihoods on a device of torch are those of the CPU, to the rounding of float32."""

from __future__ import annotations

import numpy as np
import pytest

from strudel import Strudel, log_likelihood, log_marginal, responsibilities
from strudel.circuits import figure_1_circuit

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # tables are small, and other tests run beside

from strudel.circuits.on_device import bit_rows

DEVICES = [torch.device("cpu")] + [torch.device("cuda")] * torch.cuda.is_available()
pytestmark = [pytest.mark.compiled, pytest.mark.parametrize("device", DEVICES, ids=str)]


def some_rows(n_rows=200, n_vars=10):
    rng = np.random.default_rng(0)
    chance = rng.beta(0.4, 0.4, size=(3, n_vars))
    return (rng.random((n_rows, n_vars)) < chance[rng.integers(3, size=n_rows)]).astype(np.uint8)


@pytest.fixture(params=[{}, {"pseudocount": 0.0}], ids=str)
def model(request):
    options = {"n_components": 3, "max_splits": 4, "random_state": 0, **request.param}
    return Strudel(**options).fit(some_rows())


@pytest.mark.parametrize("rows_at_a_time", [2**14, 7])
def test_likelihoods_are_those_of_the_cpu(device, model, rows_at_a_time, monkeypatch):
    monkeypatch.setattr(bit_rows, "BLOCK_ROWS", rows_at_a_time)
    X = np.vstack([some_rows(), 1 - some_rows(5), np.eye(10, dtype=np.uint8)])
    expected = log_likelihood(model, X)
    np.testing.assert_allclose(log_likelihood(model, X, device=device), expected, rtol=1e-5)
    np.testing.assert_allclose(model.log_likelihood(X, device=device), expected, rtol=1e-5)
    possible = X[np.isfinite(expected)]
    np.testing.assert_allclose(
        responsibilities(model, possible, device=device),
        model.responsibilities(possible),
        atol=1e-5,
    )


def test_rows_with_unknown_values_are_also_answered(device, model):
    X = some_rows()
    X = X[np.isfinite(log_likelihood(model, X))].astype(float)
    X[::2, 3] = np.nan
    np.testing.assert_allclose(
        log_marginal(model, X, device=device), log_marginal(model, X), rtol=1e-5
    )
    np.testing.assert_allclose(
        responsibilities(model, X, device=device), responsibilities(model, X), atol=1e-5
    )


def test_single_circuits_and_impossible_rows(device):
    X = np.array([[1, 0, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
    for circuit in (figure_1_circuit(), Strudel(n_components=1, max_splits=0).fit(X).circuit_):
        expected = log_likelihood(circuit, X)
        found = log_likelihood(circuit, X, device=device)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_circuit_that_is_not_deterministic_is_evaluated(device, model):
    circuit, X = model.circuit_.to_circuit(), some_rows(20)
    np.testing.assert_allclose(
        log_likelihood(circuit, X, device=device), log_likelihood(circuit, X), rtol=1e-5
    )
