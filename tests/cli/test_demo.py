"""Facts about `strudel demo`."""

import json

import pandas as pd
import pytest

from strudel.tables import example_csv

pytestmark = pytest.mark.compiled

PICTURES = ("smoke_and_cough", "dependencies")
PNG = b"\x89PNG\r\n"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The demo's JSON and its folder; run once."""
    import contextlib
    import io

    from strudel.cli.main import main

    out = tmp_path_factory.mktemp("demo") / "tour"
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        assert main(["demo", "--out", str(out), "--json"]) == 0
    return json.loads(text.getvalue()), out


def test_one_folder_holds_the_page_all_pictures_and_the_model(demo):
    report, out = demo
    expected = {f"{name}.png" for name in PICTURES} | {"patients.strudel", "patients.html"}
    assert {path.name for path in out.iterdir()} == expected
    for name in PICTURES:
        assert (out / f"{name}.png").read_bytes().startswith(PNG)
    assert {path for path in report["files"].values()} == {str(path) for path in out.iterdir()}
    assert next(iter(report["files"])) == "page to click on"


def test_answers_are_those_of_the_rows_within_their_error(demo):
    rows = pd.read_csv(example_csv())
    answers = demo[0]["answers"]
    both = rows[(rows["smoker"] == "yes") & (rows["cough"] == "yes")]
    assert answers[1]["n_rows"] == len(both)
    assert answers[1]["counted"] == pytest.approx(
        (both["diagnosis"] == "bronchitis").mean(), abs=1e-3
    )
    for answer in answers:
        p = (answer["counted"] * answer["n_rows"] + 1) / (answer["n_rows"] + 2)
        error = (p * (1 - p) / answer["n_rows"]) ** 0.5
        assert abs(answer["model"] - answer["counted"]) < 3 * error, answer


def test_missing_values_are_filled(demo):
    assert demo[0]["missing"]["before"] > 400
    assert demo[0]["missing"]["after"] == 0


def test_the_model_can_be_used_by_the_other_commands(demo, run):
    _, out = demo
    model = out / "patients.strudel"
    code, text, _ = run("query", model, "probability", "cough = yes", "--json")
    assert code == 0
    assert "0." in text


def test_words_say_where_everything_is_and_what_to_do_next(run, tmp_path):
    code, text, err = run("demo", "--out", tmp_path / "tour")
    assert (code, err) == (0, "")
    assert str(tmp_path / "tour" / "patients.html") in text
    assert "strudel fit your-table.csv" in text


def test_a_file_in_the_way_is_left_alone(refused, tmp_path):
    path = tmp_path / "taken"
    path.write_text("mine")
    assert "File exists" in refused("demo", "--out", path)
    assert path.read_text() == "mine"
