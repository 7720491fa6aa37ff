"""`.spn` files: sum-product networks as Juice and Libra write them.

In:  a line ``(2 2 ... 2)`` with the number of values of every variable, then indicators, products
     and sums, one per line; children are places among the lines; the last node is the root.
Out: `Circuit`, products in pairs on the vtree that they follow.

Another program, RPCircuits.jl, gives the same extension to another format, which is refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from strudel.circuits.circuit import Circuit
from strudel.circuits.sum_product_graph import SumProductGraph
from strudel.io.formats.shared import ReadOptions, circuit_from_graph, sum_product_lines
from strudel.io.formats.text import Lines, TextFile, show


def read_spn(file: TextFile, options: ReadOptions) -> Circuit:
    """The circuit in a file; on a vtree, if one is given."""
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
        file.refuse("it does not end with a line 'EOF': is it incomplete?")
    circuit = circuit_from_graph(file, graph, at, options)
    if circuit.n_vars != n_vars:
        file.refuse(f"the root mentions {circuit.n_vars} variables, not {n_vars}", header)
    return circuit


def _read_values(file: TextFile, lines: Lines) -> tuple[int, int]:
    """The number of variables, from the line that lists their numbers of values."""
    for line, tokens in lines:
        text = b" ".join(tokens)
        if not (text.startswith(b"(") and text.endswith(b")")):
            file.refuse(
                "it should start with the numbers of values, as in '(2 2 2)', but starts with "
                f"{show(text)}. The .spn format of RPCircuits.jl is different and is not read",
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
        graph.add_product(file.earlier_nodes(rest, line, graph.n_nodes))
        return
    if kind == b"+" and rest and len(rest) % 2 == 0:
        weights = [file.real(token, line, "a log-parameter") for token in rest[1::2]]
        graph.add_sum(file.earlier_nodes(rest[::2], line, graph.n_nodes), weights)
        return
    forms = "'v variable value', '* children' or '+ child log-parameter ...'"
    file.refuse_line(forms, tokens, line)


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
