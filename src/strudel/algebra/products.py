"""Products, powers and quotients of circuits on one vtree, as circuits again.

In:  circuits or mixtures in normal form.
Out: a `Circuit` in normal form on the same vtree. Its sums add up to 1, except the root, which
     holds the total unless the result is normalised. A product of mixtures is a `Mixture`, with one
     component per pair of theirs on one structure.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._types import FloatArray
from strudel.algebra.normalize_weights import Structure, normalize_weights, zero_model
from strudel.algebra.operands import Columns, columns_of, need_single, one_model, two_models
from strudel.algebra.pairs import MAX_PAIRS, Pairs, find_pairs
from strudel.circuits.circuit import Circuit
from strudel.circuits.fingerprints import fingerprint_of_weights
from strudel.circuits.mixture import Mixture
from strudel.errors import SizeLimitError
from strudel.queries.model import Model

MAX_PARAMETERS = 2**27  # of a product of mixtures: 1 GB


def multiply(p: Any, q: Any, *, normalize: bool = False, max_pairs: int = MAX_PAIRS) -> Model:
    """The product ``p(x) q(x)`` as a circuit.

    Parameters
    ----------
    p, q : Circuit, Mixture or fitted estimator
        In normal form on one vtree.
    normalize : bool
        Whether the result adds up to 1. If not, it adds up to `inner_product(p, q)`, whose log is
        `log_marginal` of a row with no known value.
    max_pairs : int
        Limit on the pairs of nodes, and of edges, at about 60 bytes each.

    Returns
    -------
    Circuit or Mixture
        In normal form on the same vtree, with at most one edge per pair of edges; deterministic if
        both are. Of mixtures, a mixture with a component for each pair of components; where it does
        not add up to 1, its components do not.

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
    first, second = (columns_of(model) for model in two_models(p, q, "multiply"))
    pairs = find_pairs(first.structure, second.structure, "multiply", max_pairs)
    return _combine(
        first,
        second,
        pairs,
        normalize,
        "The product of p and q is zero everywhere, so it cannot be normalised: no row is possible "
        "under both.",
    )


def divide(p: Any, q: Any, *, normalize: bool = False, max_pairs: int = MAX_PAIRS) -> Model:
    """The quotient ``p(x) / q(x)`` as a circuit, zero where `p` is zero.

    Parameters
    ----------
    p, q : Circuit, Mixture or fitted estimator
        In normal form on one vtree; `q` one deterministic circuit.
    normalize : bool
        Whether the result adds up to 1.
    max_pairs : int
        Limit on the pairs of nodes, and of edges, at about 60 bytes each.

    Returns
    -------
    Circuit or Mixture
        In normal form on the same vtree; deterministic if `p` is, and a mixture if `p` is. Where
        both are zero, 0 / 0, it is zero.

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
    numerator, denominator = two_models(p, q, "divide")
    first = columns_of(numerator)
    second = columns_of(need_single(denominator, "divide inverts q", "inverse"))
    pairs = find_pairs(first.structure, second.structure, "divide", max_pairs)
    if not is_model_covered(numerator, first.structure, pairs):
        raise ValueError(
            "p cannot be divided by q: q is zero on a row where p is not. Where both are zero the "
            "quotient is zero; condition p on what is possible under q first."
        )
    return _combine(
        first,
        second._replace(edge_log_theta=-second.edge_log_theta),
        pairs,
        normalize,
        "The quotient is zero everywhere, as p is, so it cannot be normalised.",
    )


def power(p: Any, a: float, *, normalize: bool = False) -> Circuit:
    """The power ``p(x) ** a`` as a circuit, zero where `p` is zero.

    Parameters
    ----------
    p : Circuit or fitted estimator
        Deterministic and in normal form.
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
    >>> from strudel import most_probable_state
    >>> from strudel.circuits import figure_1_circuit
    >>> p = figure_1_circuit()
    >>> cold = power(p, 8, normalize=True)  # nearly all on the most probable state
    >>> [float(np.exp(most_probable_state(model)[1]).round(4)) for model in (p, cold)]
    [0.2592, 0.9617]
    """
    model = one_model(p, "power")
    if not np.isfinite(a):
        raise ValueError(f"a must be a finite number, but is {a}.")
    circuit = need_single(
        model,
        "power takes a power of p",
        "power",
        " For whole exponents, multiply it with itself.",
    )
    log_theta = circuit.edge_log_theta
    is_possible = log_theta > -np.inf
    scaled = np.where(is_possible, a * np.where(is_possible, log_theta, 0.0), -np.inf)
    if_zero = "p is zero everywhere, and so is its power, which cannot be normalised."
    return normalize_weights(
        Structure.of(circuit),
        scaled[:, np.newaxis],
        np.zeros(1),
        normalize=normalize,
        if_zero=if_zero,
    ).component(0)


def edge_weights(pairs: Pairs, p_log_weight: FloatArray, q_log_weight: FloatArray) -> FloatArray:
    """Log-weights of the edges of a product, from those of either circuit."""
    # A bare literal has weight 1; see `Pairs.edge_p`.
    weight: FloatArray = np.append(p_log_weight, 0.0)[pairs.edge_p]
    return weight + np.append(q_log_weight, 0.0)[pairs.edge_q]


def _combine(p: Columns, q: Columns, pairs: Pairs, normalize: bool, if_zero: str) -> Model:
    """The circuit or mixture over pairs with the weights of either side."""
    like = p.structure
    n_columns = len(p.log_weight) * len(q.log_weight)
    if len(pairs.pair_p) == 0:
        found = zero_model(like.vtree, like.feature_names, normalize, if_zero)
    elif n_columns * len(pairs.edge_p) > MAX_PARAMETERS:
        raise SizeLimitError(
            f"A product of {len(p.log_weight)} and {len(q.log_weight)} components has {n_columns} "
            f"of them with {len(pairs.edge_p)} edges each, more than {MAX_PARAMETERS} parameters "
            "in all.",
            "Multiply fewer components.",
            part="components",
        )
    else:
        columns = [
            edge_weights(pairs, mine, theirs)
            for mine in p.edge_log_theta.T
            for theirs in q.edge_log_theta.T
        ]
        found = normalize_weights(
            product_structure(like, pairs),
            np.stack(columns, axis=1),
            np.add.outer(p.log_weight, q.log_weight).ravel(),
            normalize=normalize,
            if_zero=if_zero,
        )
    return found.component(0) if n_columns == 1 else found


def product_structure(p: Circuit, pairs: Pairs) -> Structure:
    """The structure over pairs, with the names of `p`."""
    node_vtree = np.concatenate([p.node_vtree[: 2 * p.n_vars], p.node_vtree[pairs.pair_p]])
    return Structure(p.vtree, node_vtree, pairs.edges, p.feature_names)


def is_covered(p: Circuit, pairs: Pairs) -> bool:
    """Whether q, which must be deterministic, is positive on every row where `p` is.

    A number cannot tell: the rows of p that q lacks may weigh 1e-20. So every edge of p with
    positive weight gets a random whole number instead, and p is added up twice modulo a prime, over
    all rows and over those that q also has. The two polynomials in these numbers differ if any row
    is lacking, and if they differ, so do their values (`circuits/fingerprints.py`).
    """
    weight = np.random.default_rng(0).integers(1, 2**61 - 1, (p.n_edges + 1, 2), dtype=np.uint64)
    weight[:-1][p.edge_log_theta == -np.inf] = 0
    weight[-1] = 1  # of a bare literal
    alone = fingerprint_of_weights(p.edges, weight[:-1])
    if len(pairs.pair_p) == 0:
        return alone == (0, 0)
    return alone == fingerprint_of_weights(pairs.edges, weight[pairs.edge_p])


def is_model_covered(p: Model, structure: Circuit, pairs: Pairs) -> bool:
    """The same for a mixture on `structure`, which may be positive where no component is."""
    is_all = is_covered(structure, pairs)
    if is_all or not isinstance(p, Mixture):
        return is_all
    possible = np.flatnonzero(p.log_weight > -np.inf)
    columns = p.edge_log_theta[:, possible].T
    return all(is_covered(p.structure.with_parameters(column), pairs) for column in columns)
