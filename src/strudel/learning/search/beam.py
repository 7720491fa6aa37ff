"""Beam search: keep the best few circuits after every step instead of one.

In:  a way to make the first `GrowingCircuit`, options, and the history to write.
Out: the growing circuit of the best member that ever was in the beam.

All members share one table (`circuits_on_one_table.py`): a member costs what it differs in from the
others. They are visited in the order of a walk around the tree of splits, back and forth, so that a
step walks along every branch at most once.

Most splits to be tried were also tried on the parent. Where the split between the two changed none
of the nodes they depend on, they change the likelihoods as they did there, and are not tried again.

Dang, Vergari, Van den Broeck: Strudel: A fast and accurate learner of structured-decomposable
probabilistic circuits. International Journal of Approximate Reasoning 140 (2022).
"""

from __future__ import annotations

from collections.abc import Callable
from math import isclose, isinf

import numpy as np

from strudel._types import NONE
from strudel.algebra.divergences import kl_divergence
from strudel.circuits.builder import assemble
from strudel.circuits.circuit import Circuit
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import ALIVE, N_EDGES, N_NODES, ROOT
from strudel.learning.growing.operations import Operation, replay
from strudel.learning.history import History
from strudel.learning.parameters import log_parameters
from strudel.learning.search.circuits_on_one_table import ROUNDING, Member, SplitTree
from strudel.learning.search.greedy import VariablePicker
from strudel.learning.search.heaviest_edges import (
    first_entries,
    heaviest_after_split,
    heaviest_edges,
)
from strudel.learning.search_options import Beam, SearchOptions


def grow_beam(
    make: Callable[[], GrowingCircuit],
    search: SearchOptions,
    rng: np.random.Generator,
    history: History,
    on_split: Callable[[History], None] | None = None,
) -> tuple[GrowingCircuit, list[Operation]]:
    """Search with a beam; the history gets the path of the best member, then the later steps.

    `make` gives the growing circuit before the first split; `rng` is used by the random scores
    only. A step adds the row of the member with the best validation likelihood to the history,
    which is empty; without validation rows, of the first member. Returns the circuit that after
    ``history.best`` splits is the best one, and the splits that lead there.
    """
    beam = _Beam(make(), search, rng, history)
    is_whole = True
    try:
        while not history.is_finished(search):
            if not beam.step():
                history.stopped_because = "nothing left to split"
                break
            if on_split is not None:
                on_split(history)
    except KeyboardInterrupt:
        history.stopped_because = "interrupted"
        is_whole = False  # it may have been in the middle of a split
    best = beam.best
    history.follow([member.row for member in best.path()])
    operations = [Operation(member.edge, member.place) for member in best.path()[1:]]
    if is_whole and beam.tree.is_past(best):
        return beam.tree.growing, operations
    del beam  # its flows are as large as those to come
    try:
        return replay(make(), operations), operations
    except KeyboardInterrupt:  # the search is over: finish what it found
        history.stopped_because = "interrupted"
        return replay(make(), operations), operations


class _Beam:
    """The members after every step, best first."""

    def __init__(
        self,
        growing: GrowingCircuit,
        search: SearchOptions,
        rng: np.random.Generator,
        history: History,
    ) -> None:
        self.search = search
        self.beam: Beam = search.search
        self.rng = rng
        self.history = history
        self.variables = VariablePicker(growing, self.beam.variable_score, search.alpha)
        self.tree = SplitTree(growing, history)
        first = self.tree.here
        first.use()
        self.members = [first]
        self.walk = [first]  # the same, in the order of visits
        self.reported = [first]  # one per row of the history
        history.add_row(first.row)

    @property
    def best(self) -> Member:
        """The best member that ever was."""
        return self.reported[self.history.best]

    def step(self) -> bool:
        """Split every member at its best edges, and keep the best of what comes out."""
        children = {id(member): self._try(member) for member in self.walk}
        ranked = [child for member in self.members for child in children[id(member)]]
        for member in self.members:
            member.decisive_nodes = None
            if member.parent is not None:
                member.parent.close()
        if not ranked:
            return False
        score = History.COLUMNS.index(self.beam.selection)
        ranked = _sorted([child.row[score] for child in ranked], ranked)
        before, self.members = self.members, self._keep(ranked)
        for member in self.members:
            member.use()
        for member in before:
            member.release()
        # Back the way it came, from where it is now: a walk around the tree again.
        visit = {id(member): k for k, member in enumerate(self.walk)}
        self.walk = sorted(
            self.members, key=lambda child: (-visit[id(child.parent)], child is not self.tree.here)
        )
        self.tree.forget_before(self.walk)

        latest = self.members[0]
        for member in self.members[1:]:
            is_equal = isclose(member.valid, latest.valid, rel_tol=ROUNDING)
            if member.valid > latest.valid and not is_equal:
                latest = member
        self.reported.append(latest)
        self.history.add_row(latest.row)
        return True

    def _try(self, member: Member) -> list[Member]:
        """Try the splits of a member: its children, best-scored edge first."""
        self.tree.go_to(member)
        member.tried = {
            edge: self._like_before(member, edge, place) or member.child(edge, place)
            for edge, place in self._splits(member)
        }
        children = list(member.tried.values())
        for child in reversed(children):  # the first is the likeliest to stay: end there
            if not child.row:
                self.tree.go_to(child)
        return children

    def _like_before(self, member: Member, edge: int, place: int) -> Member | None:
        """The child that a split makes, if it does the same as on the parent."""
        if member.parent is None or edge not in member.parent.tried:
            return None
        twin = member.parent.tried[edge]
        is_finite = not (isinf(member.valid) or isinf(twin.valid) or isinf(member.parent.valid))
        assert twin.decisive_nodes is not None
        if (
            twin.place != place
            or not is_finite
            or self.tree.splits.changed_any(twin.decisive_nodes)
        ):
            return None
        return member.child_like(twin, self.history.elapsed)

    def _splits(self, member: Member) -> list[tuple[int, int]]:
        """The edges to split and the variables to split them on, for the current member."""
        growing, width = self.tree.growing, self.beam.width
        splits: list[tuple[int, int]] = []
        if self.beam.edge_score == "random":
            candidates = growing.candidates()
            while len(splits) < width and len(candidates):
                edge = int(self.rng.choice(candidates))
                splits.append((edge, self.variables.pick(edge, self.rng)))
                candidates = candidates[candidates != edge]
            return splits
        above = None if member.parent is None else member.parent.heaviest
        if above is not None and self.tree.splits.is_fresh:
            member.heaviest = heaviest_after_split(above, growing, width)
        else:
            member.heaviest = heaviest_edges(growing, width)
        entries = member.heaviest.entries
        for k in first_entries(growing, member.heaviest, width, self.beam.tie_rule):
            edge, place = int(entries["edge"][k]), int(entries["place"][k])
            if place == NONE or self.beam.variable_score == "random":
                place = self.variables.pick(edge, self.rng)
                entries["place"][k] = place
            splits.append((edge, place))
        return splits

    def _keep(self, ranked: list[Member]) -> list[Member]:
        """The first members of all that differ from those before them."""
        kept: list[Member] = []
        circuits: list[Circuit] = []
        for child in ranked:
            if any(child.is_like(other) for other in kept):
                continue
            if self.beam.kl_threshold is not None:
                self.tree.go_to(child)
                circuit = _circuit(self.tree.growing)
                threshold = self.beam.kl_threshold
                if any(kl_divergence(other, circuit) < threshold for other in circuits):
                    continue
                circuits.append(circuit)
            kept.append(child)
            if len(kept) == self.beam.width:
                break
        return kept


def _sorted(scores: list[float], members: list[Member]) -> list[Member]:
    """Largest score first; those that are equal up to rounding stay in order."""
    order = sorted(range(len(members)), key=lambda k: -scores[k])
    level = [0] * len(members)
    for k, last in zip(order[1:], order[:-1], strict=True):
        level[k] = level[last] + (not isclose(scores[k], scores[last], rel_tol=ROUNDING))
    return [members[k] for k in sorted(range(len(members)), key=lambda k: level[k])]


def _circuit(growing: GrowingCircuit) -> Circuit:
    """The circuit as it is now, with its parameters, from the counts that are there."""
    g = growing.growth
    edges = np.flatnonzero(g.edge["death"][: g.size[N_EDGES]] == ALIVE)
    counted = assemble(
        growing.vtree,
        g.node["vtree"][: g.size[N_NODES]].copy(),
        g.edge["parent"][edges],
        g.edge["left"][edges],
        g.edge["right"][edges],
        g.edge["train"][edges],  # sorted along with the edges
        root=int(g.size[ROOT]),
    )
    log_theta = log_parameters(counted, counted.edge_log_theta, growing.pseudocount)
    return counted.with_parameters(log_theta)
