"""`.nnf`, `.jlc`, `.cnf` and `.dnf` files: formulas.

In:  `.nnf`: circuits of and and or in the format of c2d, which Juice also uses, or the newer one of
     d4; the first line decides. `.jlc`: logical circuits as LogicCircuits.jl writes them,
     constants, literals, ors and ands, with ids. `.cnf` and `.dnf`: the DIMACS format, clauses over
     one or several lines, each closed by 0; a line that starts with ``%`` ends them.
Out: `Nnf`; `Cnf` or `Dnf`, which the extension decides: some programs write ``p cnf`` into `.dnf`
     files.

We write `.nnf` in the format of c2d, and into `.jlc` neither ids of vtree nodes nor decision
variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from strudel._types import NONE, IntArray
from strudel.io.formats.text import MAX_VARIABLE, Ids, TextFile, read_header, show, signed
from strudel.logic.formula import AND, LITERAL, OR, Cnf, Dnf, Nnf


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


JLC_HEADER = """\
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
    yield from JLC_HEADER.splitlines()
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


def read_cnf(file: TextFile) -> Cnf:
    """The clauses in a file."""
    return Cnf(*_read_groups(file, (b"cnf",)))


def read_dnf(file: TextFile) -> Dnf:
    """The terms in a file."""
    return Dnf(*_read_groups(file, (b"dnf", b"cnf")))


def _read_groups(file: TextFile, words: tuple[bytes, ...]) -> tuple[int, IntArray, IntArray]:
    """The number of variables, where clauses start, and their literals."""
    n_vars, n_groups, n_closed, header = None, 0, 0, 0
    tokens: list[bytes] = []
    lines: list[int] = []
    for line, found in file.lines():
        if found[0].startswith(b"%"):
            break
        if n_vars is not None:
            tokens += found
            lines += [line] * len(found)
            n_closed += found.count(b"0")
            if n_closed > n_groups:
                file.refuse(f"{n_groups} clauses were announced, but there are more", line)
            continue
        if len(found) != 4 or found[0] != b"p" or found[1].lower() not in words:
            break
        n_vars = file.whole(found[2], line, "the number of variables")
        n_groups = file.whole(found[3], line, "the number of clauses")
        header = line
    word = words[0].decode()
    if n_vars is None:
        file.refuse(f"it does not start with a line 'p {word} variables clauses'")
    if not 0 <= n_vars <= MAX_VARIABLE:
        file.refuse(f"it cannot have {n_vars} variables", header)
    signed = file.wholes(tokens, lines, "a literal")
    for value, line in zip(signed, lines, strict=True):
        if not -n_vars <= value <= n_vars:
            file.refuse(f"literal {value} is not of the variables 1 to {n_vars}", line)
    if signed and signed[-1] != 0:
        file.refuse("the last clause is not closed by 0", lines[-1])
    values = np.array(signed, dtype=np.int64)
    ends = np.flatnonzero(values == 0)
    file.check_announced(n_groups, len(ends), header, "clauses")
    literals = values[values != 0]
    start = np.concatenate([[0], ends - np.arange(len(ends))]).astype(np.int32)
    return n_vars, start, (2 * (np.abs(literals) - 1) + (literals > 0)).astype(np.int32)


def formula_lines(formula: Cnf | Dnf) -> Iterator[str]:
    """The file, line by line."""
    word = "cnf" if isinstance(formula, Cnf) else "dnf"
    yield f"p {word} {formula.n_vars} {formula.n_groups}"
    for group in formula.to_literals():
        yield " ".join(map(str, [*group, 0]))
