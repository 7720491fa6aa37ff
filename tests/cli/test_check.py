"""Facts about `strudel check`."""

import json

import numpy as np
import pytest
from tests.cli.conftest import NAMES, make_rows

from strudel import Strudel, load, save
from strudel.queries import check


@pytest.fixture(scope="module")
def independent(tmp_path_factory):
    """A model that has lost all five columns' dependence."""
    path = tmp_path_factory.mktemp("check") / "independent.strudel"
    rows = make_rows(600, seed=0)
    model = Strudel(n_components=1, init="independent", max_splits=0, random_state=0)
    import pandas as pd

    save(model.fit(pd.DataFrame(rows, columns=NAMES)), path)
    return path


def test_the_worst_pairs_are_shown_and_lost_ones_told(run, independent, make_table):
    rows = make_rows(500, seed=1)
    expected = check(load(independent), rows)
    code, out, err = run("check", independent, make_table("rows.csv", rows), "--top", 3)
    assert (code, err) == (0, "")
    assert f"lost: {expected.sentences()[0]}" in out
    assert "lost: 7 more" in out
    code, out, err = run("check", independent, make_table("rows.csv", rows), "--json")
    report = json.loads(out)
    assert (report["rows"], report["pairs_of_columns"], report["lost"]) == (500, 10, 10)
    assert report["lost_pairs"] == list(expected.sentences())
    assert [*report["pairs"][0].values()] == [*expected.lost[0]]


def test_without_rows_the_file_says_what_was_found_at_fit(run, independent):
    code, out, err = run("check", independent, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["lost_pairs"] == list(load(independent).check_.sentences())


def test_a_model_that_has_lost_nothing_says_so(run, model, unseen):
    code, out, _ = run("check", model, unseen)
    assert code == 0
    assert "lost              0" in out


def test_a_picture_is_written(run, independent, make_table, tmp_path):
    table = make_table("rows.csv", make_rows(300, seed=2))
    path = tmp_path / "check.svg"
    code, out, _ = run("check", independent, table, "--picture", path)
    assert code == 0
    assert str(path) in out
    assert path.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,b\n1,0\n", "lacks"),
        ("coffee,tea,milk,sugar,cake\n1,0,1,0,maybe\n", "maybe"),
    ],
)
def test_bad_tables_are_refused_in_one_line(refused, model, tmp_path, content, said):
    path = tmp_path / "bad.csv"
    path.write_text(content)
    picture = tmp_path / "check.png"
    assert said in refused("check", model, path, "--picture", picture)
    assert not picture.exists()


def test_other_bad_input_is_refused_in_one_line(refused, model, unseen, tmp_path):
    for arguments in (
        (tmp_path / "none.strudel", unseen),
        (model, "none.csv"),
        (model, unseen, "--picture", tmp_path / "check.txt"),
        (model, unseen, "--picture", tmp_path / "none" / "check.png"),
        (model, unseen, "--top", "0"),
    ):
        refused("check", *arguments)


def test_columns_of_any_type_are_read(run, tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{n},{'yes' if n > 50 else 'no'}" for n in rng.integers(0, 100, 400)]
    table = tmp_path / "people.csv"
    table.write_text("\n".join(["age,smokes", *lines, ",no", "7,"]) + "\n")
    import pandas as pd

    path = tmp_path / "people.strudel"
    model = Strudel(n_components=1, init="independent", max_splits=0, random_state=0)
    save(model.fit(pd.read_csv(table)), path)
    code, out, err = run("check", path, table)
    assert (code, err) == (0, "")
    assert (
        "lost: the rows show age and smokes depend on each other (smokes = yes: 0.00 to 1.00)"
        in out
    )
