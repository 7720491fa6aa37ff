"""Exports, against a recursion over what was exported; each is skipped without its library."""

import numpy as np
import pytest

import strudel
from joint import special_circuits, special_mixtures
from oracle import all_rows
from strudel.errors import MissingDependencyError
from strudel.layers import exports, from_pyjuice, to_cirkit, to_pyjuice

CIRCUITS = ["figure 1", "one variable", "zeros", "fair coins", "learned 0", "learned 1"]


def value(nodes, row):
    """The values of a vector of nodes of pyjuice, without compiling it."""
    if nodes.is_input():
        (var,) = nodes.scope.to_list()
        return np.array([float(row[var] == nodes.dist.lit)])
    below = [value(child, row) for child in nodes.chs]
    if nodes.is_prod():
        edges = np.asarray(nodes.edge_ids)
        return np.prod([own[edges[:, i]] for i, own in enumerate(below)], axis=0)
    found = np.zeros(nodes.num_nodes)
    parent, child = np.asarray(nodes.edge_ids)
    np.add.at(found, parent, np.asarray(nodes.get_params()).ravel() * np.concatenate(below)[child])
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CIRCUITS)
def test_a_pyjuice_circuit_gives_the_same_values_and_parameters(name):
    pytest.importorskip("pyjuice")
    circuit = special_circuits()[name]
    root = to_pyjuice(circuit)
    rows = all_rows(circuit.vtree.n_vars)[:20]
    found = [value(root, row)[0] for row in rows]
    want = np.exp(strudel.log_likelihood(circuit, np.array(rows)))
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-9)
    back = from_pyjuice(circuit, root)
    np.testing.assert_allclose(
        strudel.log_likelihood(back, np.array(rows)), np.log(want), rtol=1e-5
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["figure 1", "learned"])
def test_a_mixture_becomes_one_pyjuice_circuit(name):
    pytest.importorskip("pyjuice")
    mixture = special_mixtures()[name]
    root = to_pyjuice(mixture)
    rows = np.array(all_rows(mixture.vtree.n_vars)[:20])
    want = strudel.log_likelihood(mixture, rows)
    np.testing.assert_allclose(np.log([value(root, row)[0] for row in rows]), want, rtol=1e-5)
    back = from_pyjuice(mixture, root)
    np.testing.assert_allclose(strudel.log_likelihood(back, rows), want, rtol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_parameters_of_another_circuit_are_refused():
    pytest.importorskip("pyjuice")
    root = to_pyjuice(special_circuits()["learned 0"])
    with pytest.raises(ValueError, match="not made from this model"):
        from_pyjuice(special_circuits()["learned 1"], root)


@pytest.mark.parametrize("name", CIRCUITS)
def test_a_cirkit_circuit_gives_the_same_values(name):
    pipeline = pytest.importorskip("cirkit.pipeline")
    import torch

    circuit = special_circuits()[name]
    symbolic = to_cirkit(circuit)
    context = pipeline.PipelineContext(backend="torch", semiring="lse-sum", fold=True)
    compiled = context.compile(symbolic)
    rows = np.array(all_rows(circuit.vtree.n_vars)[:20])
    found = compiled(torch.tensor(rows)).detach().numpy().ravel()
    want = np.exp(strudel.log_likelihood(circuit, rows))  # theirs are clamped, not -inf
    np.testing.assert_allclose(np.exp(found), want, rtol=1e-5, atol=1e-30)


def test_a_large_circuit_is_refused_in_a_sentence(monkeypatch):
    pytest.importorskip("cirkit")
    monkeypatch.setattr(exports, "MOST_WEIGHTS", 100)
    with pytest.raises(ValueError, match=r"would need [0-9,]+ weights"):
        to_cirkit(special_circuits()["learned 0"])


@pytest.mark.parametrize("export", [to_pyjuice, to_cirkit])
def test_without_the_library_it_says_how_to_get_it(export, monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(exports, "import_module", absent)
    with pytest.raises(MissingDependencyError, match=r"needs (pyjuice|libcirkit): pip install"):
        export(special_circuits()["figure 1"])
