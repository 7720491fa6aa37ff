"""`.spn` files: sum-product networks as Juice and Libra write them.

In:  a line ``(2 2 ... 2)`` with the number of values of every variable, then indicators, products
     and sums, one per line; children are places among the lines; the last node is the root.
Out: `Circuit`, products in pairs on the vtree that they follow.

Another program, RPCircuits.jl, gives the same extension to another format, which is refused.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from strudel.circuits.circuit import Circuit
from strudel.circuits.sum_product_graph import SumProductGraph
from strudel.io.formats.shared import check_sums, circuit_from_graph, finish, sum_product_lines
from strudel.io.formats.text import TextFile, show
from strudel.trees.vtree import Vtree


def read_spn(file: TextFile, vtree: Vtree | None, renormalize: bool) -> Circuit:
    """The circuit in a file; on `vtree`, if one is given."""
    lines = file.lines(comments=False)
    n_vars, header = _read_values(file, lines)
    graph = SumProductGraph()
    at: list[int] = []
    is_closed = False
    for line, tokens in lines:
        if tokens == [b"EOF"]:
            is_closed = True
            break
        _read_node(file, graph, tokens, line, n_vars)
        at.append(line)
    if not is_closed or not at:
        file.refuse("it does not end in a line 'EOF': is it cut short?")
    sums = [node for node in range(graph.n_nodes) if graph.node_log_weights[node]]
    check_sums(
        file,
        np.array([weight for node in sums for weight in graph.node_log_weights[node]]),
        [len(graph.node_log_weights[node]) for node in sums],
        [at[node] for node in sums],
        renormalize,
    )
    circuit = circuit_from_graph(file, graph, at, vtree)
    if circuit.n_vars != n_vars:
        file.refuse(f"the root speaks of {circuit.n_vars} variables, not of {n_vars}", header)
    return finish(circuit, file, renormalize)


def _read_values(file: TextFile, lines: Iterator[tuple[int, list[bytes]]]) -> tuple[int, int]:
    """The number of variables, from the line that lists their numbers of values."""
    for line, tokens in lines:
        text = b" ".join(tokens)
        if not (text.startswith(b"(") and text.endswith(b")")):
            file.refuse(
                "it should start with the numbers of values, as in '(2 2 2)', but starts with "
                f"{show(text)}. The .spn format of RPCircuits.jl is another, and not read",
                line,
            )
        values = text[1:-1].split()
        for value in values:
            if value != b"2":
                file.refuse(f"a variable has two values here, not {show(value)}", line)
        return len(values), line
    file.refuse("it is empty")


def _read_node(
    file: TextFile, graph: SumProductGraph, tokens: list[bytes], line: int, n_vars: int
) -> None:
    kind, rest = tokens[0], tokens[1:]
    if kind == b"v" and len(rest) == 2:
        var = file.whole(rest[0], line, "a variable")
        if not 0 <= var < n_vars or rest[1] not in (b"0", b"1"):
            file.refuse(
                f"an indicator needs a variable from 0 to {n_vars - 1} and a value 0 or 1", line
            )
        graph.add_literal(2 * var + int(rest[1]))
        return
    if kind == b"*" and rest:
        graph.add_product(_children(file, graph, rest, line))
        return
    if kind == b"+" and rest and len(rest) % 2 == 0:
        weights = [file.real(token, line, "a log-parameter") for token in rest[1::2]]
        graph.add_sum(_children(file, graph, rest[::2], line), weights)
        return
    file.refuse(
        "a node should be 'v variable value', '* children' or '+ child log-parameter ...', "
        f"but {len(tokens)} words start with {show(kind)}",
        line,
    )


def _children(file: TextFile, graph: SumProductGraph, tokens: list[bytes], line: int) -> list[int]:
    children = [file.whole(token, line, "a child") for token in tokens]
    for child in children:
        if not 0 <= child < graph.n_nodes:
            file.refuse(f"child {child} is not the number of an earlier node", line)
    return children


def spn_lines(circuit: Circuit) -> Iterator[str]:
    """The file, line by line."""
    if circuit.feature_names is not None:
        raise ValueError(
            "A .spn file cannot hold feature names: write circuit.with_names(None) or a .psdd file."
        )
    yield "(" + " ".join(["2"] * circuit.n_vars) + ")"
    yield from sum_product_lines(
        circuit,
        literal=lambda n, node: f"v {node // 2} {node % 2}",
        product=lambda n, v, left, right: f"* {left} {right}",
        weighted_sum=lambda n, v, terms: (
            "+ " + " ".join(f"{term} {weight}" for term, weight in terms)
        ),
    )
    yield "EOF"
