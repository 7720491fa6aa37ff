from __future__ import annotations
import numpy as np
import numba
from strudel._types import NONE
from strudel.learning.growing import GrowingCircuit
from strudel.learning.growth import *
from strudel.learning.growth import ALIVE, N_NODES, N_EDGES, N_SPLITS, STAMP, SHRINKS, NO_HEAP, ROOT
from strudel.learning.clone import clone
from strudel.learning.gains import score_clones, score_splits, score_few_splits

LARGEST_TABLE = 2**22

def shrink(growing, strength):
    g = growing.growth
    g.size[SHRINKS] = 1
    g.strength[0] = strength
    nE = int(g.size[N_EDGES])
    g.edge["prior"][:nE] = 1.0 / g.node["width"][g.edge["parent"][:nE]]
    g.node["strength"][: g.size[N_NODES]] = growing.pseudocount
    refresh_all(g, growing.pseudocount)

class BestFirst:
    def __init__(self, growing, *, clones=True, splits=True, min_rows=20, decay=0.1, least=3.0, keep=0.0):
        self.keep = keep
        self.growing = growing
        g = growing.growth
        g.size[NO_HEAP] = 1
        self.clones, self.splits = clones, splits
        self.min_rows, self.decay, self.least = min_rows, decay, least
        n_rows = g.train_active.shape[1]
        weight = g.train_weight
        whole = bool(np.all(weight == np.round(weight))) and weight.sum() < LARGEST_TABLE
        x = np.arange(int(weight.sum()) + 1 if whole else 0, dtype=float)
        self.table = x * np.log(np.maximum(x, 1.0))
        size = 1 << int(np.ceil(np.log2(2 * n_rows + 16)))
        self.keys = np.full(size, NONE, dtype=np.int64)
        self.counts = np.zeros(size)
        self.slots = np.zeros(n_rows + 1, dtype=np.int64)
        self.contexts = np.zeros(n_rows + 1, dtype=np.int32)
        self.n_lanes = 4
        self.rows = np.zeros((self.n_lanes, n_rows), dtype=np.int32)
        self.log = []
        self.alloc()
        self.n_clones = self.n_split = 0
        self.level = np.inf
        self.rescore()

    def alloc(self):
        g = self.growing.growth
        nN, nE = len(g.node), len(g.edge)
        def grow(name, n, dtype, fill):
            old = getattr(self, name, None)
            if old is None or len(old) < n:
                new = np.full(n, fill, dtype=dtype)
                if old is not None:
                    new[: len(old)] = old
                setattr(self, name, new)
        grow("gain", nE, np.float64, 0.0)
        grow("occupied", nE, np.int32, 0)
        grow("target", nE, np.int32, 0)
        grow("edge_score", nE, np.float64, -np.inf)
        grow("edge_place", nE, np.int32, -1)
        grow("edge_stamp", nE, np.int64, -1)
        grow("node_score", nN, np.float64, -np.inf)
        grow("node_edge", nN, np.int32, -1)
        grow("node_stamp", nN, np.int64, -1)
        if getattr(self, "local", None) is None or self.local.shape[1] < nE:
            self.local = np.full((self.n_lanes, nE), NONE, dtype=np.int32)

    def rescore(self, top=-np.inf):
        growing = self.growing
        g = growing.growth
        self.is_new = True
        if self.clones:
            self.node_score[:] = -np.inf
            g.size[STAMP] += 1
            g.node["stamp"][: g.size[N_NODES]] = g.size[STAMP]
            for v in range(len(g.vtree)):
                self.score_clones(v, g.size[STAMP])
            self.node_stamp[: g.size[N_NODES]] = growing.n_splits
        if self.splits:
            c = growing.candidates()
            if top > -np.inf:
                c = c[self.edge_score[c] > self.keep * top]
            self.score_splits(c)
        self.is_new = True

    def score_clones(self, v, stamp):
        score_clones(self.growing.growth, v, stamp, self.table, self.gain, self.occupied, self.target, self.contexts, self.keys, self.counts, self.slots, self.node_score, self.node_edge)

    def score_splits(self, edges):
        g = self.growing.growth
        self.edge_score[edges] = -np.inf
        edges = edges[g.edge["is_candidate"][edges] & (g.edge["train"][edges] >= self.min_rows)].astype(np.int32)
        if len(edges):
            edges = edges[np.argsort(-g.edge["train"][edges], kind="stable")]
            (score_splits if self.is_new else score_few_splits)(g, edges, self.table, self.least, self.local, self.rows, self.edge_score, self.edge_place)
            self.edge_stamp[edges] = self.growing.n_splits

    def step(self):
        growing = self.growing
        g = growing.growth
        nE, nN = int(g.size[N_EDGES]), int(g.size[N_NODES])
        while True:
            i = int(np.argmax(self.node_score[:nN])) if self.clones else 0
            sc = self.node_score[i] if self.clones else -np.inf
            j = int(np.argmax(self.edge_score[:nE])) if self.splits else 0
            ss = self.edge_score[j] if self.splits else -np.inf
            top = max(sc, ss)
            if self.is_new:
                self.level, self.is_new = top, False
            elif top < self.decay * self.level:
                self.rescore(top)
                continue
            if top <= 0.1:
                return False
            if sc >= ss:
                if g.node["uses"][i] < 1:
                    self.node_score[i] = -np.inf
                    continue
                if self.node_stamp[i] != growing.n_splits:
                    g.size[STAMP] += 1
                    g.node["stamp"][i] = g.size[STAMP]
                    self.node_score[i] = -np.inf
                    self.score_clones(int(g.node["vtree"][i]), g.size[STAMP])
                    self.node_stamp[i] = growing.n_splits
                    continue
                self.last = sc
                self.do_clone(i, int(self.node_edge[i]))
                return True
            if g.edge["death"][j] != ALIVE:
                self.edge_score[j] = -np.inf
                continue
            if self.edge_stamp[j] != growing.n_splits:
                self.score_splits(np.array([j]))
                continue
            self.last = ss
            self.do_split(j, int(self.edge_place[j]))
            return True

    def do_clone(self, n, edge):
        growing = self.growing
        nE0, nN0 = int(growing.growth.size[N_EDGES]), int(growing.growth.size[N_NODES])
        do_clone(growing, edge, n)
        self.log.append((1, edge, n))
        self.alloc()
        self.n_clones += 1
        self.after(nN0, nE0, [n], edge)

    def do_split(self, e, place):
        growing = self.growing
        nE0, nN0 = int(growing.growth.size[N_EDGES]), int(growing.growth.size[N_NODES])
        growing.split(e, place)
        self.log.append((0, e, place))
        g = growing.growth
        self.alloc()
        self.n_split += 1
        self.after(nN0, nE0, None, e)

    def after(self, nN0, nE0, nodes, edge):
        growing = self.growing
        g = growing.growth
        nE, nN = int(g.size[N_EDGES]), int(g.size[N_NODES])
        new_e = np.arange(nE0, nE)
        if self.clones:
            stamp_touched = np.unique(np.concatenate([np.arange(nN0, nN), g.edge["left"][new_e], g.edge["right"][new_e][g.edge["right"][new_e] != NONE]]))
            if nodes is not None:
                stamp_touched = np.unique(np.concatenate([stamp_touched, nodes]))
            else:
                st = g.size[STAMP]
                stamp_touched = np.unique(np.concatenate([stamp_touched, np.flatnonzero(g.node["stamp"][:nN] == st)]))
            g.size[STAMP] += 1
            todo = list(stamp_touched)
            seen = set(int(t) for t in todo)
            k = 0
            while k < len(todo):
                n = int(todo[k]); k += 1
                if g.node["width"][n] == 1:
                    f = g.node["first"][n]
                    for ch in (g.edge["left"][f], g.edge["right"][f]):
                        if ch != NONE and int(ch) not in seen:
                            seen.add(int(ch)); todo.append(int(ch))
            arr = np.array(todo)
            arr = arr[g.node["width"][arr] > 1]
            self.node_score[arr] = -np.inf
            g.node["stamp"][arr] = g.size[STAMP]
            self.node_stamp[arr] = growing.n_splits
            for v in np.unique(g.node["vtree"][arr]):
                self.score_clones(int(v), g.size[STAMP])
        if self.splits:
            self.score_splits(new_e)


def do_clone(growing, edge, n):
    growing.rows_moved = 0
    while clone(growing.growth, edge, n, growing.pseudocount) == NONE:
        growing._double()


def replay(growing, log):
    """yield after each op"""
    growing.growth.size[NO_HEAP] = 1
    for kind, e, x in log:
        if kind == 1:
            do_clone(growing, e, x)
        else:
            growing.split(e, x)
        yield growing
