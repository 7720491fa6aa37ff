"""`.nnf` files: circuits of and and or.

In:  the format of c2d, which Juice also uses, or the newer one of d4; the first line decides.
Out: `Nnf`. We write the format of c2d.
"""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any

from strudel._types import NONE
from strudel.io.formats.text import MAX_VARIABLE, TextFile, show, signed
from strudel.logic.formula import AND, LITERAL, OR, Nnf


def read_nnf(file: TextFile) -> Nnf:
    """The circuit in a file."""
    for line, tokens in file.lines():
        if tokens[0].lower() == b"nnf":
            return _read_c2d(file)
        if tokens[0] in (b"o", b"a", b"t", b"f"):
            return _read_d4(file)
        file.refuse(
            "it should start with 'nnf nodes edges variables', as c2d writes it, or with a node "
            f"'o id 0' as d4 does, but starts with {show(tokens[0])}",
            line,
        )
    file.refuse("it is empty")


def _read_c2d(file: TextFile) -> Nnf:
    """Nodes are lines, numbered from 0."""
    lines = file.lines()
    header, tokens = next(lines)
    if len(tokens) != 4:
        file.refuse("the first line should be 'nnf nodes edges variables'", header)
    counts = [file.whole(token, header, "a count") for token in tokens[1:]]
    n_nodes, n_vars = counts[0], counts[2]
    if not 0 <= n_vars <= MAX_VARIABLE:
        file.refuse(f"it cannot have {n_vars} variables", header)
    nodes: list[tuple[int, Any]] = []
    decisions: list[int] = []
    for line, tokens in lines:
        kind = tokens[0].upper()
        decision = NONE
        if kind == b"L" and len(tokens) == 2:
            literal = file.literal(tokens[1], line)
            if literal >= 2 * n_vars:
                file.refuse(
                    f"literal {signed(literal)} is not of a variable from 1 to {n_vars}", line
                )
            nodes.append((LITERAL, literal))
        elif kind in (b"A", b"O") and len(tokens) >= (2 if kind == b"A" else 3):
            skip = 1 if kind == b"A" else 2
            if kind == b"O":
                decision = file.whole(tokens[1], line, "a decision variable") - 1
                if not NONE <= decision < n_vars:
                    file.refuse(f"variable {decision + 1} is not from 1 to {n_vars}", line)
            file.width(tokens[skip], len(tokens) - skip - 1, line)
            children = file.earlier_nodes(tokens[skip + 1 :], line, len(nodes))
            nodes.append((AND if kind == b"A" else OR, children))
        else:
            forms = "'L literal', 'A k children' or 'O variable k children'"
            file.refuse_line(forms, tokens, line)
        decisions.append(decision)
        if len(nodes) > n_nodes:
            file.refuse(f"{n_nodes} nodes were announced, but there are more", line)
    file.check_announced(n_nodes, len(nodes), header, "nodes")
    if not nodes:
        file.refuse("it has no nodes", header)
    return Nnf.from_nodes(nodes, n_vars, decisions)


def _read_d4(file: TextFile) -> Nnf:
    """Nodes ``kind id 0`` and arcs ``parent child literals 0`` in any order; the root has id 1."""
    kind_of: dict[int, bytes] = {}
    arcs: dict[int, list[tuple[int, list[int]]]] = {}
    where: dict[int, int] = {}
    n_vars = 0
    for line, tokens in file.lines():
        if tokens[-1] != b"0" or len(tokens) < 3:
            file.refuse("a line of d4 should end in 0", line)
        if tokens[0] in (b"o", b"a", b"t", b"f"):
            name = file.whole(tokens[1], line, "an id")
            if name in kind_of or len(tokens) != 3:
                file.refuse("a node should be 'kind id 0', each id once", line)
            kind_of[name], where[name], arcs[name] = tokens[0], line, []
            continue
        parent, child = (file.whole(token, line, "an id") for token in tokens[:2])
        for name in (parent, child):
            if name not in kind_of:
                file.refuse(f"there is no node {name} before this line", line)
        literals = [file.literal(token, line) for token in tokens[2:-1]]
        n_vars = max([n_vars, *(literal // 2 + 1 for literal in literals)])
        arcs[parent].append((child, literals))
    if 1 not in kind_of:
        file.refuse("node 1, the root, is missing")
    nodes: list[tuple[int, Any]] = []
    literal_node: dict[int, int] = {}
    done: dict[int, int] = {}
    for name in _children_first(file, arcs, where):
        terms = []
        for child, literals in arcs[name]:
            for literal in literals:
                if literal not in literal_node:
                    literal_node[literal] = len(nodes)
                    nodes.append((LITERAL, literal))
            if literals:
                nodes.append((AND, [*(literal_node[literal] for literal in literals), done[child]]))
                terms.append(len(nodes) - 1)
            else:
                terms.append(done[child])
        kind = kind_of[name]
        if kind in (b"t", b"f") and terms:
            file.refuse("a constant has no children", where[name])
        nodes.append((AND if kind in (b"a", b"t") else OR, terms))
        done[name] = len(nodes) - 1
    return Nnf.from_nodes(nodes, n_vars)


def _children_first(
    file: TextFile, arcs: dict[int, list[tuple[int, list[int]]]], where: dict[int, int]
) -> list[int]:
    """The nodes below node 1 and itself, last; a cycle is refused."""
    children: dict[int, list[int]] = {}
    pending = [1]
    while pending:
        name = pending.pop()
        if name not in children:
            children[name] = [child for child, _ in arcs[name]]
            pending += children[name]
    try:
        return list(TopologicalSorter(children).static_order())
    except CycleError as error:
        name = error.args[1][0]
        file.refuse(f"node {name} is below itself", where[name])


def nnf_lines(nnf: Nnf) -> Iterator[str]:
    """The file, line by line."""
    yield f"nnf {nnf.n_nodes} {len(nnf.child)} {nnf.n_vars}"
    for node in range(nnf.n_nodes):
        children = nnf.children(node)
        below = " ".join(map(str, [len(children), *children]))
        if nnf.node_kind[node] == LITERAL:
            yield f"L {signed(int(nnf.node_literal[node]))}"
        elif nnf.node_kind[node] == AND:
            yield f"A {below}"
        else:
            yield f"O {nnf.node_decision[node] + 1} {below}"
