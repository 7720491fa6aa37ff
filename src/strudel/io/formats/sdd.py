"""`.sdd` files: sentential decision diagrams, which come with a `.vtree` file.

In:  the format of libsdd, PySDD, pypsdd and Juice, and a vtree with the ids of its file.
Out: `Sdd`, with the nodes below the last line, its root.

Where the ids of vtree nodes do not fit, a decision lies where its variables meet. Without a vtree,
one is recovered, if the diagram mentions all variables.
"""

from __future__ import annotations

from collections.abc import Iterator

from strudel._types import NONE
from strudel.circuits.sum_product_graph import SumProductGraph, recover_vtree
from strudel.errors import GraphError
from strudel.io.formats.sum_product import ReadOptions
from strudel.io.formats.text import Ids, TextFile, read_header, signed
from strudel.io.formats.trees import inorder_ids
from strudel.logic.sdd import FALSE, FIRST_LITERAL, TRUE, Sdd, reached_nodes
from strudel.trees.vtree import MeetingPlaces, Vtree

HEADER = """\
c ids of sdd nodes start at 0
c sdd nodes appear bottom-up, children before parents
c
c file syntax:
c sdd count-of-sdd-nodes
c F id-of-false-sdd-node
c T id-of-true-sdd-node
c L id-of-literal-sdd-node id-of-vtree literal
c D id-of-decomposition-sdd-node id-of-vtree number-of-elements {id-of-prime id-of-sub}*
c"""


class _Decision:
    """A decision line: its vtree id and its elements as places among the node lines."""

    def __init__(self, line: int, vtree_id: int, elements: list[tuple[int, int]]) -> None:
        self.line, self.vtree_id, self.elements = line, vtree_id, elements


Node = int | _Decision  # FALSE, TRUE or FIRST_LITERAL + literal; or a decision


def read_sdd(file: TextFile, options: ReadOptions) -> Sdd:
    """The diagram in a file. Ids of a vtree without a file are in-order positions."""
    nodes, lines = _read_nodes(file)
    vtree, node_of_id = options.vtree, options.node_of_id
    if vtree is None:
        vtree = _recover(file, nodes, lines)
        node_of_id = {}
    elif node_of_id is None:
        node_of_id = {name: v for v, name in enumerate(inorder_ids(vtree).tolist())}
    placer = _Placer(file, vtree, node_of_id)
    number: list[int] = []
    decisions: list[tuple[int, list[tuple[int, int]]]] = []
    used = _used(nodes)
    for node, line, is_used in zip(nodes, lines, used, strict=True):
        if isinstance(node, int) and node >= FIRST_LITERAL + 2 * vtree.n_vars:
            var = (node - FIRST_LITERAL) // 2 + 1
            file.refuse(f"variable {var} is not in the vtree, which has {vtree.n_vars}", line)
        if not is_used:
            number.append(NONE)
        elif isinstance(node, int):
            number.append(node)
            placer.add_literal(node)
        else:
            elements = [(number[prime], number[sub]) for prime, sub in node.elements]
            number.append(FIRST_LITERAL + 2 * vtree.n_vars + len(decisions))
            decisions.append((placer.place(number[-1], node, elements), elements))
    try:
        return Sdd.from_decisions(vtree, decisions, root=number[-1])
    except ValueError as error:  # the rules of an SDD
        file.refuse(str(error).rstrip("."), lines[-1])


def _read_nodes(file: TextFile) -> tuple[list[Node], list[int]]:
    ids = Ids(file)
    nodes: list[Node] = []
    at: list[int] = []
    lines = file.lines()
    header, _ = read_header(file, lines, b"sdd")
    for line, tokens in lines:
        kind = tokens[0].upper()
        if kind in (b"F", b"T") and len(tokens) == 2:
            node: Node = FALSE if kind == b"F" else TRUE
        elif kind == b"L" and len(tokens) == 4:
            node = FIRST_LITERAL + file.literal(tokens[3], line)
        elif kind == b"D" and len(tokens) >= 6:
            file.width(tokens[3], len(tokens) - 4, line, "elements", each=2)
            children = ids.find(tokens[4:], line)
            elements = list(zip(children[::2], children[1::2], strict=True))
            node = _Decision(line, file.whole(tokens[2], line, "a vtree id"), elements)
        else:
            forms = "'F id', 'T id', 'L id vtree literal' or 'D id vtree k prime sub ...'"
            file.refuse_line(forms, tokens, line)
        ids.define(tokens[1], line)
        nodes.append(node)
        at.append(line)
    if not nodes:
        file.refuse("it has no nodes", header)
    return nodes, at


def _used(nodes: list[Node]) -> bytearray:
    """Whether every node is the last or below it."""
    used = bytearray(len(nodes))
    used[-1] = 1
    for place in range(len(nodes) - 1, -1, -1):
        node = nodes[place]
        if used[place] and isinstance(node, _Decision):
            for prime, sub in node.elements:
                used[prime] = used[sub] = 1
    return used


def _recover(file: TextFile, nodes: list[Node], lines: list[int]) -> Vtree:
    graph = SumProductGraph()
    number: list[int] = []
    at: list[int] = []
    for node, line in zip(nodes, lines, strict=True):
        if isinstance(node, _Decision):
            # All primes lie on one side and all subs on the other: for the vtree, one product.
            sides = [
                graph.add_sum([number[child] for child in column], [0.0] * len(column))
                for column in zip(*node.elements, strict=True)
            ]
            number.append(graph.add_product(sides))
        elif node in (FALSE, TRUE):
            number.append(graph.add_product([]))
        else:
            number.append(graph.add_literal(node - FIRST_LITERAL))
        at += [line] * (graph.n_nodes - len(at))
    try:
        return recover_vtree(graph)
    except GraphError as error:
        file.refuse(f"its vtree is needed, because {error}", at[error.node])


class _Placer:
    """Finds the vtree node of decisions, and remembers the span of leaves of every node."""

    def __init__(self, file: TextFile, vtree: Vtree, node_of_id: dict[int, int]) -> None:
        self.file, self.node_of_id = file, node_of_id
        self.places = MeetingPlaces(vtree)
        self.left: list[int] = vtree.node_left.tolist()
        self.right: list[int] = vtree.node_right.tolist()
        first, last = vtree.node_span
        self.first: list[int] = first.tolist()
        self.last: list[int] = (last - 1).tolist()
        self.span: dict[int, tuple[int, int]] = {}  # of nodes that mention some variable
        self.left_of, self.right_of = _sides(vtree)

    def add_literal(self, node: int) -> None:
        if node >= FIRST_LITERAL:
            place = self.places.var_place[(node - FIRST_LITERAL) // 2]
            self.span[node] = (place, place)

    def place(self, node: int, decision: _Decision, elements: list[tuple[int, int]]) -> int:
        """The vtree node of a decision: the one it names if it fits, else the lowest that does."""
        primes, subs = (self._union(column) for column in zip(*elements, strict=True))
        together = [span for span in (primes, subs) if span is not None]
        if together:
            self.span[node] = (min(s[0] for s in together), max(s[1] for s in together))
        named = self.node_of_id.get(decision.vtree_id, NONE)
        if self._fits(named, primes, subs):
            return named
        if primes is not None and subs is not None:
            found = self.places.top(*self.span[node])
        elif primes is not None:
            found = self.left_of[self.places.top(*primes)]
        elif subs is not None:
            found = self.right_of[self.places.top(*subs)]
        else:
            found = NONE
        if not self._fits(found, primes, subs):
            self.file.refuse("this decision does not follow the vtree", decision.line)
        return found

    def _union(self, nodes: tuple[int, ...]) -> tuple[int, int] | None:
        spans = [span for node in nodes if (span := self.span.get(node)) is not None]
        return (min(s[0] for s in spans), max(s[1] for s in spans)) if spans else None

    def _fits(self, v: int, primes: tuple[int, int] | None, subs: tuple[int, int] | None) -> bool:
        """Whether primes lie on the left of `v` and subs on its right."""
        if v == NONE or self.left[v] == NONE:
            return False
        return all(
            span is None or (self.first[side] <= span[0] and span[1] <= self.last[side])
            for span, side in ((primes, self.left[v]), (subs, self.right[v]))
        )


def _sides(vtree: Vtree) -> tuple[list[int], list[int]]:
    """For every vtree node, the lowest node above that has it on its left, and on its right."""
    left_of, right_of = [NONE] * vtree.n_nodes, [NONE] * vtree.n_nodes
    left, right = vtree.node_left.tolist(), vtree.node_right.tolist()
    for v in range(vtree.n_nodes - 1, -1, -1):
        if left[v] != NONE:
            left_of[left[v]], right_of[left[v]] = v, right_of[v]
            left_of[right[v]], right_of[right[v]] = left_of[v], v
    return left_of, right_of


def sdd_lines(sdd: Sdd) -> Iterator[str]:
    """The file, line by line: what lies below the root, the root last."""
    names = inorder_ids(sdd.vtree).tolist()
    nodes = reached_nodes(sdd).tolist()
    yield from HEADER.splitlines()
    yield f"sdd {len(nodes)}"
    number: dict[int, int] = {}
    for node in nodes:
        name = number[node] = len(number)
        if node in (FALSE, TRUE):
            yield f"{'T' if node == TRUE else 'F'} {name}"
            continue
        at = names[sdd.node_vtree[node]]
        if node < sdd.first_decision:
            yield f"L {name} {at} {signed(node - FIRST_LITERAL)}"
        else:
            elements = sdd.elements(node)
            pairs = " ".join(f"{number[prime]} {number[sub]}" for prime, sub in elements)
            yield f"D {name} {at} {len(elements)} {pairs}"
