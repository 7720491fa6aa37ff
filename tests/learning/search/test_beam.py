"""Beam search against one that copies everything, and against the greedy search."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strudel.learning.search.beam as beam_module
import strudel.learning.search.heaviest_edges as heaviest_module
from makers import search_options
from strategies import binary_tables, examples
from strudel import Strudel, load_dataset, log_likelihood
from strudel.data.bits import pack_columns
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.undo import UndoableSplits
from strudel.learning.history import History
from strudel.learning.parameters import fit_parameters
from strudel.learning.search.beam import _Beam
from strudel.learning.search.greedy import VariablePicker, pick_edge
from strudel.learning.search.learn_structure import first_circuit, grow, learn_structure
from strudel.learning.search_options import Beam, SearchOptions

RNG = np.random.default_rng(0)  # for what never draws from it


def clusters(seed, n_rows=150, n_vars=8):
    rng = np.random.default_rng(seed)
    centre = rng.random((4, n_vars))
    return (rng.random((n_rows, n_vars)) < centre[rng.integers(4, size=n_rows)]).astype(np.uint8)


def growing_circuit(train, valid, search):
    return GrowingCircuit(
        first_circuit(train, search),
        train,
        valid,
        pseudocount=search.pseudocount,
        copy_depth=search.search.copy_depth,
    )


# The plain search: a copy for every split that is tried, likelihoods from scratch.


def plain_beam(train, valid, search, n_steps):
    """After every step the members, best first: (path of splits, circuit)."""
    members = [((), growing_circuit(train, valid, search))]
    steps = []
    for _ in range(n_steps):
        tried = []
        for path, growing in members:
            picker = VariablePicker(growing, search.search.variable_score, search.alpha)
            for edge in first_edges(growing, search):
                place = picker.pick(edge, RNG)
                child = copy.deepcopy(growing)
                child.split(edge, place)
                circuit = fit_parameters(child.snapshot(), train, pseudocount=search.pseudocount)
                means = [
                    np.average(log_likelihood(circuit, bits.unpack()), weights=bits.weights)
                    for bits in (train, valid)
                ]
                tried.append(((*path, (edge, place)), child, circuit, means))
        which = ["train", "valid"].index(search.search.selection)
        tried.sort(key=lambda one: -round(one[3][which], 9))
        kept, seen = [], set()
        for one in tried:
            circuit, means = one[2:]
            facts = (circuit.n_nodes, circuit.n_edges, circuit.n_parameters, round(means[0], 9))
            if facts not in seen and len(kept) < search.search.width:
                seen.add(facts)
                kept.append(one)
        members = [one[:2] for one in kept]
        steps.append([(path, circuit, means) for path, _, circuit, means in kept])
        if not members:
            break
    return steps


def first_edges(growing, search):
    """The edges that the greedy search would take, each in turn being forbidden."""
    growing = copy.deepcopy(growing)
    edges = []
    while len(edges) < search.search.width:
        growing.queue_all()
        edge = pick_edge(growing, "flow", RNG, search.search.tie_rule)
        if edge is None:
            break
        edges.append(edge)
        growing.growth.edge["is_candidate"][edge] = False
    return edges


def run_beam(train, valid, search, n_steps):
    """The search itself, step by step."""
    beam = _Beam(growing_circuit(train, valid, search), search, RNG, History())
    for _ in range(n_steps):
        if not beam.step():
            return
        yield beam


def path_of(member):
    return tuple((m.edge, m.place) for m in member.path()[1:])


@pytest.mark.parametrize(
    ("width", "options"),
    [
        (2, {}),
        (3, {"selection": "valid"}),
        pytest.param(3, {"tie_rule": "depth_first"}, marks=pytest.mark.compiled),
        pytest.param(4, {"init": "independent", "pseudocount": 0.3}, marks=pytest.mark.compiled),
        (3, {"copy_depth": 3}),
    ],
)
@pytest.mark.parametrize("weights", ["none", pytest.param("real", marks=pytest.mark.compiled)])
def test_members_are_those_of_a_search_that_copies(width, options, weights):
    X, V = clusters(0, 60, 6), clusters(1, 30, 6)
    weight = None if weights == "none" else np.random.default_rng(0).random(len(X))
    train, valid = pack_columns(X, weight), pack_columns(V)
    search = search_options(search="beam", width=width, **options)
    expected = plain_beam(train, valid, search, 9)
    for step, beam in zip(expected, run_beam(train, valid, search, 9), strict=True):
        assert [path_of(member) for member in beam.members] == [path for path, _, _ in step]
        for member, (_, circuit, means) in zip(beam.members, step, strict=True):
            assert member.row[1:3] == pytest.approx(means, rel=1e-11)
            assert member.row[3] == circuit.n_edges
            assert member.size[2] == circuit.n_edges


def test_to_the_end_where_edges_have_no_rows():
    X = clusters(0, 4, 4)
    train = pack_columns(X)
    search = search_options(search="beam", width=2)
    expected = plain_beam(train, train, search, 10**6)
    assert expected.pop() == []  # nothing left to split
    found = [[path_of(m) for m in beam.members] for beam in run_beam(train, train, search, 10**6)]
    assert found == [[path for path, _, _ in step] for step in expected]


# A beam of one is the greedy search.


def assert_equals_greedy(X, V, seed=0, **options):
    greedy, expected = learn_structure(X, V, search=search_options(**options), rng=seed)
    search = search_options(search="beam", width=1, **options)
    circuit, history = learn_structure(X, V, search=search, rng=seed)
    for name in ("n_splits", "train", "valid", "n_edges", "rows_moved"):
        assert np.array_equal(getattr(history, name), getattr(expected, name), equal_nan=True)
    assert history.best == expected.best
    assert history.stopped_because == expected.stopped_because
    for name in ("node_vtree", "node_edges", "edge_left", "edge_right", "edge_log_theta"):
        assert np.array_equal(getattr(circuit, name), getattr(greedy, name))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tie_rule": "depth_first"},
        {"init": "independent"},
        {"copy_depth": 3},
        {"edge_score": "random"},
        {"edge_score": "random", "variable_score": "random"},
        {"variable_score": "random"},
        {"pseudocount": 0.0},
        {"max_edges": 100},
        {"patience": 5},
        {"max_seconds": 0.0},
    ],
)
def test_a_beam_of_one_is_the_greedy_search(options):
    X, V = clusters(0), clusters(1)
    assert_equals_greedy(X, V, **({"max_splits": 30} | options))


@pytest.mark.parametrize("tie_rule", ["root_first", "depth_first"])
def test_a_beam_of_one_is_the_greedy_search_until_nothing_is_left(tie_rule):
    X = clusters(3, 4, 5)
    assert_equals_greedy(X, X, patience=10**6, tie_rule=tie_rule)


@pytest.mark.parametrize("tie_rule", ["root_first", "depth_first"])
@pytest.mark.parametrize("width", [1, pytest.param(3, marks=pytest.mark.compiled)])
def test_a_short_list_of_heaviest_edges_is_renewed_in_time(width, tie_rule, monkeypatch):
    X, V = clusters(0, 100, 7), clusters(1, 50, 7)
    search = search_options(search="beam", width=width, tie_rule=tie_rule, max_splits=25)
    _, expected = learn_structure(X, V, search=search)
    found = []
    for name in ("heaviest_edges", "heaviest_after_split"):
        monkeypatch.setattr(beam_module, name, recorded(getattr(heaviest_module, name), found))
    monkeypatch.setattr(heaviest_module, "ROOM", 0)
    _, history = learn_structure(X, V, search=search)
    floors = [one.floor for one in found]
    assert len(set(floors)) > 3  # lowered, and raised when there are too many edges
    assert min(floors) < max(floors)
    for name in ("train", "valid", "n_edges", "rows_moved"):
        assert np.array_equal(getattr(history, name), getattr(expected, name))


def recorded(function, results):
    def inner(*args):
        results.append(function(*args))
        return results[-1]

    return inner


def test_a_beam_of_one_is_the_greedy_search_without_validation_rows():
    assert_equals_greedy(clusters(0), None, max_splits=10)


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["nltcs", "dna"])
def test_a_beam_of_one_is_the_greedy_search_on_real_data(name, data_folder):
    data = load_dataset(name)
    assert_equals_greedy(data.train, data.valid)
    assert_equals_greedy(data.train, data.valid, tie_rule="depth_first", max_splits=60)


# What comes out.


@examples(25)
@given(
    binary_tables(max_rows=20, max_vars=5), st.integers(2, 4), st.sampled_from(["train", "valid"])
)
def test_any_table_gives_a_normalised_circuit_with_all_properties(X, width, selection):
    search = search_options(search="beam", width=width, selection=selection, max_splits=8)
    circuit, history = learn_structure(X, X, search=search)
    assert circuit.is_smooth
    assert circuit.is_deterministic
    assert circuit.is_structured_decomposable
    every = (np.arange(2 ** X.shape[1])[:, None] >> np.arange(X.shape[1])) & 1
    assert np.exp(log_likelihood(circuit, every)).sum() == pytest.approx(1.0)
    assert log_likelihood(circuit, X).mean() == pytest.approx(history.train[history.best])


@pytest.mark.parametrize("selection", ["train", "valid"])
def test_the_history_is_the_path_of_the_best_circuit(selection):
    X, V = pack_columns(clusters(0)), pack_columns(clusters(1))
    search = search_options(search="beam", width=3, selection=selection, patience=8)
    grown = grow(X, V, search=search)
    growing, history = grown.growing, grown.history
    assert history.stopped_because == "patience"
    assert history.best == np.argmax(history.valid)
    assert len(history) - 1 - history.best == 8
    assert history.n_splits.tolist() == list(range(len(history)))
    for n_splits in range(history.best + 1):
        circuit = fit_parameters(growing.snapshot(n_splits), X)
        assert circuit.n_edges == history.n_edges[n_splits]
        for bits, column in ((X, history.train), (V, history.valid)):
            mean = log_likelihood(circuit, bits.unpack()).mean()
            assert mean == pytest.approx(column[n_splits], rel=1e-11)


def test_the_best_member_may_have_left_the_beam():
    """Selection on train forgets what was best on validation; it comes back all the same."""
    X, V = pack_columns(clusters(0, 40)), pack_columns(clusters(1, 40))
    search = search_options(search="beam", width=3, max_splits=25, patience=10**6)
    *_, beam = run_beam(X, V, search, 25)
    assert beam.best not in beam.tree.path
    circuit, history = learn_structure(X, V, search=search)
    assert circuit.n_edges == history.n_edges[history.best] == beam.best.row[3]
    assert log_likelihood(circuit, V.unpack()).mean() == pytest.approx(beam.best.valid)


def test_without_validation_rows_the_last_circuit_is_returned():
    search = search_options(search="beam", width=3, max_splits=6)
    circuit, history = learn_structure(clusters(0), search=search)
    assert history.best == 6
    assert np.isnan(history.valid).all()
    assert log_likelihood(circuit, clusters(0)).mean() == pytest.approx(history.train[-1])


def test_impossible_validation_rows_do_no_harm():
    X, V = clusters(0, 12, 5), clusters(5, 40, 5)
    search = search_options(
        search="beam", width=3, selection="valid", pseudocount=0.0, max_splits=12
    )
    _, history = learn_structure(X, V, search=search)
    assert np.all(history.valid[-1] == -np.inf)


@pytest.mark.parametrize("limit", [{"max_splits": 7}, {"max_edges": 150}, {"max_seconds": 0.0}])
def test_bounds_stop_the_search_and_say_so(limit):
    search = search_options(search="beam", width=2, **limit)
    _, history = learn_structure(clusters(0), clusters(1), search=search)
    assert history.stopped_because == next(iter(limit))
    if "max_splits" in limit:
        assert len(history) == 8


def test_the_same_search_twice_gives_the_same_circuit():
    search = search_options(search="beam", edge_score="random", width=3, max_splits=10)
    a, b = (learn_structure(clusters(0), clusters(1), search=search, rng=5)[0] for _ in range(2))
    assert np.array_equal(a.edge_left, b.edge_left)
    assert np.array_equal(a.edge_log_theta, b.edge_log_theta)


@pytest.mark.compiled
@pytest.mark.parametrize("copy_depth", [1, 3])
@pytest.mark.parametrize("selection", ["train", "valid"])
def test_what_was_tried_on_the_parent_need_not_be_tried_again(selection, copy_depth, monkeypatch):
    X, V = pack_columns(clusters(0)), pack_columns(clusters(1))
    search = search_options(search="beam", width=4, selection=selection, copy_depth=copy_depth)
    n_reused = 0
    reuse = beam_module.Member.child_like

    def counted(self, *args):
        nonlocal n_reused
        n_reused += 1
        return reuse(self, *args)

    monkeypatch.setattr(beam_module.Member, "child_like", counted)
    quick = [[path_of(m) for m in beam.members] for beam in run_beam(X, V, search, 12)]
    assert n_reused > 30
    monkeypatch.setattr(_Beam, "_like_before", lambda *_: None)
    slow = [[path_of(m) for m in beam.members] for beam in run_beam(X, V, search, 12)]
    assert quick == slow


def test_only_branches_in_the_beam_are_kept():
    X, V = pack_columns(clusters(0)), pack_columns(clusters(1))
    search = search_options(search="beam", width=4)
    dead = set()
    for beam in run_beam(X, V, search, 20):
        alive = {m for member in beam.members for m in member.path()}
        dead |= {m for m in beam.best.path() if m not in alive}
        assert all(m.edit is None and m.front is None and not m.tried for m in dead)
        common = len(set.intersection(*(set(m.path()) for m in beam.members)))
        assert len(beam.tree.splits) <= beam.tree.here.n_splits - common + 1 + search.search.width


# Circuits that hardly differ.


@pytest.mark.parametrize("threshold", [1e-4, pytest.param(3e-3, marks=pytest.mark.compiled)])
def test_members_are_at_least_the_threshold_apart(threshold):
    X, V = pack_columns(clusters(0, 60, 5)), pack_columns(clusters(1, 30, 5))
    every = (np.arange(32)[:, None] >> np.arange(5)) & 1
    search = search_options(search="beam", width=4, kl_threshold=threshold)
    n_compared = 0
    for beam in run_beam(X, V, search, 8):
        log_p = []
        for member in list(beam.members):
            beam.tree.go_to(member)
            log_p.append(log_likelihood(fit_parameters(beam.tree.growing.snapshot(), X), every))
        for k, later in enumerate(log_p):
            for earlier in log_p[:k]:
                n_compared += 1
                assert np.sum(np.exp(earlier) * (earlier - later)) >= threshold
    assert n_compared > 10


@pytest.mark.compiled
@pytest.mark.parametrize("selection", ["train", "valid"])
def test_a_threshold_of_zero_changes_nothing(selection):
    X, V = pack_columns(clusters(0)), pack_columns(clusters(1))
    plain = search_options(search="beam", width=4, selection=selection)
    compared = search_options(search="beam", width=4, selection=selection, kl_threshold=0.0)
    found = [
        [[path_of(m) for m in beam.members] for beam in run_beam(X, V, search, 15)]
        for search in (plain, compared)
    ]
    assert found[0] == found[1]


def test_everything_is_alike_under_a_large_threshold():
    search = search_options(search="beam", width=3, kl_threshold=1e9, max_splits=10)
    beams = run_beam(pack_columns(clusters(0)), pack_columns(clusters(1)), search, 10)
    assert all(len(beam.members) == 1 for beam in beams)


# Interrupts.


def interrupt_after(n):
    def on_split(history):
        if len(history) == n:
            raise KeyboardInterrupt

    return on_split


def test_an_interrupt_between_steps_keeps_the_best_circuit():
    search = search_options(search="beam", width=3)
    X, V = clusters(0), clusters(1)
    circuit, history = learn_structure(X, V, search=search, on_split=interrupt_after(6))
    assert history.stopped_because == "interrupted"
    assert len(history) == 6
    assert log_likelihood(circuit, V).mean() == pytest.approx(history.valid[history.best])


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("method", ["split", "undo", "redo"])
def test_an_interrupt_within_a_step_keeps_the_best_circuit(method, when, monkeypatch):
    plain, n_calls = getattr(UndoableSplits, method), 0

    def interrupted(self, *args, **kwargs):
        nonlocal n_calls
        n_calls += 1
        if n_calls == 20 and when == "before":
            raise KeyboardInterrupt
        result = plain(self, *args, **kwargs)
        if n_calls == 20:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(UndoableSplits, method, interrupted)
    X, V = clusters(0), clusters(1)
    search = search_options(search="beam", width=3)
    circuit, history = learn_structure(X, V, search=search)
    assert history.stopped_because == "interrupted"
    assert log_likelihood(circuit, V).mean() == pytest.approx(history.valid[history.best])
    assert circuit.n_edges == history.n_edges[history.best]


def test_an_interrupt_while_the_best_circuit_is_made_again_changes_nothing(monkeypatch):
    replay, n_calls = beam_module.replay, 0

    def interrupted(growing, operations):
        nonlocal n_calls
        n_calls += 1
        if n_calls == 1:
            raise KeyboardInterrupt
        return replay(growing, operations)

    monkeypatch.setattr(beam_module, "replay", interrupted)
    search = search_options(search="beam", width=3)
    V = clusters(1)
    circuit, history = learn_structure(clusters(0), V, search=search, on_split=interrupt_after(6))
    assert n_calls == 2
    assert log_likelihood(circuit, V).mean() == pytest.approx(history.valid[history.best])


# Options.


@pytest.mark.parametrize(
    "bad",
    [
        {"search": "wide"},
        {"width": 0},
        {"width": 2.5},
        {"selection": "test"},
        {"kl_threshold": -1.0},
    ],
)
def test_bad_options_are_refused_by_name(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        search_options(**{"search": "beam"} | bad)


def test_what_an_option_needs_is_named():
    X = clusters(0)
    search = search_options(search="beam", selection="valid", max_splits=3)
    with pytest.raises(ValueError, match="validation rows"):
        learn_structure(X, search=search)


def test_the_estimator_passes_its_options_on():
    X, V = clusters(0), clusters(1)
    beam = Beam(width=2, selection="valid", kl_threshold=1e-3)
    model = Strudel(n_components=1, search=beam, max_splits=6).fit(X, X_valid=V)
    circuit, _ = learn_structure(X, V, search=SearchOptions(search=beam, max_splits=6))
    assert np.array_equal(model.circuit_.edge_left, circuit.edge_left)
    assert np.array_equal(model.circuit_.edge_log_theta, circuit.edge_log_theta)
