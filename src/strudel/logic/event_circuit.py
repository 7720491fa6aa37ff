"""An SDD as a circuit that is 1 on its rows and 0 on all others.

In:  an `Sdd`.
Out: a deterministic `Circuit` on its vtree in normal form with all parameters 1, or None for false.
"""

from __future__ import annotations

from strudel.circuits.circuit import Circuit
from strudel.circuits.normal_form import VtreeSums
from strudel.logic.sdd import FALSE, FIRST_LITERAL, TRUE, Sdd, reached_nodes


def event_circuit(sdd: Sdd) -> Circuit | None:
    """The circuit of an SDD, with what the SDD does not mention filled in.

    Examples
    --------
    >>> import numpy as np
    >>> from strudel import log_likelihood
    >>> from strudel.logic import compile_event
    >>> from strudel.trees import balanced_vtree
    >>> circuit = event_circuit(compile_event("x0 | x2", balanced_vtree(3)))
    >>> np.exp(log_likelihood(circuit, [[1, 0, 0], [0, 1, 0]]))
    array([1., 0.])
    """
    vtree, sums = sdd.vtree, VtreeSums(sdd.vtree)
    for v in range(vtree.n_nodes):  # first of all, so that they come first at every vtree node
        sums.true(v)
    made: dict[int, int] = {}  # nodes of the SDD that some row satisfies, but not all

    def is_possible(n: int) -> bool:
        return n == TRUE or n in made

    def node_at(n: int, v: int) -> int:
        """Node `n` of the SDD as a node for a vtree node above its own."""
        return sums.true(v) if n == TRUE else sums.lift(made[n], v)

    for n in reached_nodes(sdd).tolist():
        if n >= sdd.first_decision:
            v = int(sdd.node_vtree[n])
            left, right = sums.vtree_left[v], sums.vtree_right[v]
            edges = [
                (node_at(prime, left), node_at(sub, right), 0.0)
                for prime, sub in sdd.elements(n)
                if is_possible(prime) and is_possible(sub)
            ]
            if edges:
                made[n] = sums.add_at(v, edges)
        elif n not in (FALSE, TRUE):
            made[n] = n - FIRST_LITERAL
    return sums.build(node_at(sdd.root, vtree.root)) if is_possible(sdd.root) else None
