"""`.vtree` files: a vtree, one node per line.

In:  the format of libsdd, Juice, LearnPsdd and pypsdd; ids are labels in any order.
Out: `Vtree`, and the id of every node for the files that refer to them.

We write in-order ids, as libsdd does, on post-order lines: every reader we know takes that.
"""

from __future__ import annotations

import numpy as np

from strudel._types import NONE, IntArray
from strudel.io.formats.text import Ids, Lines, TextFile
from strudel.trees.vtree import Vtree

HEADER = """\
c ids of vtree nodes start at 0
c ids of variables start at 1
c vtree nodes appear bottom-up, children before parents
c
c file syntax:
c vtree number-of-nodes-in-vtree
c L id-of-leaf-vtree-node id-of-variable
c I id-of-internal-vtree-node id-of-left-child id-of-right-child
c"""


def read_vtree(file: TextFile) -> tuple[Vtree, dict[int, int]]:
    """The vtree, and the node of every id in the file."""
    ids = Ids(file)
    left, right, var = [], [], []
    lines = file.lines()
    line, _ = read_header(file, lines, b"vtree")
    for line, tokens in lines:
        kind = tokens[0].upper()
        if kind == b"L" and len(tokens) == 3:
            children = [NONE, NONE]
            var.append(file.variable(tokens[2], line))
        elif kind == b"I" and len(tokens) == 4:
            children = ids.find(tokens[2:], line)
            var.append(NONE)
        else:
            file.refuse_line("'L id variable' or 'I id left right'", tokens, line)
        left.append(children[0])
        right.append(children[1])
        ids.define(tokens[1], line)
    try:
        arrays = [np.array(column, dtype=np.int32) for column in (left, right, var)]
        return Vtree(*arrays), ids.number
    except ValueError as error:  # the rules of a vtree
        file.refuse(str(error).rstrip("."), line)


def read_header(file: TextFile, lines: Lines, word: bytes) -> tuple[int, int | None]:
    """Take the line ``word [count]``: its number, and the count, which is often wrong."""
    for line, tokens in lines:
        if tokens[0].lower() != word or len(tokens) > 2:
            break
        if len(tokens) == 1:
            return line, None
        return line, file.whole(tokens[1], line, "the number of nodes")
    file.refuse(f"it does not start with a line '{word.decode()} number-of-nodes'")


def vtree_lines(vtree: Vtree) -> list[str]:
    """The file, line by line."""
    names = inorder_ids(vtree)
    lines = [*HEADER.splitlines(), f"vtree {vtree.n_nodes}"]
    for v in postorder(vtree):
        if vtree.node_var[v] != NONE:
            lines.append(f"L {names[v]} {vtree.node_var[v] + 1}")
        else:
            lines.append(f"I {names[v]} {names[vtree.node_left[v]]} {names[vtree.node_right[v]]}")
    return lines


def inorder_ids(vtree: Vtree) -> IntArray:
    """The in-order position of every node: leaves even, inner nodes odd."""
    first, _ = vtree.node_span
    # An inner node stands just before the first leaf of its right child.
    position = 2 * first
    inner = np.flatnonzero(vtree.node_var == NONE)
    position[inner] = 2 * first[vtree.node_right[inner]] - 1
    return position


def postorder(vtree: Vtree) -> list[int]:
    """The nodes, everything on the left of a node before everything on its right before it."""
    first, last = vtree.node_span
    # By the end of the span; of those that end together, the later start is the deeper node.
    return np.lexsort((-first, last)).tolist()
