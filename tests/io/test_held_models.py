"""What a file holds, read without its estimator."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from strudel import Strudel, StrudelClassifier, load, save
from strudel.circuits import figure_1_circuit
from strudel.errors import FileFormatError
from strudel.io.model_file import load_held_model
from strudel.queries.given import circuit_of

HEAVY = ("sklearn", "pandas", "scipy.stats", "matplotlib")


def clusters(seed):
    rng = np.random.default_rng(seed)
    kind = np.repeat(rng.integers(0, 2, (300, 4)), 2, axis=1)
    return (rng.random((300, 8)) < 0.1 + 0.8 * kind).astype(np.uint8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    rows = clusters(0)
    table = pd.DataFrame({"age": np.arange(60) % 40, "smoker": np.arange(60) % 3 == 0})
    models = {
        "circuit": Strudel(n_components=1, max_splits=3, random_state=0).fit(rows),
        "mixture": Strudel(n_components=2, max_splits=2, random_state=0).fit(rows),
        "table": Strudel(n_components=1, max_splits=2, random_state=0).fit(table),
        "classifier": StrudelClassifier(n_components=1, random_state=0).fit(
            rows[:, 1:], rows[:, 0]
        ),
        "bare": figure_1_circuit(),
    }
    for name, model in models.items():
        save(model, path / f"{name}.strudel")
    return path


@pytest.mark.parametrize("name", ["circuit", "mixture", "table", "classifier", "bare"])
def test_the_same_model_is_read_with_and_without_the_estimator(folder, name):
    path = folder / f"{name}.strudel"
    whole, held = load(path), load_held_model(path)
    assert held.kind == type(whole).__name__
    model, same = circuit_of(whole), circuit_of(held.model)
    np.testing.assert_array_equal(model.edge_log_theta, same.edge_log_theta)
    assert model.columns.names == same.columns.names
    assert held.chosen == getattr(whole, "chosen_", {})
    if hasattr(whole, "history_"):
        np.testing.assert_array_equal(held.history.train, whole.history_.train)
    else:
        assert held.history is None


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "m.strudel").write_bytes(b"PK\x03\x04 and nothing more")
    with pytest.raises(FileFormatError):
        load_held_model(tmp_path / "m.strudel")


def run(*arguments, without=HEAVY):
    """Run a command in a process of its own; it fails if something heavy is loaded."""
    script = f"""
import sys
from strudel.cli.main import main
code = main({[str(argument) for argument in arguments]!r})
loaded = [name for name in {without!r} if name in sys.modules]
sys.exit(code or ("loaded " + ", ".join(loaded) if loaded else 0))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("name", "command", "rest"),
    [
        ("circuit", "query", ["marginal"]),
        ("circuit", "info", []),
        ("mixture", "query", ["marginal"]),
        ("table", "query", ["marginal"]),
        ("table", "query", ["probability", "smoker = true"]),
    ],
)
def test_questions_do_not_load_what_they_do_not_need(folder, name, command, rest):
    run(command, folder / f"{name}.strudel", *rest)


@pytest.mark.compiled
def test_scores_of_a_plain_table_load_no_estimators(folder):
    np.savetxt(folder / "rows.csv", clusters(1), fmt="%d", delimiter=",")
    heavy = [name for name in HEAVY if name != "pandas"]  # which reads all tables
    run("score", folder / "circuit.strudel", folder / "rows.csv", without=heavy)


@pytest.mark.compiled
def test_a_picture_loads_matplotlib_and_no_estimators(folder):
    picture = folder / "marginals.png"
    run("plot", folder / "circuit.strudel", "marginals", "-o", picture, without=HEAVY[:3])
