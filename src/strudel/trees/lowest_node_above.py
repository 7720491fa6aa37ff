"""Where variables meet: the lowest vtree node above a span of leaves, in constant time.

In:  a `Vtree`.
Out: `MeetingPlaces`, asked with places of leaves counted from the left.
"""

from __future__ import annotations

import numpy as np

from strudel._types import NONE, IntArray
from strudel.trees.vtree import Vtree


class MeetingPlaces:
    """Answers `top(first, last)`: the lowest node above the leaves at two places and between."""

    def __init__(self, vtree: Vtree) -> None:
        first, _ = vtree.node_span
        self.var_place: list[int] = first[vtree.var_leaf].tolist()
        self._leaf: list[int] = vtree.var_leaf[vtree.order].tolist()
        # One inner node stands between any two neighbouring leaves, and the lowest node above a
        # span is the shallowest that stands inside it. Minima over all powers of two answer that.
        inner = np.flatnonzero(vtree.node_var == NONE).astype(np.int32)
        between: IntArray = np.empty(vtree.n_vars - 1, dtype=np.int32)
        between[first[vtree.node_right[inner]] - 1] = inner
        depth = vtree.node_depth
        self._best: list[list[int]] = [between.tolist()]
        self._depth: list[int] = depth.tolist()
        width = 1
        while 2 * width < vtree.n_vars:
            a, b = between[:-width], between[width:]
            between = np.where(depth[a] <= depth[b], a, b)
            self._best.append(between.tolist())
            width *= 2

    def top(self, first: int, last: int) -> int:
        """The lowest node above the leaves at places `first` to `last`, both included."""
        if first == last:
            return self._leaf[first]
        power = (last - first).bit_length() - 1
        a = self._best[power][first]
        b = self._best[power][last - (1 << power)]
        return a if self._depth[a] <= self._depth[b] else b
