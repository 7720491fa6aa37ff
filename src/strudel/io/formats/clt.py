"""`.clt` files: Chow-Liu trees as ProbabilisticCircuits.jl writes them.

In:  the numbers of variables and of roots, then lines ``root p1``, then lines
     ``child parent p(1|1) p(1|0)``.
Out: `ChowLiuTree`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from strudel._types import NONE
from strudel.io.formats.text import TextFile, number
from strudel.trees.chow_liu import ChowLiuTree


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
