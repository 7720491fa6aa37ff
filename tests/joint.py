"""The table of all states of a small model, by enumeration, and what can be read off it.

Also the circuits and mixtures that the tests of every query share: special ones, and one that loses
digits.
"""

from __future__ import annotations

import functools
import math
import random
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

import oracle
from strategies import (
    circuits,
    mixed,
    mixtures,
    partly_observed_rows,
    random_mixture,
    split_circuit,
    sum_circuit,
)
from strudel.circuits.builder import CircuitBuilder
from strudel.circuits.compile import compile_factorized, figure_1_circuit
from strudel.learning.options import SearchOptions
from strudel.learning.search.learn_structure import learn_structure
from strudel.trees.vtree import Vtree, balanced_vtree, linear_vtree, random_vtree

NAN = math.nan
REL = 1e-10  # what every query promises


class Joint:
    """Probabilities of all states, as plain sums over a table."""

    def __init__(self, model):
        self.states = np.array(oracle.all_rows(model.vtree.n_vars))
        parts = [single(model, c) for c in range(model.n_components)]
        self.parts = np.array([oracle.probabilities(part) for part in parts])
        self.parts *= np.exp(model.log_weight)[:, np.newaxis]  # (n_components, n_states)
        self.p = self.parts.sum(axis=0)

    def responsibilities(self, row):
        """The probability of every component of a mixture given a row."""
        shares = self.parts[:, self.agrees(row)].sum(axis=1)
        return shares / shares.sum()

    def agrees(self, row):
        """Whether each state agrees with a partly observed row."""
        row = np.array(row, dtype=float)
        return np.all(np.isnan(row) | (self.states == row), axis=1)

    def probability(self, row):
        return math.fsum(self.p[self.agrees(row)])

    def given(self, row):
        """The probability of every state given a row; None if the row is impossible."""
        p = self.p * self.agrees(row)
        total = math.fsum(p)
        return p / total if total > 0 else None

    def possible(self, rows):
        return [row for row in rows if self.given(row) is not None]

    def pairs(self, row):
        return np.einsum("s,si,sj->ij", self.given(row), self.states, self.states)

    def counts(self, row, variables):
        n_ones = self.states[:, variables].sum(axis=1)
        return np.bincount(n_ones, self.given(row), minlength=len(variables) + 1)

    def entropy(self, row, variables):
        number = self.states[:, variables] @ (1 << np.arange(len(variables)))
        p = np.bincount(number, self.given(row))
        return -math.fsum(x * math.log(x) for x in p if x > 0)

    def information(self, row, a, b):
        parts = self.entropy(row, a), self.entropy(row, b), self.entropy(row, [*a, *b])
        return parts[0] + parts[1] - parts[2]

    def marginal_states(self, row, variables):
        """The probability of every state of some variables together with a row, by state."""
        total = {}
        for state, p in zip(self.states, self.p * self.agrees(row), strict=True):
            key = tuple(state[variables].tolist())
            total[key] = total.get(key, 0.0) + p
        return total

    def best(self, row, k):
        """The k best states that agree with a row and are possible, ties in the order of states."""
        p = self.p * (self.given(row) > 0)
        order = sorted(np.flatnonzero(p > 0), key=lambda s: (-round(math.log(p[s]), 9), s))
        return self.states[order[:k]], np.log(p[order[:k]])


def single(model, c):
    """One component, whatever its weight."""
    even = np.full(model.n_components, -np.log(model.n_components))
    return replace(model, log_weight=even).components([c])


def models(max_vars=7):
    """Deterministic and other circuits, of random shape."""
    return st.one_of(circuits(max_vars), circuits(max_vars, deterministic=False))


def mixture_models(max_vars=6):
    """Mixtures on deterministic and on other circuits, of random shape."""
    return st.one_of(mixtures(max_vars), mixtures(max_vars, deterministic=False))


@st.composite
def models_with_rows(draw, max_vars=7, max_rows=5, model=models):
    """A model, its table, and one or more partly observed rows that are possible."""
    found = draw(model(max_vars))
    rows = draw(st.lists(partly_observed_rows(found.vtree.n_vars), min_size=1, max_size=max_rows))
    joint = Joint(found)
    return found, joint, [*joint.possible(rows), [NAN] * found.vtree.n_vars]


@functools.cache
def special_circuits():
    """By name: learned, hand-built, one variable, zero parameters, all parameters equal."""
    fixed = CircuitBuilder(Vtree.from_nested(0))
    found = {
        "figure 1": figure_1_circuit(),
        "one variable": compile_factorized(Vtree.from_nested(0), [0.3]),
        "a literal": fixed.build(fixed.literal(0, 1)),
        "zeros": compile_factorized(balanced_vtree(5), [0.0, 1.0, 0.5, 0.0, 0.25]),
        "fair coins": compile_factorized(linear_vtree(6)),
    }
    for seed in range(4):
        found[f"learned {seed}"] = learned_circuit(seed)
    return found


@functools.cache
def special_mixtures():
    """By name: one variable, zeros, many components, learned, far apart, components without weight.

    Eight components go side by side, so that 3, 8, 13 and 20 differ in how they fill their lanes.
    """
    special, rng = special_circuits(), np.random.default_rng(0)
    found = {
        "figure 1": random_mixture(special["figure 1"], 3, rng),
        "one variable": random_mixture(special["one variable"], 4, rng),
        "a literal": mixed([special["a literal"]] * 2),
        "zeros": coins([[0.0, x, 1.0 - x, 0.5 * y, 0.25] for x in (0, 1) for y in range(3)]),
        "fair coins": random_mixture(special["fair coins"], 13, rng),
        "learned": random_mixture(special["learned 0"], 20, rng),
        "not deterministic": random_mixture(large_circuits(7)[1], 10, rng),
    }
    found["equal components"] = mixed([special["learned 1"]] * 5)
    found["no weight"] = with_weights(found["learned"], rng.random(20) * (np.arange(20) % 3 == 0))
    found["one left"] = with_weights(found["learned"], np.eye(20)[7])
    return found


@functools.cache
def special_joint(name):
    """The table of a special mixture."""
    return Joint(special_mixtures()[name])


def coins(thetas):
    """An even mixture of independent variables."""
    return mixed([compile_factorized(balanced_vtree(len(theta)), theta) for theta in thetas])


def with_weights(mixture, weights):
    """The same components with other weights, up to a factor."""
    with np.errstate(divide="ignore"):
        log_weight = np.log(weights / weights.sum())
    return replace(mixture, log_weight=log_weight)


def steep_mixture(n_steep=60, theta=1e-3):
    """`steep_circuit` with two others like it; given `steep_row` only the mild variables matter."""
    milder = steep_circuit(n_steep, 10.0 * theta)
    return mixed([milder, steep_circuit(n_steep, theta), milder], [0.25, 0.5, 0.25])


def learned_circuit(seed, n_vars=8, n_rows=120, n_splits=12):
    """A circuit learned from rows of two kinds."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, n_rows)
    X = (rng.random((n_rows, n_vars)) < rng.random((2, n_vars))[kind]).astype(np.uint8)
    circuit, _ = learn_structure(X, search=SearchOptions(max_splits=n_splits))
    return circuit


def large_circuits(n_vars=10):
    """A deterministic and another circuit of more variables than Hypothesis is given."""
    return [
        make(random_vtree(n_vars, seed), random.Random(seed), size=4)
        for seed, make in enumerate([split_circuit, sum_circuit])
    ]


def some_rows(joint, rng, n_rows=8, known=0.4):
    """Random partly observed rows that are possible."""
    states = joint.states[rng.choice(len(joint.p), size=n_rows, p=joint.p / joint.p.sum())]
    return np.where(rng.random(states.shape) < known, states, NAN)


def steep_circuit(n_steep=60, theta=1e-3):
    """Two nodes over the same variables whose values are far apart when all of those are 1.

    Variables: `n_steep` steep ones, two mild ones with P(1) = 0.3 and 0.9, then the switch and one
    more that depends on it. With the switch at 1 the steep variables are 1 with probability theta.
    """
    below = list(range(n_steep + 2))
    while len(below) > 1:
        below = [
            tuple(below[i : i + 2]) if i + 1 < len(below) else below[i]
            for i in range(0, len(below), 2)
        ]
    vtree = Vtree.from_nested((below[0], (n_steep + 2, n_steep + 3)))
    builder = CircuitBuilder(vtree)

    def product(thetas):
        made = {}
        for v in range(vtree.node_left[vtree.root] + 1):
            var = int(vtree.node_var[v])
            if var == -1:
                pair = made[int(vtree.node_left[v])], made[int(vtree.node_right[v])]
                made[v] = builder.add_sum([(*pair, 1.0)])
            elif var in thetas:
                made[v] = builder.add_leaf_sum(var, thetas[var])
        return made[int(vtree.node_left[vtree.root])]

    mild = {n_steep: 0.3, n_steep + 1: 0.9}
    steep = product(dict.fromkeys(range(n_steep), theta) | mild)
    flat = product(dict.fromkeys(range(n_steep), 0.5) | mild)
    switch, last = n_steep + 2, n_steep + 3
    on = builder.add_sum([(builder.literal(switch, 1), builder.add_leaf_sum(last, 0.2), 1.0)])
    off = builder.add_sum([(builder.literal(switch, 0), builder.add_leaf_sum(last, 0.6), 1.0)])
    return builder.build(builder.add_sum([(steep, on, 0.25), (flat, off, 0.75)]))


def steep_row(n_steep=60):
    """Evidence under which the two nodes of `steep_circuit` differ, and only the lesser counts."""
    return np.array([1.0] * n_steep + [NAN, NAN, 1.0, NAN])
