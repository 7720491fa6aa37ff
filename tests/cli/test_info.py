"""Facts about `strudel info`."""

import json

from strudel.circuits.builder import CircuitBuilder
from strudel.circuits.compile import figure_1_circuit
from strudel.io.model_file import load, save
from strudel.queries.given import circuit_of
from strudel.trees.vtree import balanced_vtree


def test_sizes_are_those_of_the_circuit(run, model):
    circuit = circuit_of(load(model))
    code, out, err = run("info", model, "--json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert report["size"] == {
        "n_columns": 5,
        "n_components": 1,
        "n_nodes": circuit.n_nodes,
        "n_edges": circuit.size,
        "n_parameters": circuit.n_parameters,
        "vtree_depth": circuit.vtree.depth,
    }
    assert [*report["properties"].values()] == ["yes"] * 4
    assert report["learning"]["n_splits"] >= report["learning"]["best_split"]
    assert report["provenance"]


def test_tables_show_sizes_properties_and_history(run, model):
    code, out, err = run("info", model)
    assert (code, err) == (0, "")
    for words in ("columns", "vtree depth", "deterministic", "stopped because", "provenance"):
        assert words in out


def test_a_circuit_without_history_is_described_too(run, tmp_path):
    path = tmp_path / "figure.strudel"
    save(figure_1_circuit(), path)
    code, out, err = run("info", path)
    assert (code, err) == (0, "")
    assert out.count("yes") == 4
    assert "learning" not in out


def test_a_missing_property_comes_with_its_reason(run, tmp_path):
    builder = CircuitBuilder(balanced_vtree(2))
    left, right = builder.add_leaf_sum(0, 0.3), builder.add_leaf_sum(1, 0.6)
    root = builder.add_sum([(left, right, 0.5), (builder.literal(0, 1), right, 0.5)])
    path = tmp_path / "mixed.strudel"
    save(builder.build(root), path)
    code, out, _ = run("info", path, "--json")
    properties = json.loads(out)["properties"]
    assert code == 0
    assert properties["smooth"] == "yes"
    assert properties["deterministic"].startswith("no: ")
    assert "no: " in run("info", path)[1]
