"""Facts about circuit files of other programs; all need the folder of real data."""

import csv
import itertools
from pathlib import Path

import numpy as np
import pytest

from strudel import FileFormatError, entropy, load_dataset, log_likelihood, read, sample, write
from strudel.logic import Nnf, Sdd, log_model_count, uniform_circuit

LIKELIHOODS = {  # mean over the test rows, as published with the files
    "nltcs.psdd": ("nltcs", -6.04476),
    "nltcs.10split.psdd": ("nltcs", -6.55865),
    "nltcs.clt.psdd": ("nltcs", -6.75904),
    "nltcs_200.psdd": ("nltcs", -6.13471),
    "jester.psdd": ("jester", -54.42966),
    "plants_200.psdd": ("plants", -15.31715),
    "ad_200.psdd": ("ad", -16.54818),
    "msnbc-yitao-a.psdd": ("msnbc", -6.04914),
}
REFUSED = {"asia.uai": "The extension '.uai' is not one of"}


@pytest.fixture(scope="session")
def circuit_files(data_folder):
    if not (data_folder / "circuits").is_dir():
        pytest.skip("needs the circuit files: STRUDEL_DATA has no folder circuits/")
    return data_folder / "circuits"


@pytest.mark.compiled
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_reference_likelihoods(circuit_files, name):
    dataset, wanted = LIKELIHOODS[name]
    rows = load_dataset(dataset).test
    if dataset == "msnbc":
        rows = rows[:6000]
    circuit = read(circuit_files / "psdd" / name)
    assert log_likelihood(circuit, rows).mean() == pytest.approx(wanted, abs=1e-4)


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["plants", "nltcs", "ad"])
def test_published_entropies(circuit_files, data_folder, name):
    table = data_folder.parent / "anchors" / "atlas_kld.csv"
    published = {"plants": 15.033179152400017, "nltcs": 6.125420227013054, "ad": 19.197482207596337}
    if table.is_file():
        with table.open() as file:
            published = {r["dataset"]: float(r["entropy_pc1"]) for r in csv.DictReader(file)}
    circuit = read(circuit_files / "psdd" / f"{name}_200.psdd")
    assert entropy(circuit) == pytest.approx(published[name], abs=1e-6)


def test_every_file_is_read_or_refused_in_words(circuit_files, tmp_path):
    seen = 0
    for path in sorted(circuit_files.rglob("*")):
        if not path.is_file():
            continue
        seen += 1
        if path.name in REFUSED:
            with pytest.raises(FileFormatError, match=REFUSED[path.name]):
                read(path)
            continue
        model = read(path)
        copy = tmp_path / path.name
        options = {"vtree": model.vtree} if isinstance(model, Sdd) else {}
        write(model, copy)
        write(read(copy, **options), tmp_path / f"again_{path.name}")
        assert (tmp_path / f"again_{path.name}").read_bytes() == copy.read_bytes()
    assert seen > 60


def test_vtrees_agree_with_the_files_beside_circuits(circuit_files, data_folder):
    pairs = [
        (path, path.with_suffix(".vtree"))
        for folder in (circuit_files, data_folder / "expectation")
        for ending in ("*.psdd", "*.glc")
        for path in sorted(folder.rglob(ending))
        if path.with_suffix(".vtree").is_file()
    ]
    assert len(pairs) > 10
    for path, beside in pairs:
        assert read(path).vtree == read(beside), path.name


def test_children_by_place_follow_the_vtree_that_they_were_written_for(circuit_files):
    vtree = read(circuit_files / "psdd" / "balanced16.vtree")
    for name in ("psdd16Independent", "psdd16Split3Complete", "psdd16Split3MD2"):
        assert read(circuit_files / "psdd" / f"{name}.psdd").vtree == vtree


def test_compiled_networks_have_the_probabilities_of_the_network(circuit_files):
    rows = np.array(list(itertools.product((0, 1), repeat=8)))
    wanted = uai_probabilities(circuit_files / "other" / "asia.uai", rows)
    for name in ("asia-bdd.psdd", "asia.uai.psdd"):
        found = np.exp(log_likelihood(read(circuit_files / "psdd" / name), rows))
        assert found == pytest.approx(wanted, rel=1e-4, abs=1e-12)  # six decimals in the files


def uai_probabilities(path: Path, rows):
    """Multiply the tables of a network."""
    numbers = iter(path.read_text().split()[1:])
    n_vars = int(next(numbers))
    assert [int(next(numbers)) for _ in range(n_vars)] == [2] * n_vars
    scopes = [
        [int(next(numbers)) for _ in range(int(next(numbers)))] for _ in range(int(next(numbers)))
    ]
    probability = np.ones(len(rows))
    for scope in scopes:
        table = np.array([float(next(numbers)) for _ in range(int(next(numbers)))])
        probability *= table.reshape([2] * len(scope))[tuple(rows[:, scope].T)]
    return probability


@pytest.mark.compiled
def test_expected_predictions_by_enumeration(data_folder):
    """Golden values: the mean prediction over the 2 ** 11 completions of some rows."""
    folder = data_folder / "expectation"
    if not folder.is_dir():
        pytest.skip("needs the regression files: STRUDEL_DATA has no folder expectation/")
    predictor = read(folder / "circuits" / "delta-ailerons.glc")
    circuit = read(folder / "circuits" / "delta-ailerons.psdd")
    golden = np.load(folder / "golden" / "delta-ailerons.npz")
    data = np.load(folder / "delta-ailerons.npz")
    n_vars = int(golden["n_vars"])
    rows = np.unpackbits(data["x_test"], axis=1)[:, :n_vars]
    missing = np.unpackbits(golden["missing"], axis=-1)[..., :n_vars].astype(bool)
    values = np.array(list(itertools.product((0, 1), repeat=11)), dtype=np.uint8)
    for index in (0, 500, 1140):
        table = np.repeat(rows[index : index + 1], len(values), axis=0)
        table[:, missing[0, index]] = values
        weight = np.exp(log_likelihood(circuit, table))
        found = weight @ predictor.evaluate(table)[:, 0] / weight.sum()
        assert found == pytest.approx(golden["pred_circuit"][0, index], rel=1e-9)


def test_counts_of_models(circuit_files):
    folder = circuit_files / "sdd"
    counts = {"xor-4": 8, "xor-8": 128, "ranking-3": 6, "true": 8, "false": 0, "literal": 4}
    for name, wanted in counts.items():
        count = np.exp(log_model_count(read(folder / f"{name}.sdd")))
        assert count == pytest.approx(wanted), name


def test_sdds_and_formulas_of_one_name_agree(circuit_files):
    folder = circuit_files / "sdd"
    rows = list(itertools.product((0, 1), repeat=4))
    assert np.array_equal(
        read(folder / "example.sdd").holds(rows), read(folder / "example.dnf").holds(rows)
    )
    nnf = read(folder / "test.cnf.nnf")
    assert isinstance(nnf, Nnf)
    rows = list(itertools.product((0, 1), repeat=3))
    assert np.array_equal(nnf.holds(rows), read(folder / "test.cnf").holds(rows))
    models = sample(uniform_circuit(read(folder / "alarm.sdd")), 200, random_state=0)
    assert read(folder / "alarm.cnf").holds(models).all()
