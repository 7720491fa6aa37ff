"""How two circuits on one vtree differ, in numbers.

In:  two circuits over the same columns, on one vtree.
Out: inner products, distances and divergences, exact.

Each is one pass over the pairs of nodes (`circuits.products`). Sums of products of powers go up in
logs. Expectations of logs under p, whose sums add up to 1, go up as they are. Mixtures take part
where the quantity is a sum over their components: products of p and q, and expectations under p.

Columns of numbers are compared by their cells, which meet where those of either circuit do. The
divergences compare distributions: a circuit that does not add up to 1 is normalised first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._numba import kernel
from strudel._types import AnyArray, FloatArray, IntArray, WordArray
from strudel.algebra.operands import need_single, two_circuits
from strudel.circuits.circuit import Circuit, Edges
from strudel.circuits.products import MAX_PAIRS, Pairs
from strudel.data.validation import slices

PRIME = np.uint64(2**31 - 1)  # of fingerprints: the product of two is below 2**62
N_PRINTS = 4
BLOCK_VALUES = 2**18  # values of pairs of components that go up together: 2 MB


def inner_product(p: Any, q: Any, *, log: bool = False, max_pairs: int = MAX_PAIRS) -> float:
    """The sum of ``p(x) q(x)`` over all rows: how probable it is that they draw the same one.

    Parameters
    ----------
    p, q : Circuit or fitted estimator
        Over the same columns, on one vtree.
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
    first, second = two_circuits(p, q, "inner_product")
    found = _log_inner_product(first, second, "inner_product", max_pairs)
    return found if log else float(np.exp(found))


def mean_squared_distance(
    p: Any, q: Any, *, log: bool = False, max_pairs: int = MAX_PAIRS
) -> float:
    """The mean of ``(p(x) - q(x)) ** 2`` over all rows: those of 0 and 1, or all cells of columns.

    Parameters
    ----------
    p, q : Circuit or fitted estimator
        Over the same columns, on one vtree.
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
    first, second = two_circuits(p, q, "mean_squared_distance")
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
    shift -= float(np.log([column.n_cells for column in first.columns]).sum())
    if log:
        return float(np.log(distance) + shift) if distance > 0.0 else -np.inf
    return float(distance * np.exp(shift))


def cauchy_schwarz_divergence(p: Any, q: Any, *, max_pairs: int = MAX_PAIRS) -> float:
    """The negative log of the cosine between two circuits, ``-log(<p, q> / sqrt(<p, p> <q, q>))``.

    Parameters
    ----------
    p, q : Circuit or fitted estimator
        Over the same columns, on one vtree. They need not be deterministic.
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
    first, second = two_circuits(p, q, query)
    _check_positive(first, second)
    mine = _log_inner_product(first, first, query, max_pairs)
    theirs = _log_inner_product(second, second, query, max_pairs)
    both = _log_inner_product(first, second, query, max_pairs)
    return max(0.0, (mine + theirs) / 2.0 - both)  # rounding may leave -1e-16


def cross_entropy(p: Any, q: Any, *, max_pairs: int = MAX_PAIRS) -> float:
    """The mean of ``-log q(x)`` over rows drawn from `p`, in nats.

    Parameters
    ----------
    p, q : Circuit or fitted estimator
        Over the same columns, on one vtree; `q` one deterministic circuit.
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
    first, second = two_circuits(p, q, "cross_entropy")
    need_single(second, "cross_entropy takes the log of q", "log")
    _check_positive(first, second)
    pairs = Pairs(first, second, max_pairs, "cross_entropy")
    if not is_covered(first, pairs):
        return np.inf
    q_edges, q_cells = -second.edge_log_theta[pairs.edge_q, 0], _less(second, pairs)
    means = [_expectation(first, c, pairs, q_edges, q_cells) for c in range(first.n_components)]
    return float(np.exp(first.log_weight) @ means)


def kl_divergence(p: Any, q: Any, *, max_pairs: int = MAX_PAIRS) -> float:
    """The Kullback-Leibler divergence, the mean of ``log p(x) - log q(x)`` over rows from `p`.

    Parameters
    ----------
    p, q : Circuit or fitted estimator
        Deterministic, over the same columns, on one vtree; not mixtures, whose logs do not split
        into those of their components.
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
    first, second, pairs = _two_single(p, q, "kl_divergence", "log", max_pairs)
    if not is_covered(first, pairs):
        return np.inf
    edges = first.edge_log_theta[pairs.edge_p, 0] - second.edge_log_theta[pairs.edge_q, 0]
    cells = _finite(first.leaf_log_p[pairs.cell_p, 0]) + _less(second, pairs)
    return max(0.0, _expectation(first, 0, pairs, edges, cells))  # rounding may leave -1e-16


def renyi_divergence(p: Any, q: Any, alpha: float, *, max_pairs: int = MAX_PAIRS) -> float:
    """The Renyi divergence, ``log(sum of p(x)**alpha q(x)**(1 - alpha)) / (alpha - 1)``.

    Parameters
    ----------
    p, q : Circuit or fitted estimator
        Deterministic, over the same columns, on one vtree; not mixtures, whose powers do not split
        into those of their components.
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
    first, second, pairs = _two_single(p, q, "renyi_divergence", "power", max_pairs)
    if not len(pairs) or (alpha > 1.0 and not is_covered(first, pairs)):
        return np.inf
    logs = [
        alpha * _finite(mine) + (1.0 - alpha) * _finite(theirs)
        for mine, theirs in (
            (first.edge_log_theta[pairs.edge_p], second.edge_log_theta[pairs.edge_q]),
            (first.leaf_log_p[pairs.cell_p], second.leaf_log_p[pairs.cell_q]),
        )
    ]
    cells = np.where(pairs.is_common[:, np.newaxis], logs[1], -np.inf)
    return max(0.0, float(pairs.log_values(logs[0], cells)[-1, 0]) / (alpha - 1.0))


def _two_single(
    p: Any, q: Any, query: str, function: str, max_pairs: int
) -> tuple[Circuit, Circuit, Pairs]:
    """Two deterministic circuits, and their pairs."""
    article = "the" if function == "log" else "a"
    first, second = two_circuits(p, q, query)
    for name, circuit in (("p", first), ("q", second)):
        need_single(circuit, f"{query} takes {article} {function} of {name}", function)
    _check_positive(first, second)
    return first, second, Pairs(first, second, max_pairs, query)


def _check_positive(p: Circuit, q: Circuit) -> None:
    for name, circuit in (("p", p), ("q", q)):
        if circuit.log_total == -np.inf:
            raise ValueError(
                f"{name} is zero on every row, so it is not a distribution. Give another model."
            )


def _finite(logs: FloatArray) -> FloatArray:
    """Logs, and 0 for parameters of zero, which no row takes."""
    return np.where(logs > -np.inf, logs, 0.0)


def _less(q: Circuit, pairs: Pairs) -> FloatArray:
    """Minus the logs of the cells of q."""
    return -_finite(q.leaf_log_p[pairs.cell_q, 0])


# Up the pairs


def _log_inner_product(p: Circuit, q: Circuit, query: str, max_pairs: int) -> float:
    """The log of the inner product: a sum over pairs of components, over one `Pairs`."""
    pairs = Pairs(p, q, max_pairs, query)
    if not len(pairs):
        return -np.inf
    k, m = p.n_components, q.n_components
    log_term = np.add.outer(p.log_weight, q.log_weight).ravel()
    size = len(pairs) + len(pairs.edge_p) + len(pairs.cell_p)
    for part in slices(k * m, max(1, BLOCK_VALUES // size)):
        mine, theirs = np.divmod(np.arange(part.start, part.stop), m)
        log_term[part] += pairs.log_values(
            p.edge_log_theta[:, mine][pairs.edge_p] + q.edge_log_theta[:, theirs][pairs.edge_q],
            p.leaf_log_p[:, mine][pairs.cell_p] + q.leaf_log_p[:, theirs][pairs.cell_q],
        )[-1]
    return float(np.logaddexp.reduce(log_term)) + p.log_total + q.log_total


def _expectation(
    p: Circuit, c: int, pairs: Pairs, edge_weight: FloatArray, cell_weight: FloatArray
) -> float:
    """The mean, over rows drawn from p, of the weights of the edges and cells of a row, added up.

    A node's mass is its total probability, at most 1 since the sums of p add up to 1; its mean is
    that of its rows, times its mass.
    """
    cells = np.where(pairs.is_common, np.exp(p.leaf_log_p[pairs.cell_p, c]), 0.0)
    both = np.empty((len(pairs), 2))
    both[pairs.leaves, 0] = np.add.reduceat(cells, pairs.leaf_first[:-1])
    both[pairs.leaves, 1] = np.add.reduceat(cells * cell_weight, pairs.leaf_first[:-1])
    theta = np.exp(p.edge_log_theta[:, c])[pairs.edge_p]
    edges = Edges(pairs.node_edges, pairs.edge_left, pairs.edge_right)
    _fill_means(edges, theta, edge_weight, both)
    return float(both[-1, 1])


@kernel
def _fill_means(edges: Edges, theta: FloatArray, weight: FloatArray, both: FloatArray) -> None:
    """Fill mass and mean of the sums, given those of the leaves."""
    node_edges, edge_left, edge_right = edges
    for n in range(len(both)):
        if node_edges[n] == node_edges[n + 1]:
            continue
        mass = mean = 0.0
        for e in range(node_edges[n], node_edges[n + 1]):
            left, right = edge_left[e], edge_right[e]
            below = both[left, 0] * both[right, 0]
            inside = both[left, 1] * both[right, 0] + both[left, 0] * both[right, 1]
            mass += theta[e] * below
            mean += theta[e] * (below * weight[e] + inside)
        both[n, 0], both[n, 1] = mass, mean


def is_covered(p: Circuit, pairs: Pairs) -> bool:
    """Whether q, which must be deterministic, is positive on every row where `p` is.

    A number cannot tell: the rows of p that q lacks may weigh 1e-20. So every edge and cell of p
    with positive weight gets random whole numbers instead, and p is added up twice modulo a prime,
    over all rows and over those that q also has. The two polynomials in these numbers differ if any
    row is lacking, and if they differ, so do their values for some of the four numbers, but by a
    chance of about 2**-80. Where that is so of all components together, each is asked by itself.
    """
    weights = np.random.default_rng(0).integers(
        1, PRIME, (p.n_edges + len(p.leaf_log_p), N_PRINTS), dtype=np.uint64
    )
    if _covers(p, pairs, weights, np.arange(p.n_components)):
        return True
    each = [np.array([c]) for c in range(p.n_components)]
    return len(each) > 1 and all(_covers(p, pairs, weights, one) for one in each)


def _covers(p: Circuit, pairs: Pairs, weights: WordArray, components: AnyArray) -> bool:
    is_edge: AnyArray = np.any(p.edge_log_theta[:, components] > -np.inf, axis=1)
    is_cell: AnyArray = np.any(p.leaf_log_p[:, components] > -np.inf, axis=1)
    edges = weights[: p.n_edges] * is_edge[:, np.newaxis]
    cells = weights[p.n_edges :] * is_cell[:, np.newaxis]
    own = Edges(p.node_edges, p.edge_left, p.edge_right)
    alone = _print(np.arange(p.n_leaves), p.leaf_first, own, cells, edges)
    if not len(pairs):
        return not any(alone)
    both = Edges(pairs.node_edges, pairs.edge_left, pairs.edge_right)
    common = cells[pairs.cell_p] * pairs.is_common[:, np.newaxis]
    return alone == _print(pairs.leaves, pairs.leaf_first, both, common, edges[pairs.edge_p])


def _print(
    leaves: AnyArray,
    leaf_first: IntArray,
    edges: Edges,
    cell_weight: WordArray,
    edge_weight: WordArray,
) -> list[int]:
    """The fingerprint of the last node."""
    print_of = np.zeros((len(edges.node_edges) - 1, N_PRINTS), dtype=np.uint64)
    print_of[leaves] = np.add.reduceat(cell_weight, leaf_first[:-1], axis=0) % PRIME
    _fill_prints(edges, edge_weight, print_of)
    found: list[int] = print_of[-1].tolist()
    return found


@kernel
def _fill_prints(edges: Edges, edge_weight: WordArray, print_of: WordArray) -> None:
    """Fill the prints of sums, given those of leaves."""
    for n in range(len(print_of)):
        for e in range(edges.node_edges[n], edges.node_edges[n + 1]):
            for i in range(N_PRINTS):
                left, right = print_of[edges.edge_left[e], i], print_of[edges.edge_right[e], i]
                below = left * right % PRIME
                print_of[n, i] = (print_of[n, i] + below * edge_weight[e, i]) % PRIME
