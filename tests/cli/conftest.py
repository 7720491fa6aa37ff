"""A tiny table with names, and a model learned from it."""

import numpy as np
import pytest

from strudel.cli.main import main

NAMES = ("coffee", "tea", "milk", "sugar", "cake")


def make_rows(n_rows, seed):
    """Rows whose columns follow one hidden bit, with noise."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 2, size=(n_rows, 1))
    return (hidden ^ (rng.random((n_rows, len(NAMES))) < 0.2)).astype(np.uint8)


def write_csv(path, rows, names=NAMES):
    """Write rows under a line of names, or without one."""
    lines = [",".join(map(str, row)) for row in np.asarray(rows).tolist()]
    head = [] if names is None else [",".join(names)]
    path.write_text("\n".join([*head, *lines]) + "\n")
    return path


@pytest.fixture
def make_table(tmp_path):
    """Writes a csv into a folder of its own: `make_table("a.csv", rows, names)`."""

    def make_table(name, rows, names=NAMES):
        return write_csv(tmp_path / name, rows, names)

    return make_table


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="session")
def rows():
    return make_rows(120, seed=0)


@pytest.fixture(scope="session")
def unseen_rows():
    return make_rows(40, seed=1)


@pytest.fixture(scope="session")
def table(folder, rows):
    return write_csv(folder / "train.csv", rows)


@pytest.fixture(scope="session")
def unseen(folder, unseen_rows):
    return write_csv(folder / "unseen.csv", unseen_rows)


@pytest.fixture(scope="session")
def model(folder, table):
    path = folder / "model.strudel"
    options = ["--components", "1", "--set", "patience=5", "--quiet"]
    assert main(["fit", str(table), "-o", str(path), *options]) == 0
    return path


@pytest.fixture
def run(capsys):
    """Run a command; gives its exit code, stdout and stderr."""

    def run(*arguments):
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def refused(run):
    """Run a command that is bad input: exit code 2 and one line on stderr, which it gives."""

    def refused(*arguments):
        code, out, err = run(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1), (arguments, out, err)
        assert err.startswith("strudel: ")
        return err

    return refused


HEAD = "age,smoker,town,since"


@pytest.fixture(scope="session")
def make_lines():
    return lines_of_survey


def lines_of_survey(n_rows=80):
    """Lines of a csv of text, numbers and dates."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(n_rows):
        age = int(rng.choice([20, 35, 50, 70]))
        smoker = "yes" if rng.random() < (0.7 if age < 40 else 0.2) else "no"
        town = rng.choice(["Rome", "Oslo", "Bath, UK"])
        since = rng.choice(["2001-05-01", "2010-01-31"])
        lines.append(f'{age},{smoker},"{town}",{since}')
    return lines


@pytest.fixture(scope="session")
def survey(folder):
    path = folder / "survey.csv"
    path.write_text("\n".join([HEAD, *lines_of_survey()]) + "\n")
    return path


@pytest.fixture(scope="session")
def encoded(survey):
    """A model of a survey."""
    path = survey.with_name("survey.strudel")
    options = ["--components", "1", "--max-splits", "3", "-q"]
    assert main(["fit", str(survey), "-o", str(path), *options]) == 0
    return path


@pytest.fixture(scope="session")
def coarse(survey):
    """A model that separates ages only at 40."""
    path = survey.with_name("coarse.strudel")
    edges = ["--set", "columns.edges={'age': [40]}"]
    options = ["--components", "1", *edges, "--max-splits", "2", "-q"]
    assert main(["fit", str(survey), "-o", str(path), *options]) == 0
    return path
