"""The search split by split on a small table, as the plain learner recorded it.

The record needs no data from elsewhere; test_paper.py has that of the original program. The plain
learner follows its rules (docs/fidelity.md), recomputes every flow and shares no code with the
library, the start included. After a change of those rules,

    python tests/test_recorded_trace.py

writes the record again.
"""

import csv
from pathlib import Path

import numpy as np
import pytest

import plain_learner as plain
from strudel.data.bits import pack_columns
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.options import Greedy, SearchOptions
from strudel.learning.search.greedy import VariablePicker, pick_edge
from strudel.learning.search.learn_structure import first_circuit, learn_structure

RECORD = Path(__file__).parent / "traces" / "clusters.csv"
WHOLE = ("split", "sum", "edge", "rows", "distinct", "variable", "nodes", "edges", "parameters")
N_SPLITS = 60


def rows(n_rows, seed):
    """Rows of four clusters over ten variables; two of them are equal, one is hardly ever 1."""
    draw = np.random.Generator(np.random.PCG64(seed)).random((n_rows, 11))
    cluster = (4 * draw[:, 10]).astype(int)
    centre = (np.arange(4)[:, np.newaxis] * np.arange(3, 13) ** 2 % 11 + 0.5) / 12
    X = (draw[:, :10] < centre[cluster]).astype(np.uint8)
    X[:, 6] = X[:, 3]
    X[:, 8] = draw[:, 8] < 0.01
    return X


TRAIN, VALID = rows(400, seed=1), rows(100, seed=2)


def recorded():
    """The splits of the plain learner: the edge (its sum in post-order, its place there), the
    variable, how many rows took the edge; then the circuit's likelihoods and size."""
    weight, valid_weight = np.ones(len(TRAIN)), np.ones(len(VALID))
    root = plain.start(TRAIN)
    chosen = {}
    for split in range(N_SPLITS + 1):
        train, valid = plain.log_likelihood(root, TRAIN, weight, VALID, valid_weight, 1.0)
        nodes, edges, parameters = plain.size(root)
        yield {
            "split": split,
            **{name: chosen.get(name, -1) for name in WHOLE[1:6]},
            "train": train,
            "valid": valid,
            "nodes": nodes,
            "edges": edges,
            "parameters": parameters,
        }
        found = plain.candidates(root, TRAIN, weight)
        most = max(count for _, _, count, _, _ in found)
        node, place, count, through, variables = next(f for f in found if f[2] == most)
        sums = plain.information_sums(TRAIN[through], weight[through], variables)
        var = variables[np.flatnonzero(sums >= sums.max() - 1e-10)[0]]
        chosen = {
            "sum": next(i for i, n in enumerate(plain.post_order(root)) if n is node),
            "edge": place,
            "rows": int(count),
            "distinct": len(np.unique(TRAIN[through], axis=0)),
            "variable": var,
        }
        plain.split(node, place, var)


@pytest.fixture(scope="module")
def trace():
    with RECORD.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    return {
        name: np.array([line[name] for line in lines], dtype=int if name in WHOLE else float)
        for name in lines[0]
    }


def test_the_record_is_that_of_the_plain_learner(trace):
    found = list(recorded())
    for name, values in trace.items():
        assert [line[name] for line in found] == pytest.approx(values, rel=1e-12)


def test_the_search_follows_the_record(trace):
    search = Greedy(tie_rule="depth_first")
    options = SearchOptions(search=search, max_splits=N_SPLITS, patience=10**6)
    _, history = learn_structure(TRAIN, VALID, search=options)
    assert history.train == pytest.approx(trace["train"], rel=1e-12)
    assert history.valid == pytest.approx(trace["valid"], rel=1e-12)
    assert history.n_edges.tolist() == trace["parameters"].tolist()
    assert history.rows_moved[1:].tolist() == trace["distinct"][1:].tolist()


def test_every_split_is_at_the_recorded_edge_and_variable(trace):
    train, valid = pack_columns(TRAIN), pack_columns(VALID)
    weight, rng = np.ones(len(TRAIN)), np.random.default_rng(0)
    growing = GrowingCircuit(first_circuit(train, SearchOptions()), train, valid)
    picker = VariablePicker(growing, "mutual_information")
    root = plain.start(TRAIN)
    for k in range(1, N_SPLITS + 1):
        ours = plain.from_circuit(growing.snapshot())[-1]
        assert plain.canonical(ours, TRAIN, weight) == plain.canonical(root, TRAIN, weight)
        edge = pick_edge(growing, "flow", rng, "depth_first")
        place = picker.pick(edge, rng)
        growing.split(edge, place)
        assert growing.rows_moved == trace["rows"][k]
        assert growing.vtree.order[place] == trace["variable"][k]
        node = plain.post_order(root)[trace["sum"][k]]
        plain.split(node, trace["edge"][k], trace["variable"][k])


if __name__ == "__main__":
    RECORD.parent.mkdir(exist_ok=True)
    with RECORD.open("w", encoding="utf-8", newline="") as file:
        lines = list(recorded())
        writer = csv.DictWriter(file, lines[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
