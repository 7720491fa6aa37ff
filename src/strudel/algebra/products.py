"""Products, powers and quotients of circuits on one vtree, as circuits again.

In:  circuits over the same columns.
Out: a circuit on the same vtree. Its sums and leaves add up to 1, and `log_total` says to what it
     adds up, unless it is normalised. A product of mixtures has one component per pair of theirs.

Numbers and dates are multiplied by the probabilities of their cells.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from strudel._types import FloatArray
from strudel.algebra.divergences import is_covered
from strudel.algebra.operands import need_single, one_circuit, two_circuits
from strudel.circuits.circuit import Circuit
from strudel.circuits.products import MAX_PAIRS, Pairs, product
from strudel.circuits.properties import as_deterministic_as
from strudel.circuits.reweigh import normalized


def multiply(p: Any, q: Any, *, normalize: bool = False, max_pairs: int = MAX_PAIRS) -> Circuit:
    """The product ``p(x) q(x)`` as a circuit.

    Parameters
    ----------
    p, q : Circuit or fitted estimator
        Over the same columns, on one vtree.
    normalize : bool
        Whether the result adds up to 1. If not, it adds up to `inner_product(p, q)`, whose log is
        `log_marginal` of a row with no known value.
    max_pairs : int
        Limit on the pairs of nodes, and of edges, at about 60 bytes each.

    Returns
    -------
    Circuit
        On the same vtree, with at most one edge per pair of edges; deterministic if both are. Of
        mixtures, one with a component for each pair of components.

    Raises
    ------
    ValueError
        If `normalize` is set and the product is zero everywhere.

    Examples
    --------
    >>> from strudel import log_likelihood
    >>> from strudel.circuits import figure_1_circuit
    >>> p = figure_1_circuit()
    >>> np.exp(log_likelihood(multiply(p, p), [[1, 0, 1, 0]]) / 2).round(4)
    array([0.0192])
    """
    first, second = two_circuits(p, q, "multiply")
    return _result(
        product(first, second, max_pairs),
        normalize,
        "The product of p and q is zero everywhere, so it cannot be normalised: no row is possible "
        "under both.",
    )


def divide(p: Any, q: Any, *, normalize: bool = False, max_pairs: int = MAX_PAIRS) -> Circuit:
    """The quotient ``p(x) / q(x)`` as a circuit, zero where `p` is zero.

    Parameters
    ----------
    p, q : Circuit or fitted estimator
        Over the same columns, on one vtree; `q` one deterministic circuit.
    normalize : bool
        Whether the result adds up to 1.
    max_pairs : int
        Limit on the pairs of nodes, and of edges, at about 60 bytes each.

    Returns
    -------
    Circuit
        On the same vtree, with the components of `p`; deterministic if `p` is. Where both are zero,
        0 / 0, it is zero.

    Raises
    ------
    ValueError
        If `q` is zero on a row where `p` is not.

    Examples
    --------
    >>> from strudel import log_likelihood
    >>> from strudel.circuits import compile_factorized, figure_1_circuit
    >>> p = figure_1_circuit()
    >>> coins = compile_factorized(p.vtree)
    >>> np.exp(log_likelihood(divide(p, coins), [[1, 0, 1, 0]])).round(4)  # 16 times 0.0192
    array([0.3072])
    """
    first, second = two_circuits(p, q, "divide")
    need_single(second, "divide inverts q", "inverse")
    pairs = Pairs(first, second, max_pairs, "divide")
    if not is_covered(first, pairs):
        raise ValueError(
            "p cannot be divided by q: q is zero on a row where p is not. Where both are zero the "
            "quotient is zero; condition p on what is possible under q first."
        )
    return _result(
        pairs.product(first, power_of(second, -1.0)),
        normalize,
        "The quotient is zero everywhere, as p is, so it cannot be normalised.",
    )


def power(p: Any, a: float, *, normalize: bool = False) -> Circuit:
    """The power ``p(x) ** a`` as a circuit, zero where `p` is zero.

    Parameters
    ----------
    p : Circuit or fitted estimator
        Deterministic.
    a : float
        Any finite number. Where `p` is positive, zero gives 1 and a negative number the inverse.
    normalize : bool
        Whether the result adds up to 1.

    Returns
    -------
    Circuit
        With the structure of `p`, without what is impossible.

    Examples
    --------
    >>> from strudel import log_likelihood
    >>> from strudel.circuits import figure_1_circuit
    >>> p = figure_1_circuit()
    >>> cold = power(p, 8, normalize=True)  # nearly all on the most probable state
    >>> [np.exp(log_likelihood(model, [[0, 1, 1, 0]])).round(4) for model in (p, cold)]
    [array([0.2592]), array([0.9617])]
    """
    circuit = one_circuit(p)
    if not np.isfinite(a):
        raise ValueError(f"a must be a finite number, but is {a}.")
    hint = " For whole exponents, multiply it with itself."
    need_single(circuit, "power takes a power of p", "power", hint)
    return _result(
        power_of(circuit, a),
        normalize,
        "p is zero everywhere, and so is its power, which cannot be normalised.",
    )


def power_of(circuit: Circuit, a: float) -> Circuit:
    """The power of one deterministic circuit, not normalised."""

    def scaled(logs: FloatArray) -> FloatArray:
        is_possible = logs > -np.inf
        return np.where(is_possible, a * np.where(is_possible, logs, 0.0), -np.inf)

    made = replace(
        circuit,
        leaf_log_p=scaled(circuit.leaf_log_p),
        edge_log_theta=scaled(circuit.edge_log_theta),
        log_total=float(scaled(np.array(circuit.log_total))),
    )
    return as_deterministic_as(made, circuit)


def _result(made: Circuit, normalize: bool, if_zero: str) -> Circuit:
    """The circuit with its total in `log_total`, or normalised; if it cannot be, that raises."""
    found, log_total = normalized(made)
    if found is not None:
        return found if normalize else replace(found, log_total=log_total)
    if normalize:
        raise ValueError(if_zero)
    return made.nothing()
