"""`.jlc` files: logical circuits as LogicCircuits.jl writes them.

In:  constants, literals, ors and ands, with ids.
Out: `Nnf`. Ids of vtree nodes are not kept; decision variables are not written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from strudel.io.formats.text import Ids, TextFile, signed
from strudel.io.formats.vtree import read_header
from strudel.logic.formula import AND, LITERAL, OR, Nnf

HEADER = """\
c ids of logic circuit nodes start at 0
c nodes appear bottom-up, children before parents
c
c file syntax:
c jlc count-of-nodes
c F id-of-false-node
c T id-of-true-node
c L id-of-literal-node id-of-vtree literal
c O id-of-or-node id-of-vtree number-of-children {id-of-child}+
c A id-of-and-node id-of-vtree number-of-children {id-of-child}+
c"""


def read_jlc(file: TextFile) -> Nnf:
    """The circuit in a file; its variables are those up to the largest it mentions."""
    ids = Ids(file)
    nodes: list[tuple[int, Any]] = []
    lines = file.lines()
    header, announced = read_header(file, lines, b"jlc")
    n_vars = 0
    for line, tokens in lines:
        kind = tokens[0].upper()
        if kind in (b"F", b"T") and len(tokens) == 2:
            nodes.append((OR if kind == b"F" else AND, []))
        elif kind == b"L" and len(tokens) == 4:
            literal = file.literal(tokens[3], line)
            n_vars = max(n_vars, literal // 2 + 1)
            nodes.append((LITERAL, literal))
        elif kind in (b"O", b"A") and len(tokens) >= 5:
            file.width(tokens[3], len(tokens) - 4, line)
            nodes.append((OR if kind == b"O" else AND, ids.find(tokens[4:], line)))
        else:
            forms = "'F id', 'T id', 'L id vtree literal' or 'O|A id vtree k children'"
            file.refuse_line(forms, tokens, line)
        ids.define(tokens[1], line)
    if not nodes:
        file.refuse("it has no nodes", header)
    if announced not in (None, _n_reached(nodes)):
        file.check_announced(announced, len(nodes), header, "nodes")
    return Nnf.from_nodes(nodes, n_vars)


def _n_reached(nodes: list[tuple[int, Any]]) -> int:
    """The number of nodes below the last, and itself, which Juice announces."""
    is_reached = bytearray(len(nodes))
    is_reached[-1] = 1
    for node in range(len(nodes) - 1, -1, -1):
        if is_reached[node] and nodes[node][0] != LITERAL:
            for child in nodes[node][1]:
                is_reached[child] = 1
    return sum(is_reached)


def jlc_lines(nnf: Nnf) -> Iterator[str]:
    """The file, line by line."""
    mentioned = int(nnf.node_literal.max(initial=-1)) // 2 + 1
    if mentioned < nnf.n_vars:
        raise ValueError(
            f"A .jlc file cannot say that there are {nnf.n_vars} variables when the largest it "
            f"mentions is {mentioned}. Write a .nnf file instead."
        )
    yield from HEADER.splitlines()
    yield f"jlc {nnf.n_nodes}"
    for node in range(nnf.n_nodes):
        children = nnf.children(node)
        kind = nnf.node_kind[node]
        if kind == LITERAL:
            yield f"L {node} 0 {signed(int(nnf.node_literal[node]))}"
        elif not children:
            yield f"{'T' if kind == AND else 'F'} {node}"
        else:
            letter = "A" if kind == AND else "O"
            yield f"{letter} {node} 0 {len(children)} {' '.join(map(str, children))}"
