"""Workers and clients that die, and how many workers there are, change nothing in the model."""

import logging
import os
import signal

import numpy as np
import pytest

from partitioned_tables import (
    TRAIN,
    VALID,
    assert_same_mixture,
    assert_same_search,
    in_parts,
    people,
)
from strudel import EM, Strudel, most_probable_state

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.compiled

CIRCUIT = {"random_state": 0, "max_splits": 15}
MIXTURE = {"n_components": 3, "max_splits": 4, "random_state": 0}
MIXTURE["method"] = EM(max_iter=6, patience=6)


@pytest.fixture(scope="module")
def circuit():
    """What one process learns, without any cluster."""
    return Strudel(n_components=1, **CIRCUIT).fit(TRAIN, X_valid=VALID)


@pytest.fixture(scope="module")
def mixture():
    return Strudel(**MIXTURE).fit(in_parts(TRAIN, ()), X_valid=VALID)


PARTLY = np.where(np.random.default_rng(0).random(TRAIN.shape) < 0.2, np.nan, TRAIN)


@pytest.fixture(scope="module")
def partly():
    """The same for rows with gaps."""
    return Strudel(n_components=1, **CIRCUIT).fit(in_parts(PARTLY, ()), X_valid=VALID)


@pytest.fixture(scope="module")
def client(circuit, mixture, partly):
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


def tables():
    return in_parts(TRAIN, {90, 200}), in_parts(VALID, {50})


def kill_a_worker_at(step, client, stage="structure"):
    """A callback for progress that kills a worker, once; and what it has killed."""
    calls, killed = [], []

    def kill(progress):
        if progress.stage == stage:
            calls.append(None)
        if len(calls) == step and not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    return kill, killed


def test_workers_learn_what_one_process_learns(client, circuit, mixture):
    X, V = tables()
    assert_same_search(circuit, Strudel(n_components=1, **CIRCUIT).fit(X, X_valid=V))
    assert_same_mixture(mixture, Strudel(**MIXTURE).fit(X, X_valid=V))


@pytest.mark.parametrize("search", ["greedy", "best_first"])
def test_a_worker_that_is_killed_changes_nothing_in_a_circuit(client, search):
    circuit = Strudel(n_components=1, search=search, **CIRCUIT).fit(TRAIN, X_valid=VALID)
    kill, killed = kill_a_worker_at(5, client)
    X, V = tables()
    model = Strudel(n_components=1, search=search, **CIRCUIT).fit(X, X_valid=V, callback=kill)
    assert killed
    assert_same_search(circuit, model)


def test_a_worker_that_is_killed_changes_nothing_in_a_mixture(client, mixture):
    kill, killed = kill_a_worker_at(4, client, "training")
    X, V = tables()
    model = Strudel(**MIXTURE).fit(X, X_valid=V, callback=kill)
    assert killed
    assert_same_mixture(mixture, model)


def test_rows_with_gaps_outlive_a_worker(client, partly):
    kill, killed = kill_a_worker_at(3, client)
    model = Strudel(n_components=1, **CIRCUIT).fit(
        in_parts(PARTLY, {90, 200}), X_valid=VALID, callback=kill
    )
    assert killed
    assert np.array_equal(model.history_.n_edges, partly.history_.n_edges)
    assert np.array_equal(model.circuit_.edge_left, partly.circuit_.edge_left)
    values = (one.circuit_.edge_log_theta for one in (model, partly))
    np.testing.assert_allclose(*values, rtol=1e-9)


@pytest.mark.parametrize("n_workers", [1, 4])
def test_how_many_workers_there_are_does_not_matter(circuit, mixture, n_workers):
    cluster = distributed.LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=False,
        dashboard_address=":0",
        silence_logs=logging.CRITICAL,
    )
    with cluster, distributed.Client(cluster):
        X, V = in_parts(TRAIN, {30, 90, 150, 200, 270}), in_parts(VALID, {50})
        assert_same_search(circuit, Strudel(n_components=1, **CIRCUIT).fit(X, X_valid=V))
        assert_same_mixture(mixture, Strudel(**MIXTURE).fit(X, X_valid=V))


def test_parts_that_a_worker_writes_to_disk_come_back(circuit, mixture):
    no_memory = {
        "distributed.worker.memory.target": 1e-9,
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.pause": False,
        "distributed.worker.memory.terminate": False,
    }
    n_written = []

    def count(_):
        n_written.extend(len(worker.data.slow) for worker in cluster.workers.values())

    with (
        dask.config.set(no_memory),
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            memory_limit="1GB",
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster),
    ):
        X, V = tables()
        assert_same_search(
            circuit, Strudel(n_components=1, **CIRCUIT).fit(X, X_valid=V, callback=count)
        )
        assert max(n_written) >= 5
        model = Strudel(**MIXTURE).fit(X, X_valid=V, callback=count)
        assert_same_mixture(mixture, model)


def test_workers_encode_and_answer(client):
    frame = pytest.importorskip("dask.dataframe")
    table = people(100)
    lazy = frame.from_pandas(table, npartitions=3)
    options = {"max_splits": 5, "random_state": 0}
    one = Strudel(n_components=1, **options).fit(table, X_valid=table)
    model = Strudel(n_components=1, **options).fit(lazy, X_valid=lazy)
    assert_same_search(one, model)
    assert model.score(lazy) == pytest.approx(one.score(table))
    states, log_p = most_probable_state(model, lazy[["age"]])
    wanted, wanted_log_p = most_probable_state(one, table[["age"]])
    assert states.compute().equals(wanted)
    np.testing.assert_allclose(log_p.compute(), wanted_log_p)
