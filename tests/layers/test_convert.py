"""Without PyTorch, one clear sentence."""

import subprocess
import sys

import pytest

import strudel
from strudel.circuits import figure_1_circuit
from strudel.errors import MissingDependencyError
from strudel.layers import convert


def test_without_pytorch_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(convert, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'strudel-pc\[torch\]'"):
        strudel.to_torch(figure_1_circuit())


def test_strudel_does_not_import_pytorch():
    code = "import strudel, sys; strudel.to_torch; print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == "False"
