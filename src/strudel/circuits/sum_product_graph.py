"""Sum-product graphs: circuits as files hold them, before they are in our normal form.

In:  nodes one at a time, children first: literals, tables over the values of one variable, products
     of many children, sums of anything.
Out: `SumProductGraph`, plain lists that `normal_form` turns into a circuit.

A product without children is true and a sum without children is false; only logic has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

LITERAL: Final = 0
PRODUCT: Final = 1
SUM: Final = 2
TABLE: Final = 3


class SumProductGraph:
    """Nodes in an order that puts children first; the last is the root."""

    def __init__(self) -> None:
        self.node_kind: list[int] = []
        self.node_literal: list[int] = []  # 2 * variable + value; of a table 2 * variable; or 0
        self.node_children: list[Sequence[int]] = []
        self.node_log_weights: list[Sequence[float]] = []  # one per child of a sum, or value

    @property
    def n_nodes(self) -> int:
        """Number of nodes so far."""
        return len(self.node_kind)

    @property
    def root(self) -> int:
        """The last node."""
        return self.n_nodes - 1

    def add_literal(self, literal: int) -> int:
        """Add the literal `2 * variable + value`; returns its number."""
        return self._add(LITERAL, literal, (), ())

    def add_table(self, var: int, log_weights: Sequence[float]) -> int:
        """Add a weight for every value of a variable; returns its number."""
        return self._add(TABLE, 2 * var, (), log_weights)

    def add_product(self, children: Sequence[int]) -> int:
        """Add a product; returns its number."""
        return self._add(PRODUCT, 0, children, ())

    def add_sum(self, children: Sequence[int], log_weights: Sequence[float]) -> int:
        """Add a sum; returns its number."""
        return self._add(SUM, 0, children, log_weights)

    def _add(
        self, kind: int, literal: int, children: Sequence[int], log_weights: Sequence[float]
    ) -> int:
        self.node_kind.append(kind)
        self.node_literal.append(literal)
        self.node_children.append(children)
        self.node_log_weights.append(log_weights)
        return len(self.node_kind) - 1

    def reached(self) -> list[int]:
        """The nodes below the root and the root itself, children first."""
        is_reached = bytearray(self.n_nodes)
        is_reached[self.root] = 1
        for node in range(self.root, -1, -1):
            if is_reached[node]:
                for child in self.node_children[node]:
                    is_reached[child] = 1
        return [node for node in range(self.n_nodes) if is_reached[node]]

    def variables(self) -> set[int]:
        """The variables below the root."""
        return {
            self.node_literal[node] // 2
            for node in self.reached()
            if self.node_kind[node] in (LITERAL, TABLE)
        }
