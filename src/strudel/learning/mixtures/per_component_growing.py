"""The components of a mixture that own their structure, while they grow.

In:  a first circuit, the rows, and after every EM step their weights in every component.
Out: `GrowingComponents`: splits where most weight is, and any component as it was earlier.
"""

from __future__ import annotations

import numpy as np

from strudel._types import FloatArray
from strudel.circuits.circuit import Circuit
from strudel.data.bits import BitMatrix
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import N_EDGES
from strudel.learning.mixtures.per_component_parts import Part, Structure
from strudel.learning.search.greedy import VariablePicker, pick_edge
from strudel.learning.search_options import Greedy, SearchOptions


class GrowingComponents:
    """The components while they grow, each with the flows of all rows."""

    def __init__(
        self,
        first: Circuit,
        train: BitMatrix,
        valid: BitMatrix,
        n_components: int,
        search: SearchOptions,
        rng: np.random.Generator,
    ) -> None:
        self.search, self.rng = search, rng
        self.greedy: Greedy = search.search
        self.circuits = [
            GrowingCircuit(first, train, valid, copy_depth=self.greedy.copy_depth)
            for _ in range(n_components)
        ]
        for one in self.circuits:  # weights of its own, to be changed
            one.growth = one.growth._replace(train_weight=one.growth.train_weight.copy())
        self._pickers = [self._picker(one) for one in self.circuits]

    def _picker(self, growing: GrowingCircuit) -> VariablePicker:
        return VariablePicker(growing, self.greedy.variable_score, self.search.alpha)

    @property
    def n_splits(self) -> int:
        """Number of splits of all components."""
        return sum(self.splits())

    @property
    def n_edges(self) -> int:
        """Number of edges of all components."""
        return sum(one.n_edges for one in self.circuits)

    def splits(self) -> tuple[int, ...]:
        """Number of splits of every component."""
        return tuple(one.n_splits for one in self.circuits)

    def structures(self) -> list[Structure]:
        """The structures as they are now."""
        return [Structure.of_growing(one) for one in self.circuits]

    def counts(self) -> list[FloatArray]:
        """The weight through every edge, for the weights of the last time."""
        return [
            one.growth.edge["train"][: one.growth.size[N_EDGES]].copy() for one in self.circuits
        ]

    def reweight(self, weights: list[FloatArray], counts: list[FloatArray]) -> None:
        """Let rows count as an EM step says, with these weights through the edges."""
        for c, one in enumerate(self.circuits):
            growth, weight = one.growth, weights[c]
            if not np.array_equal(growth.train_weight, weight):
                growth.train_weight[:] = weight
                growth.edge["train"][: len(counts[c])] = counts[c]
                one.queue_all()
                self._pickers[c] = self._picker(one)

    def split(self, n_splits: int) -> int:
        """Split this many edges, those with most weight in any component; returns how many."""
        score, rule = self.greedy.edge_score, self.greedy.tie_rule
        for done in range(n_splits):
            edges = [pick_edge(one, score, self.rng, rule) for one in self.circuits]
            possible = [c for c, edge in enumerate(edges) if edge is not None]
            if not possible:
                return done
            if score == "random":
                chosen = int(self.rng.choice(possible))
            else:
                chosen = max(
                    possible, key=lambda c: self.circuits[c].growth.edge["train"][edges[c]]
                )
            edge = edges[chosen]
            assert edge is not None
            self.circuits[chosen].split(edge, self._pickers[chosen].pick(edge, self.rng))
        return n_splits

    def part_at(self, c: int, n_splits: int, count: FloatArray, prior: FloatArray) -> Part:
        """Component `c` after this many splits, with what edges had at that time."""
        growing = self.circuits[c]
        number = np.arange(growing.growth.size[N_EDGES], dtype=np.float64)
        circuit = growing.snapshot(n_splits, number)  # parameters say which edge each was
        was = circuit.edge_log_theta.astype(np.int64)
        return Part(circuit, count[was], prior[was])
