"""Queries on Dask arrays and frames: lazy, by block, and the same answers."""

import numpy as np
import pytest

from strudel import (
    figure_1_circuit,
    log_conditional,
    log_likelihood,
    log_marginal,
    marginal_probabilities,
    sample,
)

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

CIRCUIT = figure_1_circuit()
ROWS = sample(CIRCUIT, 30, rng=0)
PARTLY = np.where(np.random.default_rng(1).random(ROWS.shape) < 0.3, np.nan, ROWS)


@pytest.mark.parametrize("query", [log_likelihood, log_marginal, marginal_probabilities])
def test_an_array_is_asked_block_by_block(query):
    rows = ROWS if query is log_likelihood else PARTLY
    lazy = query(CIRCUIT, da.from_array(rows, chunks=(7, 3)))
    assert isinstance(lazy, da.Array)
    assert lazy.shape == query(CIRCUIT, rows).shape
    assert lazy.numblocks[0] == 5
    np.testing.assert_allclose(lazy.compute(scheduler="synchronous"), query(CIRCUIT, rows))


@pytest.mark.parametrize("query", [log_likelihood, marginal_probabilities])
def test_a_frame_is_asked_by_the_names_of_its_columns(query):
    frame = pd.DataFrame(ROWS, columns=CIRCUIT.feature_names)[["X3", "X1", "X4", "X2"]]
    lazy = dd.from_pandas(frame, npartitions=3)
    answer = query(CIRCUIT, lazy).compute(scheduler="synchronous")
    np.testing.assert_allclose(answer, query(CIRCUIT, ROWS))


def test_an_empty_partition_answers_nothing():
    frame = pd.DataFrame(ROWS, columns=CIRCUIT.feature_names)
    lazy = dd.from_pandas(frame, npartitions=3).map_partitions(lambda part: part[part.index >= 20])
    answer = log_likelihood(CIRCUIT, lazy).compute(scheduler="synchronous")
    np.testing.assert_allclose(answer, log_likelihood(CIRCUIT, ROWS[20:]))


def test_two_lazy_tables_are_refused():
    lazy = da.from_array(PARTLY, chunks=(7, 4))
    with pytest.raises(ValueError, match="both lazy"):
        log_conditional(CIRCUIT, lazy, lazy)
