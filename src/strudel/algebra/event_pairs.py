"""Events as circuits on a model's vtree, and the pairs of such a circuit with a model.

In:  a circuit or mixture, and whatever may stand for an event.
Out: a circuit that is 1 on the rows of the event and 0 on all others; `EventPairs`, with one column
     of log-weights per component.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from strudel._names import names_of, places_of
from strudel._types import FloatArray
from strudel.algebra.operands import columns_of, need_deterministic, two_models
from strudel.algebra.pairs import Pairs, find_pairs
from strudel.circuits.circuit import Circuit
from strudel.circuits.properties import check_properties
from strudel.logic.event_circuit import event_circuit
from strudel.logic.event_compiler import compile_event
from strudel.logic.event_forms import as_event
from strudel.logic.simple_events import SimpleEvent, simple_event
from strudel.queries.model import Model, structure_of

MAX_PARAMETERS = 2**27  # of a conditioned mixture: 1 GB


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
            raise ValueError(
                f"{k} components with {n_edges} edges each are more than {MAX_PARAMETERS} "
                "parameters in all. Condition fewer components."
            )
        return np.column_stack([self.weights_of(c) for c in range(k)])


def simple_event_of(model: Model, event: Any) -> SimpleEvent | None:
    """The event as literals and a count, if it is no more than that."""
    if isinstance(event, Circuit):
        return None
    place = places_of(names_of(model.n_vars, model.feature_names))
    return simple_event(as_event(event, model.n_vars, model.feature_names), place)


def event_pairs(model: Model, event: Any, query: str, max_pairs: int) -> EventPairs | None:
    """Find the pairs of a model and an event, once for all components."""
    structure = structure_of(model)
    check_properties(structure, query, "in_normal_form")
    if isinstance(event, Circuit):
        found: Circuit | None = _checked(event, query)
    else:
        found = event_circuit(compile_event(event, structure.vtree, structure.feature_names))
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
