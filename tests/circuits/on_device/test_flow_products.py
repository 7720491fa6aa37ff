"""Products of flows and parameters on a device: exact sums, to 22 bits of every factor."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # tables are small, and other tests run beside

from strudel.circuits.on_device import flow_products
from strudel.circuits.on_device.flow_products import (
    LOW_SCALE,
    FlowBlock,
    Parameters,
    in_parts,
    log_products,
    log_sums,
    shares_in_parts,
    transposed_products,
)

DEVICES = [torch.device("cpu")] + [torch.device("cuda")] * torch.cuda.is_available()
pytestmark = pytest.mark.parametrize("device", DEVICES, ids=str)


def random_block(device, n_rows=300, n_entries=20, width=90):
    """Codes, the block and F by hand."""
    rng = np.random.default_rng(0)
    codes = np.array([rng.permutation(width)[:n_entries] for _ in range(n_rows)])
    codes[rng.random(codes.shape) < 0.3] = width  # no entry
    dense = np.zeros((n_rows, width + 1))
    np.put_along_axis(dense, codes, 1.0, axis=1)
    dense[:, -1] = 1.0
    return FlowBlock.of(codes, width, device, is_kept=False), dense


def on_device(device, logs, base, may_be_zero):
    """Parameters from arrays."""
    return Parameters.of(
        torch.from_numpy(logs).to(device), torch.from_numpy(base).to(device), may_be_zero
    )


def test_logs_are_sums_to_float32_accuracy(device):
    block, dense = random_block(device)
    logs = np.random.default_rng(1).normal(-3.0, 2.0, size=(dense.shape[1] - 1, 5))
    base = np.full(5, -40.0)
    parameters = on_device(device, logs, base, may_be_zero=False)
    found = log_products(block.matrix(), parameters)
    np.testing.assert_allclose(found[:300, :5].cpu().numpy(), dense[:, :-1] @ logs, rtol=3e-6)
    assert not found[300:].any()
    sums = log_sums(found, parameters.base, 5)  # every column a group of its own
    np.testing.assert_allclose(sums[:300].cpu().numpy(), dense[:, :-1] @ logs - 40.0, rtol=3e-6)


def test_two_parts_leave_22_bits_and_one_part_does_not(device):
    numbers = np.random.default_rng(0).normal(size=(1000, 1))
    parts = on_device(device, numbers, np.zeros(1), may_be_zero=False).parts[:, 0].double().cpu()
    high, low = parts.numpy()[:1000, np.newaxis], parts.numpy()[1008:2008, np.newaxis]
    np.testing.assert_allclose(high + low, numbers, rtol=2.0**-21, atol=2.0**-24)
    assert np.abs(high / numbers - 1.0).max() > 2.0**-12
    shares = torch.from_numpy(np.exp(-20.0 * np.random.default_rng(0).random(1000))).to(device)
    upper, lower = in_parts(shares.float())
    torch.testing.assert_close(
        upper.double() + lower.double() / LOW_SCALE, shares, rtol=2.0**-20, atol=1e-10
    )


def test_an_impossible_choice_makes_a_row_impossible(device):
    block, dense = random_block(device)
    logs = np.where(np.random.default_rng(1).random((dense.shape[1] - 1, 3)) < 0.05, -np.inf, -1.0)
    parameters = on_device(device, logs, np.zeros(3), may_be_zero=True)
    found = log_products(block.matrix(), parameters)[:300, :3].cpu().numpy()
    taken = dense[:, :-1]
    expected = np.where(taken @ np.isinf(logs) > 0, -np.inf, -taken.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert np.isinf(expected).any()
    assert np.isfinite(expected).any()


@pytest.mark.parametrize("n_weights", [1, 3])
def test_shares_and_sums_of_groups(device, n_weights):
    block, dense = random_block(device)
    rng = np.random.default_rng(2)
    logs = rng.normal(scale=5.0, size=(300, 3, 7))
    logs[4, 1] = -np.inf  # impossible in a group
    weight = rng.random(size=(300, n_weights))
    base = rng.normal(size=21)
    table = block.padded(np.zeros((300, 32)), torch.float32)
    table[:300, :21] = torch.from_numpy(logs.reshape(300, 21) - base).to(device)
    shared = torch.from_numpy(base).float().to(device)
    alone = log_sums(table.clone(), shared, 3)
    by_row = block.padded(weight, torch.float32)
    sums, high, low = shares_in_parts(table, shared, 3, by_row)
    with np.errstate(divide="ignore"):
        expected = np.log(np.exp(logs).sum(axis=2))
    np.testing.assert_allclose(sums[:300].cpu().numpy(), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(alone[:300].cpu().numpy(), expected, rtol=1e-6, atol=1e-6)
    share = np.exp(logs - np.where(np.isinf(expected), 0.0, expected)[:, :, np.newaxis])
    share *= weight[:, :, np.newaxis]
    both = (high.double() + low.double() / LOW_SCALE)[:300, :21].cpu().numpy()
    np.testing.assert_allclose(both, share.reshape(300, 21), rtol=1e-5, atol=1e-5)
    counts = transposed_products(block.matrix(), high, low)[: dense.shape[1], :21]
    np.testing.assert_allclose(
        counts.cpu().numpy(), dense.T @ share.reshape(300, 21), rtol=1e-5, atol=1e-4
    )


def test_the_pass_of_triton_is_that_of_torch(device, monkeypatch):
    pytest.importorskip("triton", reason="needs Triton, which comes with PyTorch for CUDA")
    if device.type != "cuda":
        pytest.skip("needs CUDA")
    logs = torch.randn((100, 2112), device=device) * 10.0
    base, weight = torch.randn(2100, device=device), torch.rand((100, 3), device=device)
    found = []
    for has_triton in (True, False):
        monkeypatch.setattr(flow_products, "_has_triton", lambda has=has_triton: has)
        sums, high, low = shares_in_parts(logs.clone(), base, 3, weight)
        found.append((sums, (high.double() + low.double() / LOW_SCALE)[:, :2100]))
    torch.testing.assert_close(*(sums for sums, _ in found))
    torch.testing.assert_close(*(shares for _, shares in found), rtol=1e-5, atol=1e-7)
