"""Models given an event, as models again.

In:  a circuit or mixture in normal form, and an event.
Out: the model of the rows that satisfy the event, and how probable that was; the pairs of nodes of
     the model and the event that it is made of.

An event of a few conditions is a few cases that exclude each other (`event_cases`), which become a
circuit on the model's vtree without a compiler. All else is compiled to an SDD.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from strudel._names import names_of, places_of
from strudel._types import NONE, AnyArray, FloatArray
from strudel.algebra.event_cases import event_cases
from strudel.algebra.finer_cells import in_variables, with_finer_cells
from strudel.algebra.inner_bounds import bounds_of
from strudel.algebra.normalize_weights import Structure, mixture_of_weights
from strudel.algebra.operands import columns_of, need_deterministic, two_models
from strudel.algebra.pairs import MAX_PAIRS, Pairs, find_pairs
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.circuits.normal_form import VtreeSums
from strudel.circuits.passes import UNKNOWN
from strudel.circuits.properties import check_properties
from strudel.errors import SizeLimitError
from strudel.logic.event_compiler import compile_event, event_circuit
from strudel.logic.event_forms import as_event
from strudel.logic.events import Event
from strudel.logic.simple_events import SimpleEvent, simple_event
from strudel.queries.model import Model, structure_of

MAX_PARAMETERS = 2**27  # of a conditioned mixture: 1 GB
MAX_CASES = 512  # of an event that becomes a circuit without a compiler
MAX_EDGES = 2**16  # of that circuit


class GivenEvent(NamedTuple):
    """A model given an event."""

    model: Model
    log_probability: float  # of the event
    kept: AnyArray  # (n_components,) which components of the model are left


def given_event(
    model: Model, event: Event | Circuit, query: str, max_pairs: int = MAX_PAIRS
) -> GivenEvent | None:
    """The model given an event, with finer cells if the event has bounds inside cells.

    None if the event is impossible.
    """
    if isinstance(event, Event) and (bounds := bounds_of(event)):
        finer = with_finer_cells(model, bounds, query)
        model, event = finer, in_variables(event, model, finer)
    found = event_pairs(model, event, query, max_pairs)
    if found is None:
        return None
    made, log_p, kept = mixture_of_weights(
        product_structure(found.structure, found.pairs),
        found.weights(),
        columns_of(model).log_weight,
    )
    if made is None:
        return None
    if not isinstance(model, Mixture):
        return GivenEvent(made.component(0), log_p, kept)
    return GivenEvent(replace(made, known=model.known_by(kept)), log_p, kept)


class EventPairs(NamedTuple):
    """The pairs of nodes of a model and an event; None if no row of the event is possible."""

    structure: Circuit
    pairs: Pairs
    log_theta: FloatArray  # (n_edges of the model, n_components)

    def weights_of(self, c: int) -> FloatArray:
        """Log-weights of the edges of the pairs, under component c.

        Edges of the event that pairs meet have weight 1, and so has a bare literal of the model.
        """
        return np.append(self.log_theta[:, c], 0.0)[self.pairs.edge_p]

    def weights(self) -> FloatArray:
        """The same for all components, `(n_edges of the pairs, n_components)`."""
        n_edges, k = len(self.pairs.edge_p), self.log_theta.shape[1]
        if n_edges * k > MAX_PARAMETERS:
            raise SizeLimitError(
                f"{k} components with {n_edges} edges each are more than {MAX_PARAMETERS} "
                "parameters in all.",
                "Condition fewer components.",
                part="components",
            )
        return np.column_stack([self.weights_of(c) for c in range(k)])


def product_structure(p: Circuit, pairs: Pairs) -> Structure:
    """The structure over pairs, with the names of `p`."""
    node_vtree = np.concatenate([p.node_vtree[: 2 * p.n_vars], p.node_vtree[pairs.pair_p]])
    return Structure(p.vtree, node_vtree, pairs.edges, p.feature_names)


def simple_event_of(model: Model, event: Any) -> SimpleEvent | None:
    """The event as literals and a count, if it is no more than that."""
    if isinstance(event, Circuit):
        return None
    place = places_of(names_of(model.n_vars, model.feature_names))
    return simple_event(as_event(event, model.n_vars, model.feature_names), place)


def event_pairs(
    model: Model, event: Any, query: str, max_pairs: int, by_cases: bool = True
) -> EventPairs | None:
    """Find the pairs of a model and an event, once for all components.

    Not `by_cases` if it is known that there are too many.
    """
    check_properties(structure_of(model), query, "in_normal_form")
    found = _circuit_of(model, event, query, by_cases)
    if found is None:
        return None
    two_models(model, found, query)  # raises unless they share a vtree and names
    structure, log_theta, _ = columns_of(model)
    structure = structure.with_names(structure.feature_names or found.feature_names)
    pairs = find_pairs(structure, found, query, max_pairs)
    if len(pairs.pair_p) == 0:
        return None
    return EventPairs(structure, pairs, log_theta)


def _checked(event: Circuit, query: str) -> Circuit:
    """A circuit that someone gives for an event."""
    log_theta = event.edge_log_theta
    if np.any((log_theta != 0.0) & (log_theta != -np.inf)):
        raise ValueError(
            "A circuit given as an event must have only the parameters 0 and 1. Use multiply for "
            "any other circuit."
        )
    need_deterministic(event, f"{query} counts every row of an event once")
    return event


def _circuit_of(model: Model, event: Any, query: str, by_cases: bool = True) -> Circuit | None:
    """The circuit of an event on the vtree of a model; None if the event is impossible."""
    if isinstance(event, Circuit):
        return _checked(event, query)
    event = as_event(event, model.n_vars, model.feature_names)
    if by_cases and simple_event_of(model, event) is None:
        cases = event_cases(model, event)
        if cases is not None and not cases.bounds and len(cases.codes) <= MAX_CASES:
            sums = VtreeSums(model.vtree)
            root = _sum_of_cases(sums, cases.codes) if len(cases.codes) else NONE
            if root is not None:
                names = model.feature_names
                return None if root == NONE else sums.build(root).with_names(names)
    return event_circuit(compile_event(event, model.vtree, model.feature_names))


def _sum_of_cases(sums: VtreeSums, codes: AnyArray) -> int | None:
    """The root of a deterministic circuit of the rows that agree with a case; None if too large.

    What is below a vtree node decides which cases still agree; a node of the circuit stands for
    everything there that leaves the same ones, and nodes of different sets exclude each other.
    Sets that say the same elsewhere are not told apart: the first one found stands for all.
    """
    vtree = sums.vtree
    for v in range(vtree.n_nodes):  # first of all, so that they come first at every vtree node
        sums.true(v)
    everything = (1 << len(codes)) - 1
    first, last = vtree.node_span
    mentioned = np.flatnonzero((codes != UNKNOWN).any(axis=0))
    place = first[vtree.var_leaf[mentioned]]  # among the leaves
    labels: list[list[tuple[int, int]]] = []  # per vtree node: cases that agree, circuit node
    n_edges = 0
    for v in range(vtree.n_nodes):
        is_inside = (place >= first[v]) & (place < last[v])
        if not is_inside.any():
            labels.append([(everything, sums.true(v))])
            continue
        same = _same_elsewhere(codes[:, mentioned[~is_inside]])
        if vtree.node_left[v] == NONE:
            var = int(vtree.node_var[v])
            agree = [_bits(codes[:, var] != 1 - bit) for bit in (0, 1)]
            both = [(agree[bit], 2 * var + bit) for bit in (0, 1) if agree[bit]]
            is_open = _closed(agree[0], same) == _closed(agree[1], same)
            labels.append([(agree[0], sums.true(v))] if is_open else both)
            continue
        edges: dict[int, tuple[int, list[tuple[int, int, float]]]] = {}
        for left, left_node in labels[vtree.node_left[v]]:
            for right, right_node in labels[vtree.node_right[v]]:
                agreeing = left & right
                if agreeing:
                    own = edges.setdefault(_closed(agreeing, same), (agreeing, []))
                    own[1].append((left_node, right_node, 0.0))
                    n_edges += 1
        if n_edges > MAX_EDGES:
            return None
        labels.append([(agreeing, sums.add_at(v, own)) for agreeing, own in edges.values()])
    return labels[vtree.root][0][1] if labels[vtree.root] else NONE


def _bits(holds: AnyArray) -> int:
    """A set of cases as the bits of a number."""
    return sum(1 << case for case in np.flatnonzero(holds).tolist())


def _same_elsewhere(codes: AnyArray) -> list[int]:
    """For every case the cases with the same codes."""
    _, group = np.unique(codes, axis=0, return_inverse=True)
    groups = [_bits(group.ravel() == one) for one in range(int(group.max()) + 1)]
    return [groups[one] for one in group.ravel()]


def _closed(cases: int, same: list[int]) -> int:
    """A set of cases with all that are the same as one of them."""
    closed, left = 0, cases
    while left:
        case = (left & -left).bit_length() - 1
        closed |= same[case]
        left &= ~same[case]
    return closed
