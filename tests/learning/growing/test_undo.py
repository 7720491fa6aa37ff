"""An undone split leaves no trace, and the same split again gives the same numbers."""

import numpy as np
import pytest

from strudel.circuits.compile import compile_chow_liu, compile_factorized
from strudel.data.bits import pack_columns
from strudel.learning.growing.counts import undecided_places
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import N_EDGES, N_HEAP, N_NODES, STAMP
from strudel.learning.growing.undo import UndoableSplits
from strudel.learning.search.greedy import VariablePicker, pick_edge
from strudel.trees.chow_liu import learn_chow_liu_tree
from strudel.trees.vtree import Vtree, random_vtree, vtree_from_chow_liu


def table(rng, n_rows, n_vars):
    centre = rng.random((3, n_vars))
    return (rng.random((n_rows, n_vars)) < centre[rng.integers(3, size=n_rows)]).astype(np.uint8)


def start(seed, init, copy_depth, n_vars=7):
    rng = np.random.default_rng(seed)
    X, V = table(rng, 60, n_vars), table(rng, 25, n_vars)
    if init == "chow_liu":
        tree = learn_chow_liu_tree(X)
        circuit = compile_chow_liu(tree, vtree_from_chow_liu(tree))
    else:
        circuit = compile_factorized(random_vtree(n_vars, rng))
    weight = rng.random(len(X)) if seed % 2 else None
    return GrowingCircuit(
        circuit, pack_columns(X, weight), pack_columns(V), copy_depth=copy_depth, room=1
    )


def random_split(growing, rng):
    """Any edge and any variable undecided below it."""
    candidates = growing.candidates()
    if not len(candidates):
        return None
    edge = int(rng.choice(candidates))
    return edge, int(rng.choice(undecided_places(growing.growth, edge)))


def state(growing):
    """Everything that is in use, but for stamps and what goes with them, heap and work lists."""
    g = growing.growth
    n, e = int(g.size[N_NODES]), int(g.size[N_EDGES])
    size = g.size.copy()
    size[[STAMP, N_HEAP]] = 0
    node, edge = g.node[:n].copy(), g.edge[:e].copy()
    node["stamp"] = edge["stamp"] = 0
    node["is_reached"] = False
    return [
        size.tobytes(),
        g.total.tobytes(),
        node.tolist(),
        edge.tolist(),
        g.node_one[:n].tolist(),
        g.node_zero[:n].tolist(),
        g.train_active.tolist(),
        g.valid_active.tolist(),
    ]


def unused_is_empty(growing):
    """What new nodes and edges take for granted."""
    g = growing.growth
    n, e = int(g.size[N_NODES]), int(g.size[N_EDGES])
    node, edge = g.node[n:], g.edge[e:]
    return not (
        any(node[name].any() for name in ("uses", "train", "valid"))
        or any(edge[name].any() for name in ("train", "valid"))
        or g.node_one[n:].any()
        or g.node_zero[n:].any()
    )


@pytest.mark.parametrize("copy_depth", [1, 2, 4])
@pytest.mark.parametrize("init", ["chow_liu", "independent"])
@pytest.mark.parametrize("seed", range(3))
def test_every_split_of_a_path_can_be_taken_back_and_made_again(seed, init, copy_depth):
    rng = np.random.default_rng(seed)
    growing = start(seed, init, copy_depth)
    splits = UndoableSplits(growing)
    states, path = [state(growing)], []
    for _ in range(12):
        chosen = random_split(growing, rng)
        if chosen is None:
            break
        path.append(chosen)
        splits.split(*chosen)
        states.append(state(growing))
    for before in reversed(states[:-1]):
        splits.undo()
        assert state(growing) == before
        assert unused_is_empty(growing)
    assert len(splits) == 0
    for chosen, after in zip(path, states[1:], strict=True):
        splits.split(*chosen)
        assert state(growing) == after


@pytest.mark.parametrize("copy_depth", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_a_kept_split_is_made_again_by_copying(seed, copy_depth):
    rng = np.random.default_rng(seed)
    growing = start(seed, "chow_liu", copy_depth)
    splits = UndoableSplits(growing)
    states = [state(growing)]
    for _ in range(8):
        splits.split(*random_split(growing, rng))
        states.append(state(growing))
    for _ in range(2):  # what was redone can be undone, and redone, again
        edits = []
        for before in reversed(states[:-1]):
            edits.append(splits.undo(keep=True))
            assert state(growing) == before
            assert unused_is_empty(growing)
        splits.split(*random_split(growing, rng))  # something else in between
        splits.undo()
        for after in states[1:]:
            splits.redo(edits.pop())
            assert state(growing) == after
    splits.split(*random_split(growing, rng))
    assert growing.n_splits == 9


@pytest.mark.parametrize("seed", range(3))
def test_trials_leave_no_trace(seed):
    rng = np.random.default_rng(seed)
    growing, alone = start(seed, "chow_liu", 1), start(seed, "chow_liu", 1)
    splits = UndoableSplits(growing)
    for _ in range(10):
        for _ in range(3):
            splits.split(*random_split(growing, rng))
            if rng.random() < 0.5:
                splits.split(*random_split(growing, rng))
                splits.undo()
            splits.undo()
        chosen = random_split(growing, rng)
        splits.split(*chosen)
        alone.split(*chosen)
        growing_state, alone_state = state(growing), state(alone)
        # Keys say what entered the heap, which only the plain search fills from the start.
        assert growing_state == alone_state
    assert np.array_equal(growing.snapshot().edge_left, alone.snapshot().edge_left)


@pytest.mark.parametrize("copy_depth", [1, 3])
def test_the_change_of_size_is_that_of_the_circuits(copy_depth):
    rng = np.random.default_rng(2)
    growing = start(0, "chow_liu", copy_depth)
    splits = UndoableSplits(growing)
    for _ in range(15):
        before = growing.snapshot()
        splits.split(*random_split(growing, rng))
        after = growing.snapshot()
        change = (after.n_nodes - before.n_nodes, after.n_parameters - before.n_parameters)
        assert splits.size_change() == change


def test_what_is_forgotten_cannot_be_undone():
    rng = np.random.default_rng(0)
    growing = start(0, "chow_liu", 1)
    splits = UndoableSplits(growing)
    for _ in range(5):
        splits.split(*random_split(growing, rng))
    splits.forget(2)
    assert len(splits) == 2
    splits.undo()
    splits.undo()
    assert growing.n_splits == 3
    with pytest.raises(IndexError):
        splits.undo()


def test_the_heap_can_be_filled_again():
    rng = np.random.default_rng(0)
    growing, alone = start(0, "chow_liu", 1), start(0, "chow_liu", 1)
    splits = UndoableSplits(growing)
    for _ in range(8):
        for _ in range(3):
            splits.split(*random_split(growing, rng))
        for _ in range(3):
            splits.undo()
        growing.queue_all()
        edge = pick_edge(growing, "flow", rng)
        assert edge == pick_edge(alone, "flow", rng)
        place = VariablePicker(growing, "mutual_information").pick(edge, rng)
        splits.split(edge, place)
        alone.split(edge, place)


def test_an_example_of_undoable_splits():
    rows = pack_columns(np.array([[0, 0], [1, 1], [1, 1]], dtype=np.uint8))
    growing = GrowingCircuit(compile_factorized(Vtree.from_nested((0, 1))), rows, rows)
    splits = UndoableSplits(growing)
    splits.split(int(growing.candidates()[0]), 0)
    assert (growing.n_splits, growing.n_edges) == (1, 4)
    splits.undo()
    assert (growing.n_splits, growing.n_edges) == (0, 5)
