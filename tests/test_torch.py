"""Which device a name stands for; torch is not loaded unless one is asked for."""

import subprocess
import sys

import pytest

from strudel import Strudel, to_torch
from strudel._torch import find_device
from strudel.circuits import figure_1_circuit
from strudel.errors import MissingDependencyError

X = [[0, 1], [1, 0], [1, 1], [0, 0]]


def test_the_cpu_needs_no_torch(monkeypatch):
    monkeypatch.setattr("strudel._torch.find_spec", lambda name: None)
    assert find_device("cpu") is None
    assert find_device("auto") is None
    Strudel(n_components=2, max_splits=0, device="auto").fit(X)


@pytest.mark.compiled
def test_a_fit_does_not_load_torch_unless_it_is_asked_for():
    code = (
        "import sys, strudel; strudel.to_torch; "
        "strudel.Strudel(2, max_splits=0).fit([[0, 1], [1, 0], [1, 1]]); "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_gpu_without_torch_is_a_missing_package(monkeypatch):
    monkeypatch.setattr("strudel._torch.find_spec", lambda name: None)
    monkeypatch.setattr("strudel.layers.exports.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'strudel-pc\[torch\]'"):
        to_torch(figure_1_circuit())
    with pytest.raises(MissingDependencyError, match=r"device='cuda' needs PyTorch: pip install"):
        Strudel(n_components=2, max_splits=0, device="cuda").fit(X)


@pytest.mark.parametrize("name", ["gpu", "cuda:x", None, 0])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match="device must be 'cpu', 'cuda', 'cuda:1' or alike"):
        Strudel(n_components=2, max_splits=0, device=name).fit(X)


def test_a_gpu_that_is_not_there_is_refused():
    torch = pytest.importorskip("torch")
    n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    with pytest.raises(ValueError, match=r"PyTorch finds .* use device='cpu', or 'auto'"):
        find_device(f"cuda:{n_devices}")
    assert (find_device("auto") is None) == (n_devices == 0)
    assert find_device(torch.device("cpu")) == torch.device("cpu")
