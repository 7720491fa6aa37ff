"""An SDD as a circuit that is 1 on its rows and 0 on all others.

In:  an `Sdd`.
Out: a deterministic `Circuit` on its vtree in normal form with all parameters 1, or None for false.
"""

from __future__ import annotations

import numpy as np

from strudel._types import NONE
from strudel.circuits.builder import assemble
from strudel.circuits.circuit import Circuit
from strudel.logic.sdd import FALSE, FIRST_LITERAL, TRUE, Sdd, reached_nodes


def event_circuit(sdd: Sdd) -> Circuit | None:
    """The circuit of an SDD, with what the SDD does not mention filled in.

    Examples
    --------
    >>> from strudel import log_likelihood
    >>> from strudel.trees import balanced_vtree
    >>> from strudel.logic.event_compiler import compile_event
    >>> circuit = event_circuit(compile_event("x0 | x2", balanced_vtree(3)))
    >>> np.exp(log_likelihood(circuit, [[1, 0, 0], [0, 1, 0]]))
    array([1., 0.])
    """
    return _EventCircuit(sdd).build()


class _EventCircuit:
    def __init__(self, sdd: Sdd) -> None:
        self.sdd, vtree = sdd, sdd.vtree
        self.parent = vtree.node_parent.tolist()
        self.left, self.right = vtree.node_left.tolist(), vtree.node_right.tolist()
        self.node_vtree = np.repeat(vtree.var_leaf, 2).tolist()
        self.edges: list[tuple[int, int, int]] = []  # parent, left, right
        self.true: list[int] = []  # by vtree node: the sum that is 1 on every row
        for v, var in enumerate(vtree.node_var.tolist()):
            if var != NONE:
                pairs = [(2 * var + 1, NONE), (2 * var, NONE)]
            else:
                pairs = [(self.true[self.left[v]], self.true[self.right[v]])]
            self.true.append(self._add(v, pairs))
        self.lifted: dict[tuple[int, int], int] = {}

    def _add(self, v: int, pairs: list[tuple[int, int]]) -> int:
        node = len(self.node_vtree)
        self.node_vtree.append(v)
        self.edges += [(node, left, right) for left, right in pairs]
        return node

    def build(self) -> Circuit | None:
        sdd, vtree = self.sdd, self.sdd.vtree
        node = {FALSE: NONE, TRUE: NONE}
        for n in reached_nodes(sdd).tolist():
            if n in (FALSE, TRUE):
                continue
            if n < sdd.first_decision:
                node[n] = n - FIRST_LITERAL
                continue
            v = int(sdd.node_vtree[n])
            pairs = [
                (
                    self._at(prime, node[prime], self.left[v]),
                    self._at(sub, node[sub], self.right[v]),
                )
                for prime, sub in sdd.elements(n)
                if self._is_possible(prime, node) and self._is_possible(sub, node)
            ]
            node[n] = self._add(v, pairs) if pairs else NONE
        if not self._is_possible(sdd.root, node):
            return None
        root = self._at(sdd.root, node[sdd.root], vtree.root)
        if root < 2 * vtree.n_vars:  # a single variable: a root is a sum
            root = self._add(vtree.root, [(root, NONE)])
        edges = np.array(self.edges, dtype=np.int32)
        return assemble(
            vtree,
            np.array(self.node_vtree, dtype=np.int32),
            edge_parent=edges[:, 0],
            edge_left=edges[:, 1],
            edge_right=edges[:, 2],
            edge_log_theta=np.zeros(len(edges)),
            root=root,
        )

    @staticmethod
    def _is_possible(n: int, node: dict[int, int]) -> bool:
        return n == TRUE or node[n] != NONE

    def _at(self, n: int, made: int, v: int) -> int:
        """Node `n` of the SDD, made already, as a node for vtree node `v` above its own."""
        if n == TRUE:
            return self.true[v]
        current, below = made, self.node_vtree[made]
        while below != v:
            above = self.parent[below]
            if (made, above) not in self.lifted:
                is_left = self.left[above] == below
                other = self.true[self.right[above] if is_left else self.left[above]]
                pair = (current, other) if is_left else (other, current)
                self.lifted[made, above] = self._add(above, [pair])
            current, below = self.lifted[made, above], above
        return current
