"""Models of cells: circuits against enumeration, answers against counts, and their average."""

import itertools

import numpy as np
import pandas as pd
import pytest

from makers import check_interrupted, rows_of_kinds
from strudel import Strudel
from strudel.errors import InterruptedWarning, MissingForAReasonWarning
from strudel.learning.tables import learn_table as module
from strudel.learning.tables import pair_components
from strudel.learning.tables.average import average_circuit
from strudel.learning.tables.components import Components, learn_components
from strudel.learning.tables.em import CellRows, Counts
from strudel.learning.tables.latent_tree import LatentTree, TreeShape, learn_latent_tree
from strudel.learning.tables.pair_components import learn_pair_components
from strudel.queries.cells import log_probabilities
from strudel.tables.column import Column
from strudel.tables.evidence import nothing_known
from strudel.tables.missingness import Missingness
from strudel.tables.schema import Columns


def columns_of(*n_cells, kind="category"):
    labels = [tuple(map(str, range(n))) for n in n_cells]
    return Columns(tuple(Column(f"c{i}", kind, own, own) for i, own in enumerate(labels)))


CHAIN = columns_of(3, 3, 3, 2)


def chain(n_rows, seed=0, noise=0.2):
    """Three columns in a row, each like the one before, and one that is alone."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 3, n_rows)
    second = np.where(rng.random(n_rows) < noise, rng.integers(0, 3, n_rows), first)
    third = np.where(rng.random(n_rows) < noise, rng.integers(0, 3, n_rows), second)
    return np.column_stack([second, first, third, rng.integers(0, 2, n_rows)])


def rows_of(cells, columns=CHAIN, weight=None):
    return CellRows.of(columns, cells, np.ones(len(cells)) if weight is None else weight)


def shape_of(cells, columns=CHAIN):
    return TreeShape.of_most_information(cells, np.ones(len(cells)), columns.n_cells)


def tree_of(cells, n_states, columns=CHAIN, weight=None, seed=0):
    """A latent tree that learns from nine tenths of the rows."""
    every = rows_of(cells, columns, weight)
    n_valid = len(cells) // 10
    train, valid = (
        every.take(np.arange(len(cells))[own]) for own in (slice(n_valid, None), slice(n_valid))
    )
    rng = np.random.default_rng(seed)
    return learn_latent_tree(train, valid, shape_of(cells, columns), n_states, rng=rng)


def circuit_of(models, cells, columns=CHAIN):
    share = np.arange(1.0, len(models) + 1) / np.arange(1.0, len(models) + 1).sum()
    return average_circuit(models, share, shape_of(cells, columns), columns)


def every_row(columns):
    return np.array(list(itertools.product(*(range(column.n_cells) for column in columns))))


def chances(circuit, cells):
    evidence = nothing_known(circuit.columns, len(cells))
    known = evidence.with_cells({c: cells[:, c] for c in range(cells.shape[1])})
    return np.exp(log_probabilities(circuit, known))


def by_states(tree, rows):
    """The probability of rows, as a sum over all states of all columns."""
    tables, links = tree.parameters.tables, tree.parameters.links
    p = np.zeros(len(rows))
    for states in itertools.product(range(tree.n_states), repeat=rows.shape[1]):
        term = np.ones(len(rows))
        for c, state in enumerate(states):
            above = 0 if c == tree.tree.root else states[tree.tree.parent[c]]
            term *= links[c][above, state] * tables[c][rows[:, c], state]
        p += term
    return p


def test_the_tree_links_what_depends_on_one_another():
    shape = shape_of(chain(2000))
    links = {frozenset((c, int(up))) for c, up in enumerate(shape.parent) if up >= 0}
    assert {frozenset((0, 1)), frozenset((0, 2))} <= links
    assert shape.parent[shape.root] == -1
    assert sorted(shape.order) == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", ["category", "ordinal"])
def test_the_average_is_the_sum_over_models_and_states(kind):
    columns, cells = columns_of(3, 3, 3, 2, kind=kind), chain(300)
    components = learn_components(
        rows_of(cells, columns), rows_of(cells, columns), 3, rng=np.random.default_rng(0)
    )
    trees = [tree_of(cells, 2, columns), tree_of(cells, 3, columns, seed=1)]
    rows = every_row(columns)
    alone = np.ones((len(rows), 3)) * components.share
    for c, table in enumerate(components.tables):
        alone *= table[rows[:, c]]
    expected = alone.sum(axis=1) / 6 + by_states(trees[0], rows) / 3 + by_states(trees[1], rows) / 2
    assert chances(circuit_of([components, *trees], cells, columns), rows) == pytest.approx(
        expected, rel=1e-5
    )  # its parameters have seven digits
    for model, own in zip(
        (components, *trees), (alone.sum(axis=1), *map(by_states, trees, [rows] * 2)), strict=True
    ):
        assert np.exp(model.log_likelihood(rows_of(rows, columns))) == pytest.approx(own, rel=1e-4)


def test_probabilities_are_near_the_counts_of_other_rows():
    cells, other = chain(4000, 1), chain(100_000, 2)
    circuit = circuit_of([tree_of(cells, 8)], cells)
    p = chances(circuit, every_row(CHAIN))
    assert p.sum() == pytest.approx(1.0)
    counted = np.bincount(np.ravel_multi_index(other.T, (3, 3, 3, 2)), minlength=54) / len(other)
    assert np.abs(p - counted).max() < 0.02


def test_a_column_may_have_hundreds_below_it():
    """The product of their messages is far below what 32 bits hold."""
    n = 300
    shape = TreeShape(np.append(-1, np.zeros(n, dtype=np.int32)), np.arange(n + 1, dtype=np.int32))
    rng, columns = np.random.default_rng(0), columns_of(*[2] * (n + 1))
    p = rng.uniform(0.05, 0.95, (n + 1, 4))
    tables = [np.vstack([1.0 - own, own, np.ones(4)]).astype(np.float32) for own in p]
    links = [np.full((1, 4), 0.25)] + [rng.dirichlet(np.ones(4), 4) for _ in range(n)]
    tree = LatentTree(shape, Counts(tables, [link.astype(np.float32) for link in links]))
    cells = rng.integers(0, 2, (20, n + 1))
    inside = np.stack([links[c] @ tables[c][cells[:, c]].T for c in range(1, n + 1)])  # (n, 4, 20)
    logs = np.log(tables[0][cells[:, 0]].T * 0.25) + np.log(inside).sum(axis=0)
    expected = np.logaddexp.reduce(logs, axis=0)
    assert tree.log_likelihood(rows_of(cells, columns)) == pytest.approx(expected, rel=1e-4)
    circuit = average_circuit([tree], np.ones(1), shape, columns)
    assert np.log(chances(circuit, cells)) == pytest.approx(expected, rel=1e-4)


def test_missing_values_are_summed_out():
    cells = chain(4000, 2)
    cells[np.random.default_rng(2).random(cells.shape) < 0.3] = -1
    circuit = circuit_of([tree_of(cells, 3, seed=1)], cells)
    same = chances(circuit, every_row(CHAIN)).reshape(3, 3, 3, 2).sum(axis=(2, 3))
    assert np.trace(same) == pytest.approx(0.8 + 0.2 / 3, abs=0.04)


def test_leaves_know_how_often_a_value_is_told():
    cells = chain(4000, 3)
    cells[(cells[:, 1] == 0) & (np.random.default_rng(0).random(4000) < 0.8), 0] = -1
    circuit = circuit_of([tree_of(cells, 4)], cells)
    assert circuit.known is not None
    logs = circuit.leaf_log_p + np.log(np.maximum(circuit.known, 1e-300))
    flows = np.exp(logs)[circuit.leaf_first[0] : circuit.leaf_first[1]]
    assert np.all(flows <= np.exp(circuit.leaf_log_p)[: len(flows)] + 1e-12)
    told = type(circuit)(
        **{
            **vars_of(circuit),
            "leaf_log_p": np.where(
                np.repeat(circuit.leaf_column == 0, np.diff(circuit.leaf_first))[:, None],
                logs,
                circuit.leaf_log_p,
            ),
        }
    )
    seen = chances(told, every_row(CHAIN)).sum()
    assert seen == pytest.approx((cells[:, 0] >= 0).mean(), abs=0.01)


def vars_of(circuit):
    from dataclasses import fields

    return {field.name: getattr(circuit, field.name) for field in fields(circuit)}


def test_weights_count_as_rows_and_a_seed_says_the_model():
    cells = chain(400, 3)
    once, often = (tree_of(cells, 4, weight=w * np.ones(400)) for w in (1.0, 7.0))
    for table, other in zip(once.parameters.tables, often.parameters.tables, strict=True):
        np.testing.assert_allclose(table, other, atol=0.1)
    again = tree_of(cells, 4)
    for table, other in zip(once.parameters.tables, again.parameters.tables, strict=True):
        np.testing.assert_array_equal(table, other)


def test_one_column_is_its_shares():
    columns = columns_of(3)
    cells = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [500, 300, 200]))[
        :, np.newaxis
    ]
    circuit = circuit_of([tree_of(cells, 2, columns)], cells, columns)
    assert chances(circuit, every_row(columns)) == pytest.approx([0.5, 0.3, 0.2], abs=0.05)


# Pairs

SHAPE = (4, 3, 2)
THREE = columns_of(*SHAPE)


def cells_of(table, n_rows, seed=0):
    state = np.random.default_rng(seed).choice(table.size, n_rows, p=table.ravel())
    return np.column_stack(np.unravel_index(state, table.shape)).astype(np.int32)


def doors(n_columns, n_rows=4000, p=0.5, seed=0):
    """An alarm rings if one of two doors is open but not both; other columns know nothing of it."""
    cells = (np.random.default_rng(seed).random((n_rows, n_columns)) < p).astype(np.int32)
    cells[:, -1] = cells[:, 2] != cells[:, 5]
    return cells


def pairs_of(cells, columns, n=64, weight=None, **options):
    rng = np.random.default_rng(0)
    return learn_pair_components(rows_of(cells, columns, weight), n, rng=rng, **options)


def joint(components: Components, columns):
    """The probability of every combination of values."""
    p = components.share
    for c, table in enumerate(components.tables):
        values = table[:-1] / table[:-1].sum(axis=0)
        p = p * values.reshape(*[1] * c, -1, *[1] * (len(columns) - c - 1), len(components.share))
    return p.sum(axis=-1)


@pytest.fixture(scope="module")
def truth():
    """Columns that depend on each other in pairs and as three."""
    return np.random.default_rng(3).dirichlet(np.full(24, 0.4)).reshape(SHAPE)


def test_pairs_of_columns_are_as_in_the_rows(truth):
    cells = cells_of(truth, 2000)
    seen = joint(pairs_of(cells, THREE).components, THREE)
    assert seen.sum() == pytest.approx(1.0)
    counted = np.zeros(SHAPE)
    np.add.at(counted, tuple(cells.T), 1.0 / len(cells))
    for axis in range(3):
        np.testing.assert_allclose(seen.sum(axis=axis), counted.sum(axis=axis), atol=0.003)


@pytest.mark.parametrize(("n_columns", "p"), [(10, 0.5), (10, 0.8), (60, 0.55)])
def test_three_columns_are_as_in_the_rows_though_no_two_depend_on_each_other(n_columns, p):
    columns = columns_of(*[2] * n_columns)
    pairs = pairs_of(doors(n_columns, p=p), columns, 200)
    assert [triple.columns for triple in pairs.triples] == [(2, 5, n_columns - 1)]
    tables, share = pairs.components.tables, pairs.components.share
    seen = np.einsum("ak,bk,ck,k->abc", *(tables[c][:2] for c in (2, 5, -1)), share)
    np.testing.assert_allclose(
        seen[:, :, 1] / seen.sum(axis=2), [[0.0, 1.0], [1.0, 0.0]], atol=0.05
    )


def test_equal_rows_with_their_number_say_as_much_of_three_columns():
    cells = np.random.default_rng(0).integers(0, 2, (4000, 6))
    cells[:, 5] = cells[:, 0] != cells[:, 1]
    distinct, counts = np.unique(cells, axis=0, return_counts=True)
    pairs = pairs_of(distinct, columns_of(*[2] * 6), 16, counts.astype(float))
    assert [triple.columns for triple in pairs.triples] == [(0, 1, 5)]
    assert pairs.triples[0].counts.sum() == pytest.approx(len(cells))


def test_a_triple_says_which_models_have_lost_it():
    cells, columns = doors(8), columns_of(*[2] * 8)
    pairs = pairs_of(cells, columns, 200)
    shares = [np.bincount(own, minlength=2) / len(cells) for own in cells.T]
    alone = Components([np.array([[a], [b], [1.0]]) for a, b in shares], np.ones(1))
    of_pairs, of_one = (circuit_of([one], cells, columns) for one in (pairs.components, alone))
    assert not module._is_lost(pairs.triples[0], of_pairs)
    assert module._is_lost(pairs.triples[0], of_one)


@pytest.mark.parametrize("is_caused", [True, False])
def test_components_know_how_often_a_value_is_missing(truth, is_caused):
    cells = cells_of(truth, 3000)
    hidden, has_none = cells.copy(), cells[:, 2] == 1
    hidden[has_none, 1] = -1  # a category is known where the last column is 0
    frame = pd.DataFrame({f"c{c}": pd.Series(own).map(str) for c, own in enumerate(cells.T)})
    frame.loc[has_none, "c1"] = None
    columns = THREE
    if is_caused:
        with pytest.warns(MissingForAReasonWarning):
            columns = Strudel(n_components=1, max_splits=0).fit(frame).circuit_.columns
        assert columns.missingness.caused == {"c1"}
    else:
        assert columns.missingness == Missingness()
    table = pairs_of(hidden, columns).components.tables[1]
    if is_caused:
        share = pairs_of(hidden, columns).components.share
        assert (table[-1] * share).sum() == pytest.approx(has_none.mean(), abs=0.01)
    else:
        np.testing.assert_array_equal(table[-1], 1.0)


def test_what_time_does_not_allow_is_not_learned(truth):
    class Up:
        is_up = True

    assert pairs_of(cells_of(truth, 60), THREE, clock=Up()) is None


def test_a_sample_of_many_rows_is_drawn_by_weight(truth, monkeypatch):
    monkeypatch.setattr(pair_components, "MOST_ROWS", 1000)
    cells, weight = np.zeros((3000, 3), dtype=np.int32), np.ones(3000)
    cells[0, 0], weight[0] = 3, 3000.0  # half of all
    seen = joint(pairs_of(cells, THREE, 4, weight).components, THREE)
    assert seen.sum(axis=(1, 2))[3] == pytest.approx(0.5, abs=0.05)


# The average, as the estimator learns it


def patients(seed=0, n_rows=300):
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 90, n_rows)
    ward = np.where(age > 55, rng.choice(["north", "west"], n_rows), "south")
    return pd.DataFrame({"age": age, "ward": ward, "ill": rng.choice(["no", "yes"], n_rows)})


@pytest.mark.parametrize("has_gaps", [False, True])
def test_it_says_what_it_is_made_of_and_answers_as_the_rows(has_gaps):
    X, V = patients(), patients(1, 80)
    if has_gaps:
        X = X.mask(np.random.default_rng(0).random(X.shape) < 0.1)
    model = Strudel(random_state=0).fit(X, X_valid=V)
    chosen = model.chosen_
    assert sum(chosen["shares"].values()) == pytest.approx(1.0)
    assert f"with {100 * chosen['shares']['pairs']:.0f} % of the weight" in chosen["explanation"]
    assert {trial.method for trial in model.trials_} == {"components", "latent_tree"}
    assert model.log_likelihoods_.valid == pytest.approx(model.score(V))
    wards = [model.probability(f"ward = {w}", "age >= 56") for w in ("north", "south", "west")]
    assert sum(wards) == pytest.approx(1.0)
    assert wards[2] == pytest.approx((X.ward[X.age > 55] == "west").mean(), abs=0.15)


def test_columns_that_determine_each_other_stay_together():
    """A pension is paid to the retired alone: no component may say otherwise."""
    X = patients(n_rows=600)
    retired = X.age > 60
    X["retired"], X["pension"] = np.where(retired, "yes", "no"), np.where(retired, "paid", "none")
    model = Strudel(random_state=0).fit(X)
    assert model.probability("pension = paid", "retired = no") < 0.01


@pytest.mark.parametrize("most", [1, 3, 30])
def test_few_components_stay_few(most):
    model = Strudel(max_components=most, random_state=0).fit(rows_of_kinds())
    assert model.chosen_["n_components"] <= most
    assert {trial.n_components for trial in model.trials_} <= set(range(most + 1))


@pytest.mark.parametrize("words", ["latent tree of 8", "20 components", "pairs of columns"])
def test_an_interrupt_keeps_what_is_learned_so_far(words):
    check_interrupted(Strudel(random_state=0), rows_of_kinds(), rows_of_kinds(1), words)


def test_an_interrupt_while_models_are_put_together_keeps_them(monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "learn_pair_components", interrupt)
    with pytest.warns(InterruptedWarning):
        model = Strudel(random_state=0).fit(rows_of_kinds())
    assert "pairs" not in model.chosen_["shares"]


def test_a_time_limit_ends_a_fit():
    model = Strudel(max_seconds=1e-3, random_state=0).fit(rows_of_kinds())
    assert model.history_.stopped_because == "max_seconds"
    assert np.isfinite(model.score(rows_of_kinds(1)))


def test_one_seed_gives_one_model_on_any_number_of_threads():
    models = [Strudel(random_state=3, n_jobs=n).fit(patients()).circuit_ for n in (1, 2)]
    np.testing.assert_array_equal(models[0].leaf_log_p, models[1].leaf_log_p)
