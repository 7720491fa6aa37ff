"""The order of the house: names at the root and of packages, and what an import loads."""

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import strudel
from strudel._lazy import read_contents

SOURCE = Path(strudel.__path__[0])
PACKAGES = [name for name, module in read_contents(strudel.__path__[0]).items() if not module]


def test_the_root_has_at_most_60_names():
    assert len(strudel.__all__) <= 60
    assert dir(strudel) == sorted(strudel.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_of_a_contents_page_exists_and_is_described(package):
    page = import_module(f"strudel.{package}")
    assert page.__doc__
    assert dir(page) == sorted(page.__all__) or package == "errors"
    for name in page.__all__:
        assert inspect.getdoc(getattr(page, name)), name


@pytest.mark.parametrize("package", PACKAGES)
def test_no_name_of_a_contents_page_is_also_a_module(package):
    """Importing the module would hide the name."""
    folder = SOURCE / package
    modules = {path.stem for path in folder.glob("*") if path.is_dir() or path.suffix == ".py"}
    assert not modules & set(import_module(f"strudel.{package}").__all__)


def test_what_is_at_the_root_is_in_a_package():
    home = {name: page for page in PACKAGES for name in import_module(f"strudel.{page}").__all__}
    for name in set(strudel.__all__) - {"__version__"}:
        page = import_module(f"strudel.{home[name]}")
        assert getattr(strudel, name) is getattr(page, name)


@pytest.mark.parametrize("package", ["queries", "algebra", "predictions"])
def test_evidence_is_called_given_and_a_seed_random_state(package):
    page = import_module(f"strudel.{package}")
    for name in page.__all__:
        if inspect.isfunction(getattr(page, name)):
            arguments = set(inspect.signature(getattr(page, name)).parameters)
            assert not arguments & {"evidence", "known", "n", "rng", "seed"}, name


def test_a_wrong_name_is_told_where_it_is_or_what_is_meant():
    with pytest.raises(AttributeError, match="Did you mean 'Strudel'"):
        strudel.Strudle  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'Cnf', but 'strudel\.logic' does"):
        strudel.Cnf  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'\. Choose from 'Circuit'"):
        strudel.circuits.nonsense  # noqa: B018
    assert not hasattr(strudel, "__wrapped__")


LATE = {"numba", "sklearn", "scipy", "pandas", "narwhals", "matplotlib", "torch", "rich"}
FIT = "Strudel(n_components=1, max_splits=0).fit([[0, 1], [1, 0], [1, 1]]).predict_proba([[0, 1]])"


@pytest.mark.parametrize(
    ("code", "late"),
    [
        ("import strudel, strudel.models", LATE | {"numpy"}),
        ("from strudel import Strudel", LATE),
        ("from strudel import StrudelClassifier, StrudelRegressor, load", {"sklearn", "pandas"}),
        ("from strudel.models import LogisticCircuit, StrudelImputer", {"sklearn", "pandas"}),
        (f"from strudel import Strudel; {FIT}", {"sklearn", "pandas", "matplotlib", "torch"}),
    ],
)
def test_an_import_loads_nothing_that_takes_long(code, late):
    code += "\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & late
