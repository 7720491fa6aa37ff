"""EM on a device of torch: the same steps as the kernels of the CPU, to the rounding of float32."""

from __future__ import annotations

import numpy as np
import pytest

from strudel import Strudel, log_likelihood
from strudel.data import pack_columns
from strudel.errors import InterruptedWarning
from strudel.learning import MixtureOptions
from strudel.learning.bits.fold import folded
from strudel.learning.mixtures import em_steps
from strudel.learning.mixtures.em import MixtureData, fit_mixture, new_ensemble
from strudel.learning.options import SearchOptions
from strudel.learning.search.learn_structure import first_circuit

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # tables are small, and other tests run beside

from strudel.circuits.on_device import flow_products
from strudel.learning.mixtures import on_device
from strudel.learning.mixtures.on_device import k_means, nearest

CPU = torch.device("cpu")
DEVICES = [CPU] + [torch.device("cuda")] * torch.cuda.is_available()
FLOAT32 = 1e-5  # relative error of log-likelihoods, as documented
pytestmark = [pytest.mark.compiled, pytest.mark.parametrize("device", DEVICES, ids=str)]


def rows_of_kinds(seed=0, n_rows=300, n_vars=8, n_kinds=4):
    """Rows of several kinds, neighbours alike."""
    rng = np.random.default_rng(seed)
    chance = np.random.default_rng(99).beta(0.4, 0.4, size=(n_kinds, n_vars))
    X = (rng.random((n_rows, n_vars)) < chance[rng.integers(n_kinds, size=n_rows)]).astype(np.uint8)
    if n_vars > 1:
        X[:, 1::2] ^= X[:, ::2][:, : X[:, 1::2].shape[1]]
    return X


def structure(X):
    return first_circuit(pack_columns(X), SearchOptions())


def twins(device, X, k, n_groups=1, n_init=1, weight=None, row_weight=None, **options):
    """Rows and an ensemble here and on a device, from the same random shares."""
    found, circuit = [], structure(X)
    for place in (None, device):
        own = MixtureOptions(n_components=k, device=place, **options)
        V = rows_of_kinds(1, 100, X.shape[1])
        data = MixtureData.of(circuit, pack_columns(X, weight), V, own)
        weights = [bag.weight[np.newaxis] for bag in data.train]
        if row_weight is not None:
            parts = np.split(row_weight, np.cumsum([bag.n_rows for bag in data.train])[:-1], axis=1)
            weights = [np.ascontiguousarray(part) for part in parts]
        ensemble = new_ensemble(data.choices, data.prior(own), n_groups, k)
        rng = np.random.default_rng(5)
        for bag, by_row in zip(data.train, weights, strict=True):
            share = rng.dirichlet(np.full(k, 0.3), size=(bag.n_rows, n_groups))
            share = share.reshape(bag.n_rows, -1).astype(np.float32)
            ensemble.add(bag, share, by_row)
        found.append((data, weights, ensemble, n_init))
    return found


def steps(data, weights, ensemble, n_init, n_steps=5):
    """Scores of some steps, and the counts after them."""
    scores = []
    for _ in range(n_steps):
        ensemble.maximise()
        by_group, mean = ensemble.scores(data.valid, data.valid_weight, n_init)
        train, average = ensemble.expect(data.train, weights)
        scores.append([*by_group, mean, *train, average])
    ensemble.maximise()
    return np.array(scores), *ensemble.counts().arrays()


def assert_alike(here, there):
    np.testing.assert_allclose(there[0], here[0], rtol=FLOAT32)
    for found, expected in zip(there[1:], here[1:], strict=True):  # counts, relative to all rows
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=FLOAT32 * here[2].sum())


# The same steps


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_groups": 4, "n_init": 2},
        {"pseudocount": 0.0},
        {"smoothing": "single", "pseudocount": 3.0},
    ],
    ids=["plain", "restarts", "unsmoothed", "single"],
)
def test_steps_are_those_of_the_cpu(device, options):
    here, there = twins(device, rows_of_kinds(), 3, **options)
    assert_alike(steps(*here), steps(*there))


@pytest.mark.parametrize("n_vars", [1, 2, 1000])
def test_steps_are_those_of_the_cpu_with_few_and_many_variables(device, n_vars):
    here, there = twins(device, rows_of_kinds(n_rows=120, n_vars=n_vars), 2)
    assert_alike(steps(*here), steps(*there))


def test_steps_with_weights_of_rows_and_of_bags_are_those_of_the_cpu(device):
    rng = np.random.default_rng(0)
    X = rows_of_kinds()
    here, there = twins(device, X, 3, weight=rng.gamma(1.0, 1e4, size=len(X)))
    assert_alike(steps(*here), steps(*there))
    n_distinct = len(np.unique(X, axis=0))
    bags = rng.integers(0, 3, size=(2, n_distinct)).astype(float)
    here, there = twins(device, X, 3, n_groups=2, row_weight=bags)
    assert_alike(steps(*here), steps(*there))


def test_blocks_of_rows_give_what_one_block_gives(device, monkeypatch):
    X = rows_of_kinds()
    _, one = twins(device, X, 3)
    expected = steps(*one)
    monkeypatch.setattr(flow_products, "CHUNK", 16)
    _, chunks = twins(device, X, 3)
    assert_alike(expected, steps(*chunks))
    monkeypatch.setattr(em_steps, "BLOCK_ROWS", 64)
    monkeypatch.setattr(on_device, "KEPT_BYTES", 2**13)  # enough for one of the matrices
    circuit, k = structure(X), 3
    options = MixtureOptions(n_components=k, device=device)
    data = MixtureData.of(circuit, pack_columns(X), rows_of_kinds(1, 100), options)
    weights = [bag.weight[np.newaxis] for bag in data.train]
    assert len(data.train) == 2
    ensemble = new_ensemble(data.choices, data.prior(options), 1, k)
    share = np.random.default_rng(5).dirichlet(np.full(k, 0.3), size=(data.rows.n_rows, 1))[:, 0]
    first = 0
    for bag, weight in zip(data.train, weights, strict=True):
        ensemble.add(bag, share[first : first + bag.n_rows].astype(np.float32), weight)
        first += bag.n_rows
    assert_alike(expected, steps(data, weights, ensemble, 1))
    kept = [block.kept_bytes for _, block in data.choices._blocks.values()]
    assert sorted(kept)[0] == 0 < sum(kept) <= 2**13


def test_large_structures_need_four_bytes_for_an_entry(device):
    block = flow_products.FlowBlock.of(np.array([[40_000], [7]]), 40_001, device, is_kept=False)
    assert block.codes.dtype == torch.int32
    assert block.matrix()[0].nonzero().ravel().tolist() == [40_000, 40_001, 80_016, 80_017]


# Where it begins


def test_k_means_finds_clusters_that_are_far_apart(device):
    rows = torch.zeros((60, 9), device=device)
    for c in range(3):
        rows[20 * c : 20 * c + 20, 3 * c : 3 * c + 3] = 1.0
    first = torch.tensor([[0, 21, 41]], device=device)
    centres = k_means(rows, torch.ones(60, device=device), rows[first])
    assert nearest(rows, centres).ravel().tolist() == [0] * 20 + [1] * 20 + [2] * 20


@pytest.mark.parametrize("few_rows", [0, 4096])
@pytest.mark.parametrize("start", ["kmeans", "k-means++", "random"])
def test_a_seed_repeats_and_another_one_does_not(device, start, few_rows, monkeypatch):
    monkeypatch.setattr(on_device, "FEW_ROWS", few_rows)
    monkeypatch.setattr(on_device, "CLUSTERED_ROWS", 50)
    X, V = rows_of_kinds(), rows_of_kinds(1)
    options = MixtureOptions(n_runs=2, init_params=start, max_iter=4, device=device)
    one, again, other = (
        fit_mixture(structure(X), X, 3, X_valid=V, options=options, rng=seed) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.edge_log_theta, again.edge_log_theta)
    assert not np.array_equal(one.edge_log_theta, other.edge_log_theta)
    single = fit_mixture(structure(X), X, 1)
    assert log_likelihood(folded(one), X).mean() > log_likelihood(folded(single), X).mean() + 0.2


@pytest.mark.parametrize("start", ["kmeans", "k-means++", "random"])
def test_more_components_than_rows(device, start):
    X = np.array([[1, 0, 0], [1, 1, 0]], dtype=np.uint8)
    options = MixtureOptions(init_params=start, device=device)
    mixture = fit_mixture(structure(X), X, 5, options=options, rng=0)
    assert np.isfinite(log_likelihood(folded(mixture), X)).all()


# Whole fits


def test_a_fit_is_as_good_as_on_the_cpu(device):
    X, V = rows_of_kinds(n_rows=600), rows_of_kinds(1, 400)
    options = {"n_components": "auto", "max_components": 100, "random_state": 0}
    here = Strudel(**options).fit(X, X_valid=V)
    there = Strudel(**options, device=device).fit(X, X_valid=V)
    assert there.chosen_["valid"] == pytest.approx(here.chosen_["valid"], abs=0.02)
    assert there.log_likelihoods_.valid == pytest.approx(there.chosen_["valid"], rel=FLOAT32)
    assert there.log_likelihoods_.valid == pytest.approx(there.score(V), rel=FLOAT32)
    assert there.history_.stopped_because == "all rounds are done"


def test_an_interrupt_keeps_the_best_so_far(device):
    X, V = rows_of_kinds(), rows_of_kinds(1)

    def interrupt(progress):
        if progress.stage == "training" and progress.step == 4:
            raise KeyboardInterrupt

    model = Strudel(n_components=3, max_splits=2, device=device, random_state=0)
    with pytest.warns(InterruptedWarning):
        model.fit(X, X_valid=V, callback=interrupt)
    assert len(model.history_) == 5  # the first is that of the start
    assert model.circuit_.n_components == 3


# Options


def test_other_methods_are_refused_by_name(device):
    model = Strudel(n_components=2, max_splits=2, method="boosting", device="cuda")
    with pytest.raises(ValueError, match="em, bagged_em or continuous, but method is 'boosting'"):
        model.fit(rows_of_kinds())
    model.set_params(device="auto").fit(rows_of_kinds())


# How far the structure grows


@pytest.mark.parametrize(("least_gain", "is_all"), [(-1.0, True), (10.0, False)])
def test_the_structure_grows_on_only_where_that_is_worth_it(
    device, least_gain, is_all, monkeypatch
):
    X, V = rows_of_kinds(n_rows=600), rows_of_kinds(1, 400)
    monkeypatch.setattr("strudel.learning.learn_mixture.STAGES", (2, 5, None))
    monkeypatch.setattr("strudel.learning.mixtures.choose.WORTH_GROWING", least_gain)
    options = {"n_components": 2, "method": "em", "random_state": 0}
    here = Strudel(**options).fit(X, X_valid=V)
    model = Strudel(**options, device=device).fit(X, X_valid=V)
    tried = {trial.n_splits for trial in model.trials_}
    assert max(trial.n_splits for trial in here.trials_) > 5
    assert (max(tried) > 5) == is_all
    assert tried >= {0, 2}
    options |= {"n_components": [2, 3], "max_splits": 3}
    bounded = Strudel(**options, device=device).fit(X, X_valid=V)
    assert max(trial.n_splits for trial in bounded.trials_) <= (3 if is_all else 2)


def test_sums_of_short_long_and_empty_segments(device, monkeypatch):
    X = rows_of_kinds()
    data = MixtureData.of(structure(X), pack_columns(X), None, MixtureOptions(device=device))
    length = np.array([1, 0, 70, 32, 33, 2])
    lines = torch.rand((length.sum(), 3), dtype=torch.float64, device=device)
    parts = torch.split(lines, length.tolist())
    expected = torch.stack([part.sum(dim=0) for part in parts])
    for most in (32, 1000):
        monkeypatch.setattr(on_device, "LONGEST", most)
        segments = on_device.Segments.of(data.choices, length)
        assert (segments.piece_first is None) == (most == 1000)
        torch.testing.assert_close(segments.sums(lines), expected)
