"""Round trips through every format, and what a format cannot hold."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from column_circuits import column_circuits, random_predictor
from makers import nnf_of, random_function, sdd_of
from strategies import circuits, random_mixture, seeds, vtrees
from strudel import FileFormatError, read, write
from strudel.circuits.compile import figure_1_circuit
from strudel.logic.formula import Cnf, Dnf
from strudel.queries.given import circuit_of
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.vtree import Vtree, balanced_vtree, linear_vtree

literals = st.integers(1, 4).flatmap(lambda var: st.sampled_from([var, -var]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("formats")


def there_and_back(model, path, **options):
    write(model, path)
    first = back = read(path, **options)
    text = path.read_bytes()
    for _ in range(2):  # what rounds to certain is a literal after the first trip
        write(back, path)
        again = path.read_bytes()
        back = read(path, **options)
    write(back, path)
    assert path.read_bytes() == again  # then nothing changes at all
    return first, text


@given(circuits(max_vars=6, deterministic=True))
def test_deterministic_circuits_come_back(folder, circuit):
    check_circuit(folder, circuit)


@given(circuits(max_vars=5, deterministic=False))
def test_other_circuits_come_back(folder, circuit):
    check_circuit(folder, circuit)


def check_circuit(folder, circuit):
    before = oracle.probabilities(circuit)
    for name in ("a.psdd", "a.jpc.gz", "a.spn"):
        back, _ = there_and_back(circuit, folder / name)
        assert back.vtree == circuit.vtree
        assert oracle.probabilities(back) == pytest.approx(before, rel=1e-11, abs=0)


@given(vtrees(max_vars=9))
def test_vtrees_come_back(folder, vtree):
    back, _ = there_and_back(vtree, folder / "a.vtree")
    assert back == vtree


def test_vtree_ids_are_in_order_and_lines_bottom_up(tmp_path):
    write(Vtree.from_nested(((1, 0), 2)), tmp_path / "a.vtree")
    lines = (tmp_path / "a.vtree").read_text().splitlines()
    wanted = ["vtree 5", "L 0 2", "L 2 1", "I 1 0 2", "L 4 3", "I 3 1 4"]
    assert [line for line in lines if not line.startswith("c")] == wanted


@given(vtrees(max_vars=5), seeds)
def test_sdds_come_back(folder, vtree, seed):
    sdd = sdd_of(random_function(vtree.n_vars, random.Random(seed)), vtree)
    rows = oracle.all_rows(vtree.n_vars)
    write(vtree, folder / "other.vtree")
    for options in ({"vtree": vtree}, {"vtree": folder / "other.vtree"}):
        back, _ = there_and_back(sdd, folder / "a.sdd", **options)
        assert back.n_elements == sdd.n_elements
        assert back.holds(rows).tolist() == sdd.holds(rows).tolist()


@given(vtrees(max_vars=5), seeds)
def test_nnfs_come_back(folder, vtree, seed):
    nnf = nnf_of(random_function(vtree.n_vars, random.Random(seed)), vtree.n_vars)
    back, _ = there_and_back(nnf, folder / "a.nnf")
    for name in ("n_vars", "node_kind", "node_literal", "node_start", "child", "node_decision"):
        assert np.array_equal(getattr(back, name), getattr(nnf, name))
    if nnf.node_literal.max() // 2 + 1 == nnf.n_vars:
        back, _ = there_and_back(nnf, folder / "a.jlc")
        assert np.array_equal(back.child, nnf.child)
        assert np.array_equal(back.node_kind, nnf.node_kind)
    else:
        with pytest.raises(ValueError, match="cannot say that there are"):
            write(nnf, folder / "a.jlc")


@given(st.lists(st.lists(literals, max_size=4), max_size=5))
def test_formulas_come_back(folder, groups):
    cnf, dnf = Cnf.from_literals(groups, n_vars=5), Dnf.from_literals(groups, n_vars=5)
    assert there_and_back(cnf, folder / "a.cnf")[0] == cnf
    assert there_and_back(dnf, folder / "a.dnf")[0] == dnf


@given(st.integers(1, 8), seeds)
def test_chow_liu_trees_come_back(folder, n_vars, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(n_vars)
    parent = np.full(n_vars, -1, dtype=np.int32)
    theta = rng.random((n_vars, 2))
    theta[:, 0] = np.where(rng.random(n_vars) < 0.3, theta[:, 1], theta[:, 0])
    for place, var in enumerate(order):
        if place and rng.random() < 0.8:
            parent[var] = order[rng.integers(place)]
        else:
            theta[var] = theta[var, 0]
    tree = ChowLiuTree(parent, theta)
    back, _ = there_and_back(tree, folder / "a.clt")
    assert np.array_equal(back.var_parent, parent)
    assert np.array_equal(back.var_theta, theta)


def without_leaf_sums(vtree, rng):
    """A predictor's structure: every literal directly below a decision."""
    from strudel.circuits.builder import CircuitBuilder

    builder = CircuitBuilder(vtree)
    pool = []
    for v in range(vtree.n_nodes):
        if vtree.node_var[v] >= 0:
            pool.append([builder.literal(int(vtree.node_var[v]), value) for value in (0, 1)])
        else:
            left, right = pool[vtree.node_left[v]], pool[vtree.node_right[v]]
            pairs = [(a, b, 1.0) for a in left for b in right]
            rng.shuffle(pairs)
            half = rng.randint(1, len(pairs) - 1)
            parts = [pairs[:half], pairs[half:]] if v < vtree.root else [pairs]
            pool.append([builder.add_sum(part) for part in parts])
    return builder.build()


@given(vtrees(max_vars=5, min_vars=2), seeds, st.integers(1, 3))
def test_predictors_come_back(folder, vtree, seed, n_outputs):
    structure = without_leaf_sums(vtree, random.Random(seed))
    rng = np.random.default_rng(seed)
    kind = "regression" if n_outputs == 1 else "logistic"
    predictor = random_predictor(structure, rng, n_outputs, kind)
    rows = oracle.all_rows(vtree.n_vars)
    for name in ("a.circuit", "a.glc.gz"):
        back, _ = there_and_back(predictor, folder / name)
        assert (back.kind, back.vtree) == (predictor.kind, vtree)
        assert back.evaluate(rows) == pytest.approx(predictor.evaluate(rows), rel=1e-12, abs=1e-12)


def test_names_travel_in_a_comment(tmp_path):
    names = ("a b", "\u00e9", 'say "x"', "c")
    circuit = figure_1_circuit().with_names(names)
    for name in ("a.psdd", "a.jpc"):
        assert there_and_back(circuit, tmp_path / name)[0].columns.names == names
    assert there_and_back(circuit, tmp_path / "a.spn")[0].columns.names == ("x0", "x1", "x2", "x3")


def test_components_are_written_as_one_circuit(tmp_path):
    mixture = random_mixture(figure_1_circuit(), 3, np.random.default_rng(0))
    for name in ("a.psdd", "a.jpc", "a.spn"):
        back, _ = there_and_back(mixture, tmp_path / name)
        assert oracle.probabilities(back) == pytest.approx(oracle.probabilities(mixture), rel=1e-12)


@given(column_circuits(max_columns=3))
def test_columns_that_a_format_cannot_hold_are_refused(folder, circuit):
    kinds = {column.kind for column in circuit.columns}
    for name, held in (("b.psdd", {"bit"}), ("b.spn", {"bit"}), ("b.jpc", {"bit", "category"})):
        if kinds <= held:
            write(circuit, folder / name)
        else:
            with pytest.raises(ValueError, match=r"holds variables of 0 and 1.*is of kind"):
                write(circuit, folder / name)


def test_what_does_not_add_up_is_not_written(tmp_path):
    circuit = figure_1_circuit()
    half = replace(circuit, log_total=np.log(0.5))
    with pytest.raises(ValueError, match=r"this one adds up to .* Normalise it first"):
        write(half, tmp_path / "a.psdd")


@pytest.mark.parametrize(
    ("model", "name", "words"),
    [
        (balanced_vtree(2), "a.psdd", "holds a circuit, so it cannot hold this Vtree"),
        (figure_1_circuit(), "a.vtree", "holds a vtree, so it cannot hold this Circuit"),
        (figure_1_circuit(), "a.glc", "PredictorCircuit"),
        (Cnf.from_literals([[1]]), "a.dnf", "holds a Dnf"),
    ],
)
def test_what_a_format_does_not_hold_is_refused(tmp_path, model, name, words):
    with pytest.raises(TypeError, match=words):
        write(model, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_unknown_extensions_are_refused(tmp_path):
    for path in (tmp_path / "a.uai", tmp_path / "a", tmp_path / "a.gz"):
        with pytest.raises(FileFormatError, match="extension"):
            read(path)
        with pytest.raises(FileFormatError, match="extension"):
            write(balanced_vtree(2), path)


def test_folders_and_missing_files_are_said_to_be_so(tmp_path):
    (tmp_path / "a.psdd").mkdir()
    with pytest.raises(IsADirectoryError):
        read(tmp_path / "a.psdd")
    with pytest.raises(IsADirectoryError):
        write(figure_1_circuit(), tmp_path / "a.psdd")
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "b.psdd")
    with pytest.raises(FileNotFoundError, match="does not exist: create it first"):
        write(figure_1_circuit(), tmp_path / "nowhere" / "b.psdd")


def test_an_estimator_is_written_as_its_circuit(tmp_path):
    from strudel import Strudel

    model = Strudel(n_components=1, max_splits=2).fit(
        np.random.default_rng(0).integers(0, 2, size=(40, 4))
    )
    write(model, tmp_path / "a.psdd")
    assert read(tmp_path / "a.psdd").n_edges == circuit_of(model).n_edges


def test_gzip_is_told_by_the_name(tmp_path):
    write(linear_vtree(3), tmp_path / "a.vtree.gz")
    assert (tmp_path / "a.vtree.gz").read_bytes()[:2] == b"\x1f\x8b"
    (tmp_path / "b.vtree.gz").write_text("vtree 1\nL 0 1\n")
    with pytest.raises(FileFormatError, match="not a valid gzip file"):
        read(tmp_path / "b.vtree.gz")
    half = (tmp_path / "a.vtree.gz").read_bytes()[:-9]
    (tmp_path / "a.vtree.gz").write_bytes(half)
    with pytest.raises(FileFormatError, match="not a valid gzip file"):
        read(tmp_path / "a.vtree.gz")
