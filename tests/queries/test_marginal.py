from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

import oracle
from joint import NAN
from strudel import log_conditional, log_marginal
from strudel.circuits import figure_1_circuit
from strudel.circuits.builder import CircuitBuilder
from strudel.trees.vtree import Vtree


@pytest.mark.parametrize("scale", [1e-30, 1e30, 1e90])
def test_parameters_need_not_add_up_to_one(scale):
    builder = CircuitBuilder(Vtree.from_nested(((0, 1), (2, 3))))
    leaf = [builder.add_leaf_sum(var, 0.25) for var in range(4)]
    left = builder.add_sum([(leaf[0], leaf[1], scale)])
    right = builder.add_sum([(leaf[2], leaf[3], scale)])
    circuit = builder.build(builder.add_sum([(left, right, scale)]))
    expected = 3 * math.log(scale) + 2 * math.log(0.25)
    assert log_marginal(circuit, [1, NAN, 1, NAN])[0] == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(
    "evidence",
    [
        [[NAN, 1, NAN, 0]],
        [NAN, 1, NAN, 0],
        [None, 1, None, 0],
        {"X2": 1, "X4": 0},
        {1: 1, 3: 0},
        [{"X4": 0, "X2": 1}],
        np.array([NAN, 1, NAN, 0]),
        pd.DataFrame({"X4": [0], "X1": [NAN], "X2": [1], "X3": [NAN]}),
        pd.DataFrame({"X1": [None], "X2": [1], "X3": [None], "X4": [0]}),
        pd.Series({"X2": 1.0, "X4": 0.0}),
        pl.DataFrame({"X1": [None], "X2": [1], "X3": [None], "X4": [0]}),
    ],
    ids=lambda evidence: type(evidence).__name__,
)
def test_evidence_in_any_container(evidence):
    expected = oracle.log_marginal(figure_1_circuit(), [NAN, 1.0, NAN, 0.0])
    assert log_marginal(figure_1_circuit(), evidence) == pytest.approx([expected])


def test_one_row_of_given_serves_all_rows():
    circuit = figure_1_circuit()
    found = log_conditional(circuit, [[1, NAN, NAN, NAN], [0, NAN, NAN, NAN]], given={"X3": 1})
    assert np.exp(found) == pytest.approx([0.4, 0.6])


def test_rows_of_given_must_match():
    with pytest.raises(ValueError, match=r"as many as X \(1\), but has 2"):
        log_conditional(figure_1_circuit(), {"X1": 1}, given=[[NAN] * 4] * 2)
