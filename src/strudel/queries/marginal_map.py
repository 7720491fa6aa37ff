"""Marginal MAP: the most probable state of some variables, the others summed out.

In:  a `Circuit`, the variables in question, and what is given.
Out: `MarginalMap`, a state with its probability, and a proven bound for all other states.

A `Relaxation` bounds all states at once. Where open variables decide every choice above the others, its bound is
the answer. Otherwise the search branches: always from the assignment with the largest bound, on whichever of four
variables lowers the bounds most, eight assignments side by side. Before it starts, edges that no better state can
use are cut out of the circuit, which lowers all bounds (Choi, Friedman and Van den Broeck 2022).
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.properties import check_in_normal_form
from strudel.circuits.scopes import BoolArray
from strudel.data.validation import check_evidence
from strudel.queries.marginal import raise_if_impossible
from strudel.queries.model import circuit_of
from strudel.queries.passes import UNKNOWN, decode, encode, literal_probabilities, log_probabilities
from strudel.queries.relaxation import RelaxationPass, find_decided, live_edges, relax

GAP = 1e-11  # relative; bounds and probabilities differ that much by rounding
N_TRIED = 4  # variables tried before branching on one: with two values each, one block of rows
N_POPPED = 4  # assignments at a time
IMPROVEMENT = 0.9  # cut edges again while that leaves less than this share of them


class MarginalMap(NamedTuple):
    """The best state found, and how good any other could be."""

    state: dict[Any, int]  # the value of every query variable, under the name it was asked by
    log_probability: float  # log p(state, given)
    upper_bound: float  # no state has a larger log-probability
    is_optimal: bool  # whether the two are equal
    n_branches: int  # assignments that had to be split in two


def marginal_map(
    model: Circuit,
    query: Any,
    given: Any = None,
    *,
    max_seconds: float | None = None,
    max_nodes: int | None = None,
) -> MarginalMap:
    """The most probable state of some variables, with the rest summed out."""
    circuit = circuit_of(model)
    check_in_normal_form(circuit, "marginal_map")
    names, variables = _query_variables(circuit, query)
    codes = encode(_one_row(circuit, given))
    log_given = log_probabilities(circuit, decode(codes), "marginal_map")
    raise_if_impossible(log_given)
    open_vars = np.array([var for var in variables if codes[0, var] == UNKNOWN], dtype=np.int64)
    search = _Search(circuit, open_vars, codes[0])
    search.run(max_seconds, max_nodes)
    state = search.best_state
    return MarginalMap(
        {name: int(state[var]) for name, var in zip(names, variables, strict=True)},
        search.best,
        search.upper_bound,
        search.upper_bound <= search.best,
        search.n_branches,
    )


def _query_variables(circuit, query):
    names = [query] if isinstance(query, str | int | np.integer) else list(query)
    fn = circuit.feature_names or tuple(f"x{v}" for v in range(circuit.n_vars))
    return names, [fn.index(n) if isinstance(n, str) else int(n) for n in names]


def _one_row(circuit, given):
    if given is None:
        return np.full((1, circuit.n_vars), np.nan)
    return check_evidence(
        given, n_vars=circuit.n_vars, feature_names=circuit.feature_names, name="given"
    )


class _Search:
    def __init__(self, circuit: Circuit, open_vars: AnyArray, codes: AnyArray) -> None:
        self.circuit = circuit
        self.open_vars = open_vars
        self.codes = codes.copy()
        self.best = -np.inf
        self.best_state = codes
        self.upper_bound = np.inf
        self.n_branches = 0
        self.edge_counts = np.ones(circuit.n_edges, dtype=np.bool_)
        is_hidden = codes == UNKNOWN
        is_hidden[open_vars] = False
        self.is_decided = find_decided(circuit, np.flatnonzero(is_hidden))
        self.log = {}

    def rebuild(self):
        t = time.perf_counter()
        is_live, is_reached = live_edges(self.circuit, self.codes, self.edge_counts)
        if not is_reached[self.circuit.root]:
            return False
        for var in self.open_vars[self.codes[self.open_vars] == UNKNOWN]:
            if not is_reached[2 * var + 1]:
                self.codes[var] = 0
            elif not is_reached[2 * var]:
                self.codes[var] = 1
        self.open_vars = self.open_vars[self.codes[self.open_vars] == UNKNOWN]
        self.n_live = int(is_live.sum())
        self.relaxation = relax(self.circuit, self.open_vars, is_live, is_reached, self.is_decided)
        self.passes = RelaxationPass(self.relaxation)
        self.t_rebuild = time.perf_counter() - t
        return True

    def value(self, states):
        log_p, _, is_rough = self.passes.bounds(states)
        if is_rough.any():
            log_p[is_rough] = log_probabilities(
                self.circuit, decode(states[is_rough]), "marginal_map"
            )
        i = int(np.argmax(log_p))
        if log_p[i] > self.best:
            self.best, self.best_state = float(log_p[i]), states[i].copy()
        return log_p

    @property
    def enough(self):
        return self.best + GAP

    def run(self, max_seconds=None, max_nodes=None, verbose=False):
        t0 = time.perf_counter()
        self.rebuild()
        log_bound, states, _ = self.passes.bounds(self.codes[None])
        self.upper_bound = float(log_bound[0])
        self.value(states)
        if verbose:
            print(
                f"root {self.upper_bound:.4f} first {self.best:.4f} live {self.n_live} relax edges {len(self.relaxation.edge_left)} nodes {len(self.relaxation.node_is_max)} rebuild {self.t_rebuild:.3f}"
            )
        if self.upper_bound <= self.enough:
            return self.finish()
        self.improve()
        if verbose:
            print(f"  improved {self.best:.4f} {time.perf_counter() - t0:.3f}")
        # cut
        while True:
            before = self.n_live
            log_bound, edge_bound = self.passes.edge_bounds(self.codes)
            r = self.relaxation
            cut = r.edge_source[(edge_bound <= self.enough) & (r.edge_source != -1)]
            self.edge_counts[cut] = False
            if not self.rebuild():
                self.upper_bound = self.best
                return self.finish()
            log_bound, states, _ = self.passes.bounds(self.codes[None])
            self.upper_bound = max(self.best, float(log_bound[0]))
            self.value(states)
            if verbose:
                print(
                    f"  cut: bound {self.upper_bound:.4f} best {self.best:.4f} live {self.n_live} open {len(self.open_vars)} {time.perf_counter() - t0:.3f}"
                )
            if self.upper_bound <= self.enough:
                return self.finish()
            if self.n_live > IMPROVEMENT * before:
                break
        self.branch(t0, max_seconds, max_nodes, verbose)
        self.finish()

    def finish(self):
        self.best = float(
            log_probabilities(self.circuit, decode(self.best_state[None]), "marginal_map")[0]
        )
        if self.upper_bound <= self.enough:
            self.upper_bound = self.best

    def improve(self):
        codes = self.codes.copy()
        open_ = list(self.open_vars)
        while open_:
            _, ones = literal_probabilities(self.circuit, codes[None], "marginal_map")
            p = ones[0, open_]
            sure = np.abs(p - 0.5)
            n = max(1, len(open_) // 8)
            for i in np.argsort(-sure, kind="stable")[:n]:
                codes[open_[i]] = int(p[i] >= 0.5)
            open_ = [v for v in open_ if codes[v] == UNKNOWN]
        self.value(codes[None])
        while True:
            rows = np.repeat(self.best_state[None], len(self.open_vars), axis=0)
            rows[np.arange(len(rows)), self.open_vars] ^= 1
            before = self.best
            self.value(rows)
            if self.best <= before + GAP:
                return

    def branch(self, t0, max_seconds, max_nodes, verbose):
        heap = [(-self.upper_bound, 0, self.codes)]
        order = 1
        impact = np.full(self.circuit.n_vars, np.inf)
        seen = set()
        last = time.perf_counter()
        while heap and -heap[0][0] > self.enough:
            self.upper_bound = -heap[0][0]
            if (max_seconds is not None and time.perf_counter() - t0 > max_seconds) or (
                max_nodes is not None and self.n_branches >= max_nodes
            ):
                return
            if verbose and time.perf_counter() - last > 2:
                last = time.perf_counter()
                print(
                    f"   {last - t0:.1f} s branches {self.n_branches} heap {len(heap)} ub {self.upper_bound:.4f} best {self.best:.4f}"
                )
            popped = []
            while heap and len(popped) < N_POPPED and -heap[0][0] > self.enough:
                popped.append(heapq.heappop(heap))
            tried, rows, owner = [], [], []
            for bound, _, codes in popped:
                free = self.open_vars[codes[self.open_vars] == UNKNOWN]
                n_tried = len(free) if np.isinf(impact[free]).any() else N_TRIED
                vs = free[np.argsort(-impact[free], kind="stable")[:n_tried]]
                tried.append(vs)
                for v in vs:
                    for x in (0, 1):
                        row = codes.copy()
                        row[v] = x
                        rows.append(row)
            rows = np.array(rows)
            bounds, states, _ = self.passes.bounds(rows)
            new = []
            for s in states:
                key = s.tobytes()
                if key not in seen:
                    seen.add(key)
                    new.append(s)
            if new:
                self.value(np.array(new))
            at = 0
            for (bound, _, codes), vs in zip(popped, tried):
                b = bounds[at : at + 2 * len(vs)].reshape(-1, 2)
                row = rows[at : at + 2 * len(vs)].reshape(len(vs), 2, -1)
                at += 2 * len(vs)
                bound = -bound
                b = np.minimum(b, bound)
                drop = bound - np.maximum(b, bound - 50)
                gain = drop.sum(axis=1) + 3 * drop.min(axis=1)
                old = impact[vs]
                impact[vs] = np.where(np.isinf(old), gain, 0.7 * old + 0.3 * gain)
                dead = b <= self.enough
                if dead.all(axis=1).any():
                    self.n_branches += 1
                    continue
                forced = np.flatnonzero(dead.any(axis=1))
                if len(forced):
                    c = codes.copy()
                    for i in forced:
                        c[vs[i]] = 0 if dead[i, 1] else 1
                    nb = min(bound, b[forced].max(axis=1).min())
                    if not (c[self.open_vars] == UNKNOWN).any():
                        self.value(c[None])
                    else:
                        heapq.heappush(heap, (-nb, order, c))
                        order += 1
                    continue
                i = int(np.argmax(gain))
                self.n_branches += 1
                for x in (0, 1):
                    if (row[i, x][self.open_vars] == UNKNOWN).any():
                        heapq.heappush(heap, (-b[i, x], order, row[i, x].copy()))
                        order += 1
        self.upper_bound = max(self.best, -heap[0][0] if heap else self.best)
