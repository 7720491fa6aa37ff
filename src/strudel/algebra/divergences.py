"""How two circuits on one vtree differ, in numbers.

In:  two circuits in normal form on one vtree.
Out: inner products, distances and divergences, exact.

Each is one pass over the pairs of nodes (`pairs`). Sums of products of powers go up in logs.
Expectations of logs under p, whose sums add up to 1, go up as they are. Mixtures take part where
the quantity is a sum over their components: products of p and q, and expectations under p.

The divergences compare distributions: a circuit that does not add up to 1 is normalised first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, FloatArray
from strudel.algebra.normalize_weights import local_parameters
from strudel.algebra.operands import columns_of, need_single, two_models
from strudel.algebra.pairs import MAX_PAIRS, Pairs, find_pairs
from strudel.algebra.products import edge_weights, is_covered, is_model_covered
from strudel.circuits.circuit import Circuit, Edges
from strudel.circuits.evaluate import column_log_totals
from strudel.data.validation import slices
from strudel.queries.model import Model

BLOCK_VALUES = 2**18  # values of pairs of components that go up together: 2 MB


def inner_product(p: Any, q: Any, *, log: bool = False, max_pairs: int = MAX_PAIRS) -> float:
    """The sum of ``p(x) q(x)`` over all rows: how probable it is that they draw the same one.

    Parameters
    ----------
    p, q : Circuit, Mixture or fitted estimator
        In normal form on one vtree.
    log : bool
        Whether to return the natural log; use it with many variables.
    max_pairs : int
        Limit on the pairs of nodes, and of edges, at about 60 bytes each.

    Returns
    -------
    float

    Examples
    --------
    >>> from strudel.circuits import compile_factorized, figure_1_circuit
    >>> p = figure_1_circuit()
    >>> round(inner_product(p, compile_factorized(p.vtree)), 4)  # one of 16 rows
    0.0625
    """
    first, second = two_models(p, q, "inner_product")
    found = _log_inner_product(first, second, "inner_product", max_pairs)
    return found if log else float(np.exp(found))


def mean_squared_distance(
    p: Any, q: Any, *, log: bool = False, max_pairs: int = MAX_PAIRS
) -> float:
    """The mean of ``(p(x) - q(x)) ** 2`` over all `2 ** n_vars` rows.

    Parameters
    ----------
    p, q : Circuit, Mixture or fitted estimator
        In normal form on one vtree.
    log : bool
        Whether to return the natural log; use it with many variables.
    max_pairs : int
        Limit on the pairs of nodes, and of edges, at about 60 bytes each.

    Returns
    -------
    float
        Zero or more. It is a difference of inner products, exact up to their rounding: about 1e-16
        of the mean of ``p(x) ** 2 + q(x) ** 2``.

    Examples
    --------
    >>> from strudel.circuits import compile_factorized, figure_1_circuit
    >>> p = figure_1_circuit()
    >>> round(mean_squared_distance(p, compile_factorized(p.vtree)), 6)
    0.0043
    """
    first, second = two_models(p, q, "mean_squared_distance")
    log_products = np.array(
        [
            _log_inner_product(a, b, "mean_squared_distance", max_pairs)
            for a, b in ((first, first), (first, second), (second, second))
        ]
    )
    shift = float(log_products.max())
    if shift == -np.inf:  # both are zero
        return shift if log else 0.0
    terms = np.exp(log_products - shift)
    distance = max(0.0, float(terms[0] - terms[1] + terms[2] - terms[1]))
    shift -= first.n_vars * np.log(2.0)
    if log:
        return float(np.log(distance) + shift) if distance > 0.0 else -np.inf
    return float(distance * np.exp(shift))


def cauchy_schwarz_divergence(p: Any, q: Any, *, max_pairs: int = MAX_PAIRS) -> float:
    """The negative log of the cosine between two circuits, ``-log(<p, q> / sqrt(<p, p> <q, q>))``.

    Parameters
    ----------
    p, q : Circuit, Mixture or fitted estimator
        In normal form on one vtree. They need not be deterministic.
    max_pairs : int
        Limit on the pairs of nodes, and of edges, at about 60 bytes each.

    Returns
    -------
    float
        Zero if both are the same distribution, infinite if no row is possible under both.

    Examples
    --------
    >>> from strudel.circuits import compile_factorized, figure_1_circuit
    >>> p = figure_1_circuit()
    >>> round(cauchy_schwarz_divergence(p, compile_factorized(p.vtree)), 4)
    0.3711
    """
    query = "cauchy_schwarz_divergence"
    first, second = two_models(p, q, query)
    mine = _log_inner_product(first, first, query, max_pairs)
    theirs = _log_inner_product(second, second, query, max_pairs)
    _check_positive(mine, theirs)
    both = _log_inner_product(first, second, query, max_pairs)
    return max(0.0, (mine + theirs) / 2.0 - both)  # rounding may leave -1e-16


def cross_entropy(p: Any, q: Any, *, max_pairs: int = MAX_PAIRS) -> float:
    """The mean of ``-log q(x)`` over rows drawn from `p`, in nats.

    Parameters
    ----------
    p, q : Circuit, Mixture or fitted estimator
        In normal form on one vtree; `q` one deterministic circuit.
    max_pairs : int
        Limit on the pairs of nodes, and of edges, at about 60 bytes each.

    Returns
    -------
    float
        Infinite if `q` is zero on a row that is possible under `p`.

    Examples
    --------
    >>> from strudel.circuits import compile_factorized, figure_1_circuit
    >>> p = figure_1_circuit()
    >>> round(cross_entropy(p, compile_factorized(p.vtree)), 4)  # 4 log 2
    2.7726
    """
    model, other = two_models(p, q, "cross_entropy")
    second = need_single(other, "cross_entropy takes the log of q", "log")
    columns = columns_of(model)
    structure = columns.structure
    pairs = find_pairs(structure, second, "cross_entropy", max_pairs)
    q_log_theta, q_log_total = local_parameters(second)
    parts = [structure.with_parameters(column) for column in columns.edge_log_theta.T]
    local = [local_parameters(part) for part in parts]
    log_share = columns.log_weight + np.array([log_total for _, log_total in local])
    p_log_total = float(np.logaddexp.reduce(log_share))
    _check_positive(p_log_total, q_log_total)
    if not is_model_covered(model, structure, pairs):
        return np.inf
    weight = edge_weights(pairs, np.zeros(structure.n_edges), -q_log_theta)
    share = np.exp(log_share - p_log_total)
    means = [_expectation(pairs, log_theta, weight) for log_theta, _ in local]
    return float(share @ means)


def kl_divergence(p: Any, q: Any, *, max_pairs: int = MAX_PAIRS) -> float:
    """The Kullback-Leibler divergence, the mean of ``log p(x) - log q(x)`` over rows from `p`.

    Parameters
    ----------
    p, q : Circuit or fitted estimator
        Deterministic, in normal form on one vtree; not mixtures, whose logs do not split into those
        of their components.
    max_pairs : int
        Limit on the pairs of nodes, and of edges, at about 60 bytes each.

    Returns
    -------
    float
        In nats, zero or more; infinite if `q` is zero on a row that is possible under `p`.

    Examples
    --------
    >>> from strudel import entropy
    >>> from strudel.circuits import compile_factorized, figure_1_circuit
    >>> p = figure_1_circuit()
    >>> round(kl_divergence(p, compile_factorized(p.vtree)), 4)
    0.4345
    >>> round(float(4 * np.log(2)) - entropy(p), 4)
    0.4345
    """
    first, pairs, p_log_theta, q_log_theta = _two_circuits(p, q, "kl_divergence", "log", max_pairs)
    if not is_covered(first, pairs):
        return np.inf
    weight = edge_weights(pairs, p_log_theta, -q_log_theta)
    return max(0.0, _expectation(pairs, p_log_theta, weight))  # rounding may leave -1e-16


def renyi_divergence(p: Any, q: Any, alpha: float, *, max_pairs: int = MAX_PAIRS) -> float:
    """The Renyi divergence, ``log(sum of p(x)**alpha q(x)**(1 - alpha)) / (alpha - 1)``.

    Parameters
    ----------
    p, q : Circuit or fitted estimator
        Deterministic, in normal form on one vtree; not mixtures, whose powers do not split into
        those of their components.
    alpha : float
        Zero or more. The limit at 1 is the Kullback-Leibler divergence; 0 gives minus the log of
        what `q` gives to the rows possible under `p`.
    max_pairs : int
        Limit on the pairs of nodes, and of edges, at about 60 bytes each.

    Returns
    -------
    float
        In nats, zero or more. Infinite if no row is possible under both, and, for an `alpha` of 1
        or more, if `q` is zero on a row that is possible under `p`.

    Examples
    --------
    >>> from strudel.circuits import compile_factorized, figure_1_circuit
    >>> p = figure_1_circuit()
    >>> [round(renyi_divergence(p, compile_factorized(p.vtree), a), 4) for a in (0.5, 1, 2)]
    [0.2309, 0.4345, 0.7423]
    """
    if not 0.0 <= alpha < np.inf:
        raise ValueError(f"alpha must be a finite number of zero or more, but is {alpha}.")
    if alpha == 1.0:
        return kl_divergence(p, q, max_pairs=max_pairs)
    first, pairs, p_log_theta, q_log_theta = _two_circuits(
        p, q, "renyi_divergence", "power", max_pairs
    )
    if len(pairs.pair_p) == 0 or (alpha > 1.0 and not is_covered(first, pairs)):
        return np.inf
    weight = edge_weights(pairs, _times(p_log_theta, alpha), _times(q_log_theta, 1.0 - alpha))
    log_total = column_log_totals(pairs.edges, weight[:, np.newaxis], first.n_vars)[0]
    return max(0.0, float(log_total) / (alpha - 1.0))


def _log_inner_product(p: Model, q: Model, query: str, max_pairs: int) -> float:
    """The log of the inner product: a sum over pairs of components, over one `Pairs`."""
    first, second = columns_of(p), columns_of(q)
    pairs = find_pairs(first.structure, second.structure, query, max_pairs)
    if len(pairs.pair_p) == 0:
        return -np.inf
    k, m = len(first.log_weight), len(second.log_weight)
    log_term = np.add.outer(first.log_weight, second.log_weight).ravel()
    p_log_theta = np.append(first.edge_log_theta, np.zeros((1, k)), axis=0)  # 1 at a bare literal
    q_log_theta = np.append(second.edge_log_theta, np.zeros((1, m)), axis=0)
    for part in slices(k * m, max(1, BLOCK_VALUES // len(pairs.edges.node_edges))):
        mine, theirs = np.divmod(np.arange(part.start, part.stop), m)
        log_theta = p_log_theta[pairs.edge_p][:, mine] + q_log_theta[pairs.edge_q][:, theirs]
        log_term[part] += column_log_totals(pairs.edges, log_theta, p.n_vars)
    return float(np.logaddexp.reduce(log_term))


def _expectation(pairs: Pairs, p_log_theta: FloatArray, edge_weight: FloatArray) -> float:
    """The mean, over rows drawn from p, of the weights of the edges a row takes, added up."""
    theta = np.append(np.exp(p_log_theta), 1.0)[pairs.edge_p]  # 1 at a bare literal
    return float(_mean_weight(pairs.edges, theta, edge_weight))


@kernel
def _mean_weight(edges: Edges, edge_theta: FloatArray, edge_weight: FloatArray) -> float:
    """The sum over the trees of the last node of their probability times the sum of their weights.

    `mass` is a node's total probability, at most 1 since the sums of p add up to 1.
    """
    node_edges, edge_left, edge_right = edges
    mass = np.ones(len(node_edges) - 1)
    mean = np.zeros(len(node_edges) - 1)
    for n in range(len(mass)):
        if node_edges[n] == node_edges[n + 1]:
            continue
        mass[n] = 0.0
        for e in range(node_edges[n], node_edges[n + 1]):
            l, r = edge_left[e], edge_right[e]
            below, inside = mass[l], mean[l]
            if r != NONE:
                below, inside = mass[l] * mass[r], mean[l] * mass[r] + mass[l] * mean[r]
            mass[n] += edge_theta[e] * below
            mean[n] += edge_theta[e] * (below * edge_weight[e] + inside)
    return mean[len(mean) - 1]


def _two_circuits(
    p: Any, q: Any, query: str, function: str, max_pairs: int
) -> tuple[Circuit, Pairs, FloatArray, FloatArray]:
    """Circuit p, the pairs, and log-parameters with which both are distributions."""
    article = "the" if function == "log" else "a"
    first, second = (
        need_single(model, f"{query} takes {article} {function} of {name}", function)
        for name, model in zip("pq", two_models(p, q, query), strict=True)
    )
    pairs = find_pairs(first, second, query, max_pairs)
    (p_log_theta, p_total), (q_log_theta, q_total) = map(local_parameters, (first, second))
    _check_positive(p_total, q_total)
    return first, pairs, p_log_theta, q_log_theta


def _check_positive(p_log_total: float, q_log_total: float) -> None:
    for name, log_total in (("p", p_log_total), ("q", q_log_total)):
        if log_total == -np.inf:
            raise ValueError(
                f"{name} is zero on every row, so it is not a distribution. Give another model."
            )


def _times(log_theta: FloatArray, factor: float) -> FloatArray:
    """The log-parameters times a number; zero parameters, which no pair meets, become 1."""
    return factor * np.where(log_theta > -np.inf, log_theta, 0.0)
