"""What readers of circuits share: parameters that add up, feature names, graphs into circuits.

In:  what a reader found in a `TextFile`.
Out: the same, checked; a `Circuit`; or `FileFormatError`.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from strudel._types import NONE, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.normal_form import normal_form
from strudel.circuits.normalization import TOLERANCE, normalize
from strudel.circuits.sum_product_graph import SumProductGraph
from strudel.circuits.vtree_recovery import recover_vtree
from strudel.errors import GraphError, NormalizedWarning
from strudel.io.formats.text import TextFile, number
from strudel.trees.vtree import Vtree

LARGEST = 1e6  # of a log-parameter that is to be normalised: sums of these stay finite
NAMES = b"c feature_names "


class ReadOptions(NamedTuple):
    """What a reader takes besides the file."""

    vtree: Vtree | None
    node_of_id: dict[int, int] | None  # ids of the vtree's file
    normalize: bool


def check_sums(
    file: TextFile,
    log_theta: FloatArray,
    width: Sequence[int],
    lines: Sequence[int],
    options: ReadOptions,
) -> None:
    """Refuse parameters that do not add up to one; `width` and `lines` have one entry per sum.

    If they are to be normalised, say how many did not.
    """
    if len(width) == 0:
        return
    starts = np.cumsum(width) - np.asarray(width)
    with np.errstate(over="ignore"):
        total = np.add.reduceat(np.exp(log_theta), starts)
    is_bad = ~(np.abs(total - 1.0) <= TOLERANCE)
    if options.normalize:
        if is_bad.any():
            warnings.warn(
                f"{file.path}: the parameters of {np.count_nonzero(is_bad)} of {len(is_bad)} sums "
                "did not add up to 1, and were normalised.",
                NormalizedWarning,
                stacklevel=2,
            )
        is_bad = np.maximum.reduceat(log_theta, starts) > LARGEST
    for place in np.flatnonzero(is_bad)[:1]:
        advice = (
            "" if options.normalize else ". Read it with normalize=True (--normalize) if it should"
        )
        file.refuse(
            f"the parameters of a sum add up to {total[place]:.6g}, not to 1{advice}", lines[place]
        )


def finish(circuit: Circuit, file: TextFile, options: ReadOptions, mentioned: int) -> Circuit:
    """The circuit with its names, normalised if that was asked for.

    `mentioned` is the largest variable of any line: if the root is not about it, the circuit is
    only a part of what the file says.
    """
    if mentioned >= circuit.n_vars:
        file.refuse(f"it mentions variable {mentioned + 1}, but its root has {circuit.n_vars}")
    if options.normalize:
        circuit, log_total = normalize(circuit)
        if log_total == -np.inf:
            file.refuse("every row is impossible, so there is nothing to normalise")
    names = read_names(file, circuit.n_vars)
    return circuit if names is None else circuit.with_names(names)


def circuit_from_graph(
    file: TextFile, graph: SumProductGraph, lines: Sequence[int], options: ReadOptions
) -> Circuit:
    """The circuit of a smooth graph, on a vtree if one is given; `lines` says where nodes are."""
    weights = graph.node_log_weights
    sums = [node for node in range(graph.n_nodes) if weights[node]]
    check_sums(
        file,
        np.array([weight for node in sums for weight in weights[node]]),
        [len(weights[node]) for node in sums],
        [lines[node] for node in sums],
        options,
    )
    try:
        vtree = recover_vtree(graph) if options.vtree is None else options.vtree
        circuit = normal_form(graph, vtree)
    except GraphError as error:
        file.refuse(f"this circuit has no normal form: {error}", lines[error.node])
    assert circuit is not None  # nothing is false in a graph without empty sums
    return finish(circuit, file, options, max(graph.node_literal, default=NONE) // 2)


def read_names(file: TextFile, n_vars: int) -> tuple[str, ...] | None:
    """Feature names from the comment in which `names_lines` keeps them."""
    if NAMES not in file.content:
        return None
    for line in io.BytesIO(file.content):
        if line.startswith(NAMES):
            try:
                names = json.loads(line[len(NAMES) :])
            except (ValueError, RecursionError):
                return None  # somebody else's comment
            if isinstance(names, list) and all(isinstance(name, str) for name in names):
                if len(names) != n_vars:
                    file.refuse(f"it has {len(names)} feature names for {n_vars} variables")
                return tuple(names)
    return None


def names_lines(names: tuple[str, ...] | None) -> list[str]:
    """A comment that holds the feature names, if there are any."""
    return [] if names is None else [NAMES.decode() + json.dumps(list(names))]


def sum_product_lines(
    circuit: Circuit,
    *,
    literal: Callable[[int, int], str],
    product: Callable[[int, int, int, int], str],
    weighted_sum: Callable[[int, int, Sequence[tuple[int, str]]], str],
) -> Iterator[str]:
    """A circuit as lines of literals, products and sums, children first, numbered from 0.

    The functions make a line of the number, the vtree node (or the literal) and the children. A sum
    of one product with parameter 1 is written as the product alone, which reads back the same.
    """
    number_of: dict[int, int] = {}
    n_lines = 0
    edge_left, edge_right = circuit.edge_left.tolist(), circuit.edge_right.tolist()
    log_theta = circuit.edge_log_theta.tolist()
    start = circuit.node_edges.tolist()
    below = np.concatenate([circuit.edge_left, circuit.edge_right])
    used = set(below[(below != NONE) & (below < 2 * circuit.n_vars)].tolist())
    if circuit.root < 2 * circuit.n_vars:
        used.add(circuit.root)
    for node in sorted(used):
        yield literal(n_lines, node)
        number_of[node] = n_lines
        n_lines += 1
    for node in range(2 * circuit.n_vars, circuit.n_nodes):
        v = int(circuit.node_vtree[node])
        terms: list[tuple[int, str]] = []
        for edge in range(start[node], start[node + 1]):
            if edge_right[edge] == NONE:
                term = number_of[edge_left[edge]]
            else:
                term = n_lines
                yield product(n_lines, v, number_of[edge_left[edge]], number_of[edge_right[edge]])
                n_lines += 1
            terms.append((term, number(log_theta[edge])))
        edge = start[node]
        if len(terms) == 1 and edge_right[edge] != NONE and log_theta[edge] == 0.0:
            number_of[node] = terms[0][0]
            continue
        yield weighted_sum(n_lines, v, terms)
        number_of[node] = n_lines
        n_lines += 1
