"""Circuits small enough to check by hand."""

from __future__ import annotations

import numpy as np

from strudel._types import NONE
from strudel.circuits.compile import compile_chow_liu
from strudel.learning.bits.circuit import BitCircuit
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.vtree import vtree_from_chow_liu


def figure_1_circuit() -> BitCircuit:
    """The circuit of Figure 1 of the paper, compiled from its Chow-Liu tree `X4 -> X3 -> {X1, X2}`.

    Examples
    --------
    >>> from strudel import log_likelihood
    >>> np.exp(log_likelihood(figure_1_circuit(), [[1, 0, 1, 0]])).round(4)
    array([0.0192])
    """
    tree = figure_1_chow_liu_tree()
    return compile_chow_liu(tree, vtree_from_chow_liu(tree)).with_names(("X1", "X2", "X3", "X4"))


def figure_1_chow_liu_tree() -> ChowLiuTree:
    """The Chow-Liu tree of Figure 1; variables count from zero here."""
    return ChowLiuTree(
        var_parent=np.array([2, 2, 3, NONE], dtype=np.int32),
        var_theta=np.array([[0.7, 0.4], [0.5, 0.9], [0.8, 0.3], [0.4, 0.4]]),
    )
