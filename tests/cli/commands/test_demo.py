"""Facts about `strudel demo`."""

import json

import pytest

pytestmark = pytest.mark.compiled

PICTURES = ("learning_curve", "samples", "completions", "vtree", "chow_liu_tree")
PNG = b"\x89PNG\r\n"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The demo's JSON, its folder and what it printed on stderr; run once."""
    import contextlib
    import io

    from strudel.cli.main import main

    out = tmp_path_factory.mktemp("demo") / "tour"
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        assert main(["demo", "--out", str(out), "--json"]) == 0
    return json.loads(text.getvalue()), out


def test_one_folder_holds_all_pictures_and_the_model(demo):
    report, out = demo
    expected = {f"{name}.png" for name in PICTURES} | {"digits.strudel", "digits.html"}
    assert {path.name for path in out.iterdir()} == expected
    for name in PICTURES:
        assert (out / f"{name}.png").read_bytes().startswith(PNG)
    assert {path for path in report["files"].values()} == {str(path) for path in out.iterdir()}


def test_the_learned_circuit_beats_both_baselines_and_the_mixture_beats_all(demo):
    scores = [facts["test_log_likelihood"] for facts in demo[0]["scores"].values()]
    assert scores == sorted(scores)
    assert list(demo[0]["scores"])[-2:] == ["Strudel", "mixture of 60 trees"]


def test_the_mixture_makes_up_images_that_it_finds_probable():
    from strudel.cli.commands.demo import _fit, _mixture, _samples
    from strudel.data.datasets import load_dataset
    from strudel.queries.likelihood import log_likelihood
    from strudel.queries.sampling import sample

    data = load_dataset("digits")
    tree = _fit(data, max_splits=0).circuit_
    mixture = _mixture(tree, data)
    made_up = log_likelihood(mixture, _samples(mixture, 200)).mean()
    of_the_tree = log_likelihood(mixture, sample(tree, 200, random_state=0)).mean()
    assert made_up > of_the_tree + 5.0  # those of the tree are blobs


def test_probabilities_sum_to_one(demo):
    (answer,) = [text for text in demo[0]["answers"].values() if "sum" in text.lower()]
    assert "1.0000000000" in answer


def test_the_model_can_be_used_by_the_other_commands(demo, run):
    report, out = demo
    code, text, _ = run("score", out / "digits.strudel", "digits", "--json")
    assert code == 0
    expected = report["scores"]["Strudel"]["test_log_likelihood"]
    assert json.loads(text)["log_likelihood"] == pytest.approx(expected)


def test_words_say_where_everything_is_and_what_to_do_next(run, tmp_path):
    code, text, err = run("demo", "--out", tmp_path / "tour")
    assert (code, err) == (0, "")
    assert str(tmp_path / "tour" / "completions.png") in text
    assert "strudel fit your-table.csv" in text


def test_a_file_in_the_way_is_left_alone(run, tmp_path):
    path = tmp_path / "taken"
    path.write_text("mine")
    code, out, err = run("demo", "--out", path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert path.read_text() == "mine"
