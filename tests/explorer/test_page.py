"""The page as text: what is in it, and what is refused. `test_in_browser` has how it behaves."""

import base64
import json
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import strudel
from strudel import Strudel, explore
from strudel.circuits import compile_factorized, figure_1_circuit
from strudel.explorer.page import page_data
from strudel.queries.given import circuit_of
from strudel.trees.vtree import balanced_vtree

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = [
    '<img src=x onerror="document.title=1">',
    "</script><b>",
    "a & \"b\" 'c'",
    "\u05d0" * 200,
]


def data_in(page):
    """The model in a page, read as a browser does."""
    text = re.search(r'<script type="application/json" id="model">(.*?)</script>', page, re.DOTALL)
    return json.loads(text[1])


def test_the_page_is_one_file_of_at_most_400_kb_besides_the_model():
    page = explore(figure_1_circuit()).html
    assert len(page) - len(json.dumps(data_in(page))) < 400_000
    assert not re.search(r"<(link|img|iframe)\b|<script[^>]+src=|@import|url\(", page)


def test_durations_and_large_numbers_are_written_as_people_do():
    pd = pytest.importorskip("pandas")
    stay = pd.to_timedelta(np.arange(200), unit="h")
    frame = pd.DataFrame(
        {"stay": stay, "income": 1000 * np.arange(200), "ratio": np.arange(200) + 0.12345}
    )
    model = Strudel(n_components=1, max_splits=0, random_state=0).fit(frame)
    stay, income, ratio = page_data(model)["columns"]
    assert stay["isDuration"]
    assert re.fullmatch(r"under \d+ days? ?[\d:]*", stay["texts"][0])
    assert re.fullmatch(r"\d\d,\d{3} or less", income["texts"][0])
    assert "," not in "".join(ratio["texts"])  # no digits behind the point are grouped


def test_texts_of_a_model_end_no_script_and_start_no_element():
    circuit = figure_1_circuit().with_names(tuple(HOSTILE))
    page = explore(circuit, title="</title><script>alert(1)</script>").html
    tags = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.append(tag)
    parser.feed(page)
    assert sorted(set(tags)) == sorted(
        {"html", "head", "meta", "title", "style", "body", "div", "p", "noscript", "script"}
    )
    assert tags.count("script") == 2
    assert [column["name"] for column in data_in(page)["columns"]] == HOSTILE


def test_a_file_is_written_whole_and_a_notebook_shows_a_frame(tmp_path):
    page = explore(figure_1_circuit(), tmp_path / "page.html", target="X3", title="Figure 1")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page.html
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    frame = page._repr_html_()
    assert frame.startswith("<iframe")
    assert 'srcdoc="&lt;!doctype html&gt;' in frame
    assert repr(page) == "ExplorerPage('Figure 1', 0.1 MB)"
    assert data_in(page.html)["target"] == 2
    with pytest.raises(FileNotFoundError):
        page.save(tmp_path / "no" / "page.html")


def test_a_wrong_target_says_what_is_meant():
    with pytest.raises(
        ValueError, match=r"target is 'X5', which is not a column\. Choose from 'X1'"
    ):
        explore(figure_1_circuit(), target="X5")


def test_what_is_no_model_or_not_fitted_is_refused():
    with pytest.raises(TypeError, match="A model is a Circuit"):
        explore([[0, 1]])
    with pytest.raises(ValueError, match="not fitted yet"):
        explore(strudel.StrudelClassifier())


def test_all_numbers_are_in_one_compressed_text():
    rows = [["red", 20], ["red", 40], ["blue", 60], ["green", 60]] * 50
    model = Strudel(n_components=2, random_state=0, max_splits=3).fit(rows)
    data, circuit = page_data(model), circuit_of(model)
    assert data["columns"][0]["labels"] == ("blue", "green", "red")
    assert data["size"]["components"] == 2
    assert data["model"]["edges"] == circuit.size
    found = zlib.decompress(base64.b64decode(data["numbers"]))
    logs = circuit.log_weight, circuit.leaf_log_p, circuit.edge_log_theta
    expected = np.concatenate([own.ravel() for own in logs])
    numbers = np.frombuffer(found, np.float32)[-len(expected) :]
    np.testing.assert_allclose(np.exp(numbers), np.exp(expected), rtol=1e-5)
    n_integers = len(found) // 4 - len(expected)
    assert n_integers == circuit.n_nodes + 2 * circuit.n_edges


def test_parameters_that_do_not_add_up_to_one_are_normalised():
    circuit = compile_factorized(balanced_vtree(3))
    shifted = replace(circuit, log_total=1.5)
    assert page_data(shifted)["numbers"] == page_data(circuit)["numbers"]


def test_the_golden_file_has_the_format_that_pages_are_written_in():
    golden = json.loads((ROOT / "explorer" / "test" / "golden.json").read_text(encoding="utf-8"))
    data = page_data(figure_1_circuit())
    assert golden[0]["data"].keys() == data.keys()
    found, expected = (
        zlib.decompress(base64.b64decode(one["numbers"])) for one in (golden[0]["data"], data)
    )
    assert found == expected
    assert len(golden) == 6
