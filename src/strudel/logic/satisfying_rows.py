"""Models of logical circuits: the rows that satisfy them, as a distribution.

In:  an `Sdd`, or a decomposable `Nnf` that follows a vtree.
Out: `uniform_circuit`, every satisfying row equally likely; `log_model_count`, how many there are.
"""

from __future__ import annotations

import numpy as np

from strudel.circuits.circuit import Circuit
from strudel.circuits.properties import why_not_deterministic
from strudel.circuits.reweigh import normalized
from strudel.circuits.sum_product_graph import SumProductGraph, normal_form, recover_vtree
from strudel.errors import CircuitPropertyError
from strudel.logic.formula import LITERAL, OR, Nnf
from strudel.logic.sdd import Sdd, nnf_from_sdd
from strudel.trees.vtree import Vtree

MAX_VARS = 2**20  # variables that an NNF claims to have cost memory even if it mentions none


def uniform_circuit(formula: Sdd | Nnf, vtree: Vtree | None = None) -> Circuit:
    """The circuit under which all rows that satisfy a formula are equally likely.

    Parameters
    ----------
    formula : Sdd or Nnf
        Deterministic and decomposable.
    vtree : Vtree, optional
        What the circuit follows. By default that of the SDD, or one recovered from the NNF.

    Returns
    -------
    Circuit
        In normal form, with what the formula does not mention filled in.

    Examples
    --------
    >>> from strudel.logic.formula import AND, LITERAL, OR, Nnf
    >>> from strudel import log_likelihood
    >>> nnf = Nnf.from_nodes([(LITERAL, 0), (LITERAL, 3), (AND, [0, 1])], n_vars=3)
    >>> np.exp(log_likelihood(uniform_circuit(nnf), [[0, 1, 0], [0, 1, 1], [1, 1, 1]]))
    array([0.5, 0.5, 0. ])
    """
    circuit = _support(formula, vtree)
    if circuit is None:
        raise ValueError("No row satisfies this formula, so there is no distribution over them.")
    found, _ = normalized(circuit)
    assert found is not None
    return found


def log_model_count(formula: Sdd | Nnf, vtree: Vtree | None = None) -> float:
    """The log of the number of rows that satisfy a formula; ``-inf`` for none.

    Examples
    --------
    >>> from strudel.logic.formula import LITERAL, Nnf
    >>> round(np.exp(log_model_count(Nnf.from_nodes([(LITERAL, 0)], n_vars=5))))
    16
    """
    circuit = _support(formula, vtree)
    return -np.inf if circuit is None else normalized(circuit)[1]


def _support(formula: Sdd | Nnf, vtree: Vtree | None) -> Circuit | None:
    """The circuit that gives 1 to every satisfying row and 0 to every other; None if none is."""
    if isinstance(formula, Sdd):
        vtree = formula.vtree if vtree is None else vtree
        nnf = nnf_from_sdd(formula)
    else:
        nnf = formula
    if vtree is None and nnf.n_vars > MAX_VARS:
        raise ValueError(f"This NNF has {nnf.n_vars:,} variables. Give its vtree if that is right.")
    graph = SumProductGraph()
    for node in range(nnf.n_nodes):
        children = nnf.children(node)
        if nnf.node_kind[node] == LITERAL:
            graph.add_literal(int(nnf.node_literal[node]))
        elif nnf.node_kind[node] == OR:
            graph.add_sum(children, [0.0] * len(children))
        else:
            graph.add_product(children)
    try:
        circuit = normal_form(
            graph, recover_vtree(graph, nnf.n_vars) if vtree is None else vtree, fill=True
        )
    except ValueError as error:
        raise CircuitPropertyError(f"This formula has no circuit on a vtree: {error}.") from error
    if circuit is not None:
        reason = why_not_deterministic(circuit)
        if reason is not None:
            raise CircuitPropertyError(
                f"Counting rows needs a deterministic circuit, but {reason}."
            )
    return circuit
