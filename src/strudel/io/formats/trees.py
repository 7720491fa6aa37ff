"""`.vtree` and `.clt` files: vtrees, and Chow-Liu trees as ProbabilisticCircuits.jl writes them.

In:  `.vtree`: the format of libsdd, Juice, LearnPsdd and pypsdd, one node per line; ids are labels
     in any order. `.clt`: the numbers of variables and of roots, then lines ``root p1``, then lines
     ``child parent p(1|1) p(1|0)``.
Out: `Vtree`, and the id of every node for the files that refer to them; `ChowLiuTree`.

We write in-order ids of vtrees, as libsdd does, on post-order lines: every reader we know takes
that.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from strudel._types import NONE, IntArray
from strudel.io.formats.text import Ids, TextFile, number, read_header
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.vtree import Vtree

VTREE_HEADER = """\
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


def vtree_lines(vtree: Vtree) -> list[str]:
    """The file, line by line."""
    names = inorder_ids(vtree)
    lines = [*VTREE_HEADER.splitlines(), f"vtree {vtree.n_nodes}"]
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


def read_clt(file: TextFile) -> ChowLiuTree:
    """The tree, or forest, in a file."""
    lines = file.lines()
    counts = []
    for what, (line, tokens) in zip(("variables", "roots"), lines, strict=False):
        if len(tokens) != 1:
            file.refuse(f"this line should be the number of {what}", line)
        counts.append(file.whole(tokens[0], line, f"the number of {what}"))
    if len(counts) < 2:
        file.refuse("it should start with the numbers of variables and of roots, on two lines")
    n_vars, n_roots = counts
    families = list(islice(lines, max(0, n_vars) + 1))
    if len(families) != n_vars or not 1 <= n_roots <= n_vars:
        file.refuse(
            f"{n_vars} variables and {n_roots} roots were announced, but there are "
            f"{'more' if len(families) > n_vars else len(families)} lines of variables"
        )
    parent = np.full(n_vars, NONE, dtype=np.int32)
    theta = np.full((n_vars, 2), np.nan)
    for place, (line, tokens) in enumerate(families):
        width = 2 if place < n_roots else 4
        if len(tokens) != width:
            form = "root p(1)" if place < n_roots else "child parent p(1|1) p(1|0)"
            file.refuse(f"this line should be '{form}', but has {len(tokens)} words", line)
        family = [file.variable(token, line) for token in tokens[: width // 2]]
        if max(family) >= n_vars:
            file.refuse(f"there is no variable {max(family) + 1}", line)
        var = family[0]
        if not np.isnan(theta[var, 0]):
            file.refuse(f"variable {var + 1} has two lines", line)
        values = [file.real(token, line, "a probability") for token in tokens[width // 2 :]]
        for value in values:
            if not 0.0 <= value <= 1.0:
                file.refuse(f"a probability lies between 0 and 1, but this one is {value}", line)
        theta[var] = values[::-1] if place >= n_roots else values[0]
        parent[var] = family[1] if place >= n_roots else NONE
    tree = ChowLiuTree(parent, theta)
    if len(tree.parents_first()) < n_vars:
        file.refuse("some variables cannot be reached from a root: there is a cycle")
    return tree


def clt_lines(tree: ChowLiuTree) -> Iterator[str]:
    """The file, line by line."""
    yield f"{tree.n_vars}"
    yield f"{len(tree.roots)}"
    for var in tree.parents_first():
        given_0, given_1 = (number(value) for value in tree.var_theta[var])
        if tree.var_parent[var] == NONE:
            if given_0 != given_1:
                raise ValueError(f"Variable {var} is a root, but has two different parameters.")
            yield f"{var + 1} {given_1}"
        else:
            yield f"{var + 1} {tree.var_parent[var] + 1} {given_1} {given_0}"
