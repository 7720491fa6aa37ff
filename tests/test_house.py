"""The order of the house: how many names, modules and options there are, and that all are told."""

import inspect
import re
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


@pytest.mark.parametrize("package", [name for name in PACKAGES if name != "errors"])
def test_the_modules_that_a_contents_page_names_exist(package):
    page = import_module(f"strudel.{package}")
    modules = {path.stem for path in (SOURCE / package).glob("[a-z]*")}
    known = modules | set(dir(strudel)) | set(page.__all__) | {"ax"}
    named = set(re.findall(r"`([a-z_.]+)`", page.__doc__))
    assert named <= known | {f"strudel.{name}" for name in PACKAGES}
    assert len(named & modules) > 2


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


def test_every_exception_is_in_errors():
    """Those of the command line are its own."""
    from strudel import errors

    own = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Exception)
    }
    assert own == set(errors.__all__)
    for path in SOURCE.rglob("*.py"):
        if path != SOURCE / "errors.py" and "cli" not in path.parts:
            for line in path.read_text(encoding="utf-8").splitlines():
                is_exception = line.startswith("class ") and line.rstrip("):").endswith(
                    ("Error", "Warning", "Exception")
                )
                assert not is_exception or line.startswith("class _"), f"{path}: {line}"


@pytest.mark.parametrize("package", ["queries", "algebra", "predictions"])
def test_evidence_is_called_given_and_a_seed_random_state(package):
    page = import_module(f"strudel.{package}")
    for name in page.__all__:
        if inspect.isfunction(getattr(page, name)):
            arguments = set(inspect.signature(getattr(page, name)).parameters)
            assert not arguments & {"evidence", "known", "n", "rng", "seed"}, name


def test_no_folder_has_more_than_20_modules():
    for folder in [SOURCE, *(path.parent for path in SOURCE.rglob("__init__.py"))]:
        modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        assert len(modules) <= 20, folder


def test_the_estimator_has_at_most_18_options_besides_verbose_and_describes_each():
    options = list(inspect.signature(strudel.Strudel).parameters)
    assert len(options) <= 18 + 1
    described = inspect.getdoc(strudel.Strudel).split("Attributes")[0]
    for name in options:
        assert re.search(rf"^([a-z_]+, )*{name}(, [a-z_]+)*( :|$)", described, re.MULTILINE), name


def test_a_wrong_name_is_told_where_it_is_or_what_is_meant():
    with pytest.raises(AttributeError, match="Did you mean 'Strudel'"):
        strudel.Strudle  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'Cnf', but 'strudel\.logic' does"):
        strudel.Cnf  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'\. Choose from 'Circuit'"):
        strudel.circuits.nonsense  # noqa: B018
    assert not hasattr(strudel, "__wrapped__")


def test_the_import_is_quick_and_loads_nothing_heavy():
    code = "import sys, strudel, strudel.models; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {
        "numba",
        "numpy",
        "sklearn",
        "matplotlib",
        "pandas",
        "torch",
    }


def test_strudel_fit_has_at_most_25_options_in_panels():
    import typer

    from strudel.cli.main import app

    options = [
        parameter
        for parameter in typer.main.get_command(app).commands["fit"].params
        if parameter.param_type_name == "option" and parameter.name != "help"
    ]
    assert len([name for one in options for name in (one.opts[0], *one.secondary_opts)]) <= 25
    panels = {one.rich_help_panel for one in options}
    assert panels == {"Data", "Model", "Limits", "Output", "Cluster"}


def test_private_members_of_estimators_are_used_by_models_and_learning_only():
    from strudel import models

    estimators = [getattr(models, name) for name in models.__all__]
    private = {
        name
        for one in estimators
        for name in dir(one)
        if name.startswith("_") and not name.startswith("__") and is_ours(getattr(one, name))
    }
    assert "_fitted" in private
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] not in ("models", "learning"):
            text = path.read_text(encoding="utf-8")
            used = set(re.findall(r"(?<!\bself)(?<!\bstrudel)\.(_[a-z]\w*)", text))
            assert not used & private, path


def is_ours(member):
    return str(getattr(member, "__module__", "")).startswith("strudel.")
