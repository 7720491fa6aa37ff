"""Where the nodes of trees go in a drawing.

In:  a `Vtree` or `ChowLiuTree`.
Out: coordinates, one pair per node; y grows upwards.
"""

from __future__ import annotations

import numpy as np

from strudel._types import NONE, FloatArray, IntArray
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.vtree import Vtree

MAX_STEPS = 64  # variables up to which a vtree hangs by steps from its root


def place_vtree(vtree: Vtree) -> tuple[FloatArray, FloatArray]:
    """Leaves from left to right, the root on top, inner nodes between their children.

    A small vtree goes down one step per level. In a large one all leaves are at the bottom, and the
    height of a node is the logarithm of how many are below it, so that deep ones stay readable.
    """
    first, last = vtree.node_span
    x = first.astype(float)
    for node in np.flatnonzero(vtree.node_var == NONE):
        x[node] = (x[vtree.node_left[node]] + x[vtree.node_right[node]]) / 2
    if vtree.n_vars <= MAX_STEPS:
        return x, (vtree.depth - vtree.node_depth).astype(np.float64)
    return x, np.log2(last - first)


def place_layers(tree: ChowLiuTree) -> tuple[FloatArray, FloatArray]:
    """Leaves side by side, a parent in the middle of its children, roots on top."""
    children = tree.children()
    order, depth = _down(tree)
    x = np.zeros(tree.n_vars)
    next_x = 0.0
    pending = list(tree.roots[::-1])
    while pending:  # depth first, so that the leaves of one subtree stay together
        var = pending.pop()
        pending.extend(reversed(children[var]))
        if not children[var]:
            x[var] = next_x
            next_x += 1
    for var in reversed(order):
        if children[var]:
            x[var] = (x[children[var][0]] + x[children[var][-1]]) / 2
    return x, -depth.astype(float)


def place_rings(tree: ChowLiuTree) -> tuple[FloatArray, FloatArray]:
    """The root in the middle, every level on a ring around it; a subtree gets its share of circle.

    Shares go by the square root of how many variables a subtree has, so that long thin branches
    keep room beside a bush. Several roots stand on the first ring.
    """
    children = tree.children()
    order, depth = _down(tree)
    need = np.ones(tree.n_vars)  # of the circle: what the children need, and one at a leaf
    for var in reversed(order):
        if children[var]:
            need[var] = max(need[children[var]].sum() ** 0.85, 1.0)
    start, share = np.zeros(tree.n_vars), np.zeros(tree.n_vars)
    groups = [(0.0, 1.0, tree.roots.tolist())]
    for begin, width, members in groups:  # grows while it is walked
        total = need[members].sum()
        for var in members:
            start[var], share[var] = begin, width * need[var] / total
            begin += share[var]
            groups.append((start[var], share[var], children[var]))
    angle = 2 * np.pi * (start + share / 2)
    # Rings grow a little slower than levels, so that the crowd in the middle has room.
    radius = np.power(depth + float(len(tree.roots) > 1), 0.7)
    return radius * np.cos(angle), radius * np.sin(angle)


def _down(tree: ChowLiuTree) -> tuple[list[int], IntArray]:
    """All variables, parents first, and their levels."""
    order = tree.parents_first()
    depth = np.zeros(tree.n_vars, dtype=np.int32)
    for var in order[len(tree.roots) :]:
        depth[var] = depth[tree.var_parent[var]] + 1
    return order, depth


def link_information(tree: ChowLiuTree) -> FloatArray:
    """For every variable the mutual information with its parent, in nats; 0 at a root."""
    order = tree.parents_first()
    one = np.zeros(tree.n_vars)
    for var in order:
        parent = tree.var_parent[var]
        low, high = tree.var_theta[var]
        one[var] = high if parent == NONE else low + one[parent] * (high - low)
    up = one[np.maximum(tree.var_parent, 0)]
    inside = (1 - up) * _entropy(tree.var_theta[:, 0]) + up * _entropy(tree.var_theta[:, 1])
    information = np.maximum(_entropy(one) - inside, 0.0)
    information[tree.roots] = 0.0
    return information


def _entropy(one: FloatArray) -> FloatArray:
    from scipy.special import entr

    both: FloatArray = entr(one) + entr(1 - one)
    return both
