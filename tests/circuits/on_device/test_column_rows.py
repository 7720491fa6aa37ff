"""Likelihoods on a device of torch are those of the CPU, to the rounding of float32."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from joint import NAN, special_circuits, special_mixtures
from strudel import Strudel, log_likelihood, log_marginal, responsibilities, sample
from strudel.circuits import figure_1_circuit
from strudel.circuits.reweigh import side_by_side

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # tables are small, and other tests run beside

from strudel.circuits.on_device import column_rows

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
    monkeypatch.setattr(column_rows, "BLOCK_ROWS", rows_at_a_time)
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
    circuit, X = side_by_side(model.circuit_), some_rows(20)
    np.testing.assert_allclose(
        log_likelihood(circuit, X, device=device), log_likelihood(circuit, X), rtol=1e-5
    )


def rows_of(model, n_rows=30):
    rng = np.random.default_rng(0)
    rows = sample(model, n_rows, random_state=0).astype(float)
    rows[rng.random(rows.shape) < 0.4] = NAN
    return rows


@pytest.mark.parametrize("name", special_circuits())
def test_circuits(name, device):
    circuit = special_circuits()[name]
    rows = rows_of(circuit)
    found = log_marginal(circuit, rows, device=device)
    np.testing.assert_allclose(found, log_marginal(circuit, rows), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", special_mixtures())
def test_mixtures(name, device):
    mixture = special_mixtures()[name]
    rows = rows_of(mixture)
    found = log_marginal(mixture, rows, device=device)
    np.testing.assert_allclose(found, log_marginal(mixture, rows), rtol=1e-5, atol=1e-6)
    shares = responsibilities(mixture, rows, device=device)
    np.testing.assert_allclose(shares, responsibilities(mixture, rows), atol=1e-5)


def test_a_circuit_that_does_not_add_up_to_one(device):
    circuit = special_circuits()["learned 0"]
    heavy = replace(circuit, log_total=0.5)
    rows = rows_of(circuit)
    found = log_marginal(heavy, rows, device=device)
    np.testing.assert_allclose(found, log_marginal(heavy, rows), rtol=1e-5)


def test_impossible_rows(device):
    circuit = special_circuits()["zeros"]  # x0 is never 1
    rows = np.array([[1, NAN, NAN, NAN, NAN], [0, NAN, NAN, NAN, 1]])
    found = log_marginal(circuit, rows, device=device)
    assert found[0] == -np.inf
    np.testing.assert_allclose(found, log_marginal(circuit, rows), rtol=1e-5)
