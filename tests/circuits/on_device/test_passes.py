"""One operation against the same in steps that PyTorch differentiates itself; also on a GPU."""

import numpy as np
import pytest

from joint import learned_circuit, special_circuits

torch = pytest.importorskip("torch")

from strudel.circuits.on_device import passes
from strudel.circuits.on_device.levels import MOST_TERMS, choice_edges, graph_of
from strudel.circuits.on_device.passes import packed, root_value, root_value_in_steps, with_fixed
from strudel.queries.given import circuit_of

DEVICES = [torch.device("cpu")] + [torch.device("cuda")] * torch.cuda.is_available()
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4}


def wide_circuit():
    circuit = circuit_of(learned_circuit(0, n_vars=7, n_rows=400, n_splits=150))
    assert np.diff(circuit.sum_edges).max() > MOST_TERMS
    return circuit


CIRCUITS = {
    "figure 1": lambda: circuit_of(special_circuits()["figure 1"]),
    "one variable": lambda: circuit_of(special_circuits()["one variable"]),
    "a literal": lambda: circuit_of(special_circuits()["a literal"]),
    "learned": lambda: circuit_of(special_circuits()["learned 0"]),
    "wide": wide_circuit,
}


def inputs(circuit, n_rows, k, is_by_row, dtype, device):
    """Soft values of leaves, some of them zero, and parameters that need no normalisation."""
    generator = torch.Generator().manual_seed(0)
    leaves = torch.rand(circuit.n_leaves, n_rows, 1, generator=generator)
    leaves[:, 0] = 1.0
    if n_rows > 1:
        leaves[::2, 1], leaves[1::2, 1] = 0.0, 1.0
    shape = (len(choice_edges(graph_of(circuit))), n_rows if is_by_row else 1, k)
    log_theta = -torch.rand(shape, generator=generator)
    if len(log_theta):
        log_theta[0] = -torch.inf
    return [torch.log(leaves).to(device, dtype), log_theta.to(device, dtype)]


def value_and_gradients(function, given, index, layout):
    leaves, log_theta = (one.clone().requires_grad_() for one in given)
    value = function(leaves, with_fixed(log_theta), index, layout)
    weight = torch.linspace(0.5, 2.0, value.numel()).to(value).view(value.shape)
    usable = torch.where(torch.isfinite(value), value, 0.0)
    found = torch.autograd.grad((usable * weight).sum(), [leaves, log_theta], allow_unused=True)
    zero = [torch.zeros_like(leaves), torch.zeros_like(log_theta)]
    filled = [z if f is None else f for f, z in zip(found, zero, strict=True)]
    return [value.detach(), *(torch.nan_to_num(one, posinf=0.0, neginf=0.0) for one in filled)]


@pytest.mark.parametrize("device", DEVICES, ids=str)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("n_rows", "k", "is_by_row"), [(1, 1, 0), (9, 1, 0), (9, 5, 0), (9, 3, 1)])
@pytest.mark.parametrize("name", CIRCUITS)
def test_values_and_gradients(name, n_rows, k, is_by_row, dtype, device):
    circuit = CIRCUITS[name]()
    index, layout = packed(graph_of(circuit))
    given = inputs(circuit, n_rows, k, is_by_row, torch.float64, "cpu")
    want = value_and_gradients(root_value_in_steps, given, index, layout)
    here = [one.to(device, dtype) for one in given]
    found = value_and_gradients(root_value, here, index.to(device), layout)
    for one, other in zip(found, want, strict=True):
        assert one.dtype == dtype
        tolerance = TOLERANCE[dtype]
        torch.testing.assert_close(one.double().cpu(), other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("device", DEVICES, ids=str)
@pytest.mark.parametrize(("k", "is_by_row"), [(1, 0), (5, 0), (3, 1)])
def test_blocks_of_rows(k, is_by_row, device, monkeypatch):
    circuit = wide_circuit()
    index, layout = packed(graph_of(circuit))
    index = index.to(device)
    given = inputs(circuit, 40, k, is_by_row, torch.float64, device)
    want = value_and_gradients(root_value, given, index, layout)
    monkeypatch.setitem(passes.MOST_BYTES, device.type, 2**16)
    found = value_and_gradients(root_value, given, index, layout)
    for one, other in zip(found, want, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_the_same_bits_every_time(device):
    circuit = wide_circuit()
    index, layout = packed(graph_of(circuit))
    index = index.to(device)
    given = inputs(circuit, 40, 3, 0, torch.float32, device)
    one, other = (value_and_gradients(root_value, given, index, layout) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_a_pass_can_be_captured_in_a_cuda_graph():
    from strudel import to_torch

    module = to_torch(wide_circuit()).to("cuda")
    rows = torch.randint(0, 2, (50, 7), device="cuda").float()
    with torch.no_grad():
        want = module.log_prob(rows)
        held = torch.zeros_like(rows)
        module.log_prob(held)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = module.log_prob(held)
        held.copy_(rows)
        graph.replay()
    torch.testing.assert_close(found, want)
