"""Rows with unknown values on a device of torch have the log-probabilities of the CPU."""

import numpy as np
import pytest

from joint import NAN, special_circuits, special_mixtures
from strudel import log_marginal, responsibilities, sample

torch = pytest.importorskip("torch")

DEVICES = [torch.device("cpu")] + [torch.device("cuda")] * torch.cuda.is_available()
pytestmark = pytest.mark.parametrize("device", DEVICES, ids=str)


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
    heavy = circuit.with_parameters(circuit.edge_log_theta + 0.5)
    rows = rows_of(circuit)
    found = log_marginal(heavy, rows, device=device)
    np.testing.assert_allclose(found, log_marginal(heavy, rows), rtol=1e-5)


def test_impossible_rows(device):
    circuit = special_circuits()["zeros"]  # x0 is never 1
    rows = np.array([[1, NAN, NAN, NAN, NAN], [0, NAN, NAN, NAN, 1]])
    found = log_marginal(circuit, rows, device=device)
    assert found[0] == -np.inf
    np.testing.assert_allclose(found, log_marginal(circuit, rows), rtol=1e-5)
