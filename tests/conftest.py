"""What all tests share: all cores, one seed, Hypothesis without deadlines, the folder of real data.

Warnings are errors (`pyproject.toml`). Real data is looked for in ``$STRUDEL_DATA``, or else in
``shared/data`` beside the checkout; tests that need it skip, by name, where there is none.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

if "PYTEST_XDIST_WORKER" in os.environ:  # before Numba is imported
    # All cores are busy with other tests, so threads that wait should not spin; two are enough to
    # see that their number changes nothing.
    os.environ.setdefault("NUMBA_NUM_THREADS", "2")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of PyTorch, whose tensors are small here

import numpy as np
import pytest
from hypothesis import settings

from strategies import examples
from strudel.learning.bits.circuit import BitCircuit

# Compiling a kernel makes one example slow, so no deadline; the same examples on every run.
settings.register_profile("strudel", examples(60), deadline=None, derandomize=True)
settings.load_profile("strudel")

_SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
if "STRUDEL_DATA" not in os.environ and _SHARED.is_dir():
    os.environ["STRUDEL_DATA"] = str(_SHARED)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Run the whole suite on all cores; some files, or `pytest -n 0`, in this process.

    Workers begin at different ends of the list and steal from each other only when they run dry
    (`worksteal`), so that a kernel is compiled by one of them and found on disk by the other.
    """
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    is_worker = hasattr(config, "workerinput")
    if everything and not is_worker and getattr(config.option, "numprocesses", 0) is None:
        config.option.numprocesses = "logical"
        config.option.dist = "worksteal"


def pytest_configure(config: pytest.Config) -> None:
    """Pass over the doctests of modules that need a package which is not installed."""
    if find_spec("torch") is None or find_spec("triton") is None:
        config.option.doctest_ignore_import_errors = True


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """A file of tests that cannot be imported is an error, whatever doctests of `src` pass over."""
    option = collector.config.option
    before, option.doctest_ignore_import_errors = option.doctest_ignore_import_errors, False
    try:
        return (yield)
    finally:
        option.doctest_ignore_import_errors = before


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without the compiler there is nothing to warm up; it would take half a minute."""
    for item in items:
        if item.nodeid.startswith("src/strudel/models/warm_up.py"):
            item.add_marker(pytest.mark.compiled)


_made_deterministic = BitCircuit.made_deterministic


@pytest.fixture(scope="session", autouse=True)
def learned_circuits_are_checked():
    """Circuits that are deterministic by the way they were made are checked all the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BitCircuit, "made_deterministic", lambda self: self)
        yield


@pytest.fixture
def learned_circuits_are_trusted(monkeypatch):
    monkeypatch.setattr(BitCircuit, "made_deterministic", _made_deterministic)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    folder = os.environ.get("STRUDEL_DATA")
    if not folder or not (Path(folder) / "debd").is_dir():
        pytest.skip("needs the real datasets: set STRUDEL_DATA to the folder that holds debd/")
    return Path(folder)


@pytest.fixture
def hostile_folder(tmp_path, monkeypatch):
    """The current folder has modules that anyone wrote; gives the file where they say they ran."""
    folder, ran = tmp_path / "downloads", tmp_path / "ran.txt"
    folder.mkdir()
    for name in ("pickle", "random", "resource", "numpy", "distributed", "multiprocessing"):
        (folder / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write({name!r})")
    monkeypatch.chdir(folder)
    return ran
