"""Workers that die, and how many there are, change nothing in the model."""

import logging
import os
import signal

import numpy as np
import pytest

from strudel import Strudel, StrudelMixture
from tables_in_parts import TRAIN, VALID, assert_same_search, in_parts

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.compiled


MIXTURE = {"n_components": 3, "n_splits": 4, "random_state": 0, "max_iterations": 6}


@pytest.fixture(scope="module")
def in_one_process():
    """A mixture of the same table without any cluster."""
    return StrudelMixture(**MIXTURE).fit(in_parts(TRAIN, ()), X_valid=VALID).mixture_


@pytest.fixture(scope="module")
def client(in_one_process):
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


def test_workers_learn_what_one_process_learns(client):
    one = Strudel(random_state=0, max_splits=15).fit(TRAIN, X_valid=VALID)
    model = Strudel(random_state=0, max_splits=15).fit(
        in_parts(TRAIN, {90, 200}), X_valid=in_parts(VALID, {50})
    )
    assert_same_search(one, model)


def test_a_worker_that_is_killed_changes_nothing(client):
    one = Strudel(random_state=0, max_splits=15).fit(TRAIN, X_valid=VALID)
    killed = []

    def kill(history):
        if len(history) == 10 and not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    model = Strudel(random_state=0, max_splits=15)
    model._fit(in_parts(TRAIN, {90, 200}), in_parts(VALID, {50}), on_split=kill)
    assert killed
    assert_same_search(one, model)


def test_workers_fit_the_mixture_that_one_process_fits(client, in_one_process):
    mixture = StrudelMixture(**MIXTURE).fit(in_parts(TRAIN, {90, 200}), X_valid=VALID).mixture_
    assert np.array_equal(mixture.edge_log_theta, in_one_process.edge_log_theta)
    assert np.array_equal(mixture.log_weight, in_one_process.log_weight)
