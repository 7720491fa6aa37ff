"""Products of flows and parameters on a device: exact sums, to 22 bits of every factor."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from strudel.circuits import flow_products
from strudel.circuits.flow_products import (
    FlowBlock,
    Parameters,
    log_products,
    log_sums,
    shares_in_parts,
    tensor_cores,
    transposed_products,
    upper_bits,
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


def test_logs_are_sums_to_float32_accuracy(device):
    block, dense = random_block(device)
    logs = np.random.default_rng(1).normal(-3.0, 2.0, size=(dense.shape[1], 5))
    logs[-1] -= 40.0
    parameters = Parameters.of(torch.from_numpy(logs).to(device), may_be_zero=False)
    with tensor_cores(device):
        found = log_products(block.matrix(), parameters)
    np.testing.assert_allclose(found[:300, :5].cpu().numpy(), dense @ logs, rtol=3e-6)
    assert not found[300:].any()


def test_parts_are_exact_in_tf32_and_leave_22_bits(device):
    numbers = torch.from_numpy(np.random.default_rng(0).normal(size=1000)).to(device)
    high = upper_bits(numbers.float())
    assert not (high.view(torch.int32) & 0x1FFF).any()
    low = upper_bits((numbers - high).float())  # what a product in TF32 keeps of it
    assert ((high.double() + low - numbers) / numbers).abs().max() < 2.0**-21
    assert ((high - numbers) / numbers).abs().max() > 2.0**-12


def test_an_impossible_choice_makes_a_row_impossible(device):
    block, dense = random_block(device)
    logs = np.where(np.random.default_rng(1).random((dense.shape[1], 3)) < 0.05, -np.inf, -1.0)
    logs[-1] = 0.0
    parameters = Parameters.of(torch.from_numpy(logs).to(device), may_be_zero=True)
    found = log_products(block.matrix(), parameters)[:300, :3].cpu().numpy()
    expected = np.where(dense @ np.isinf(logs) > 0, -np.inf, -dense[:, :-1].sum(1, keepdims=True))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert np.isinf(expected).any()
    assert np.isfinite(expected).any()


@pytest.mark.parametrize("n_weights", [1, 3])
def test_shares_and_sums_of_groups(device, n_weights):
    block, dense = random_block(device)
    rng = np.random.default_rng(2)
    logs = rng.normal(scale=5.0, size=(300, 3, 7))
    logs[4, 1] = -np.inf  # impossible in a group
    weight = rng.gamma(1.0, 100.0, size=(300, n_weights))
    table = block.padded(np.zeros((300, 24)), torch.float32)
    table[:300, :21] = torch.from_numpy(logs.reshape(300, 21)).to(device)
    alone = log_sums(table, 3, 7)
    sums, high, low = shares_in_parts(table, 3, 7, block.padded(weight))
    with np.errstate(divide="ignore"):
        expected = np.log(np.exp(logs).sum(axis=2))
    np.testing.assert_allclose(sums[:300].cpu().numpy(), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(alone[:300].cpu().numpy(), expected, rtol=1e-6, atol=1e-6)
    share = np.exp(logs - np.where(np.isinf(expected), 0.0, expected)[:, :, np.newaxis])
    share *= weight[:, :, np.newaxis]
    both = (high.double() + low)[:300, :21].cpu().numpy()
    np.testing.assert_allclose(both, share.reshape(300, 21), rtol=1e-5, atol=1e-5)
    with tensor_cores(device):
        counts = transposed_products(block.matrix(), high, low)[: dense.shape[1], :21]
    np.testing.assert_allclose(
        counts.cpu().numpy(), dense.T @ share.reshape(300, 21), rtol=1e-5, atol=1e-4
    )


def test_the_pass_of_triton_is_that_of_torch(device, monkeypatch):
    pytest.importorskip("triton", reason="needs Triton, which comes with PyTorch for CUDA")
    if device.type != "cuda":
        pytest.skip("needs CUDA")
    logs = torch.randn((100, 3 * 704), device=device) * 10.0
    weight = torch.rand((100, 3), dtype=torch.float64, device=device)
    fused = shares_in_parts(logs.clone(), 3, 700, weight)
    monkeypatch.setattr(flow_products, "_has_triton", lambda: False)
    plain = shares_in_parts(logs.clone(), 3, 700, weight)
    torch.testing.assert_close(fused[0], plain[0])
    torch.testing.assert_close((fused[1] + fused[2])[:, :2100], (plain[1] + plain[2])[:, :2100])
