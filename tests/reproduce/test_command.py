"""Facts about `python benchmarks/reproduce`."""

import json

import pytest
from reproduce.items import ITEMS


def test_list_names_every_item(run):
    code, out, err = run("--list")
    assert (code, err) == (0, "")
    assert {line.split()[0] for line in out.splitlines()[1:]} == set(ITEMS)
    code, out, _ = run("--list", "--json")
    assert list(json.loads(out)["items"]) == list(ITEMS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["table:size"], "Did you mean 'table:sizes'"),
        (["figure:1", "--datasets", "nltsc"], "Did you mean 'nltcs'"),
        (["figure:1", "--seconds-per-dataset", "0"], "above 0"),
    ],
)
def test_bad_input_is_one_line_and_code_2(run, tmp_path, arguments, words):
    code, out, err = run(*arguments, "--out", str(tmp_path / "out"))
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_nothing_to_work_with_says_what_is_missing(run, tmp_path, monkeypatch):
    monkeypatch.setenv("STRUDEL_DATA", str(tmp_path))
    code, _, err = run("figure:expectations", "--out", str(tmp_path / "out"))
    assert code == 2
    assert "expectation/abalone.npz" in err


def test_an_item_from_the_command_to_the_report(run, tmp_path):
    out, docs = tmp_path / "out", tmp_path / "page.md"
    arguments = ("figure:1", "--quick", "--datasets", "generated-10")
    small = ("--seconds-per-dataset", "0.3", "--out", str(out), "--json")
    code, text, err = run(*arguments, *small, "--docs", str(docs))
    assert (code, err) == (0, "")
    answer = json.loads(text)
    assert answer["claims"][0]["status"] == "holds"
    assert (out / "report.html").is_file()
    assert "figure-1.png" in docs.read_text(encoding="utf-8")
    assert (tmp_path / "page" / "figure-1.csv").is_file()
    code, text, _ = run(*arguments, *small, "--report-only")
    assert json.loads(text)["claims"] == answer["claims"]
