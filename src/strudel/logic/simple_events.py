"""Events that need no compiler: literals, and at most one count of other literals.

In:  an `Event`.
Out: `SimpleEvent`, or None if the event is not of this form; its `Sdd` on any vtree.

Rows, dicts, conjunctions, single clauses and counts are of this form, and so is their negation. A
statement that the literals beside it decide is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, NoReturn, TypeAlias

from strudel._names import find_name
from strudel._types import NONE
from strudel.errors import SizeLimitError
from strudel.logic.events import Event, conjuncts
from strudel.logic.sdd import FALSE, FIRST_LITERAL, TRUE, Sdd, without_unused
from strudel.trees.vtree import Vtree

Literal: TypeAlias = int  # 2 * variable + value
MAX_ELEMENTS = 2**21  # of one SDD: about ten seconds and half a GB


class SimpleEvent(NamedTuple):
    """All `literals` hold, and of the `counted` ones between `low` and `high`.

    No variable comes twice. Nothing is counted if the literals are all there is to say.
    """

    literals: tuple[Literal, ...]
    counted: tuple[Literal, ...]
    low: int
    high: int


class _Count(NamedTuple):
    literals: tuple[Literal, ...]
    low: int
    high: int


IMPOSSIBLE = SimpleEvent((), (), 1, 0)  # none of nothing is at least one


def simple_event(event: Event, place: Mapping[str, int]) -> SimpleEvent | None:
    """The simple form of an event, if it has one: it is a conjunction of counts of literals."""
    counts: list[_Count] = []
    for item, operands, holds in conjuncts(event):
        count = _count(item, operands, holds, place)
        if count is None:
            return None
        counts.append(count)
    return _simplify(counts)


def _count(
    item: Event, operands: list[Event], holds: bool, place: Mapping[str, int]
) -> _Count | None:
    """One part of a conjunction as a count of literals."""
    if item.kind in ("sdd", "in"):
        return None
    if item.kind == "constant":
        return _Count((), 1, 0)
    children = [item] if item.kind == "variable" else operands
    literals = []
    for child in children:
        base = child.children[0] if child.kind == "not" else child
        if base.kind != "variable":
            return None
        literals.append(2 * find_name(base.var, place, "The event") + (child.kind != "not"))
    if item.kind == "variable":
        return _Count(tuple(literals), int(holds), int(holds))
    if item.kind in ("and", "or"):  # not all of them, or any of them
        flipped = [literal if item.kind == "or" else literal ^ 1 for literal in literals]
        return _Count(tuple(flipped), 1, len(flipped))
    if item.kind == "implies":
        return _Count((literals[0] ^ 1, literals[1]), 1, 2)
    if item.kind in ("xor", "iff"):
        literals[0] ^= (item.kind == "iff") == holds
        return _Count(tuple(literals), 1, 1)
    assert item.kind == "count"
    low, high = item.low, item.high
    if not holds:  # one side only: two sides leave a gap in the middle
        if low <= 0:
            low, high = high + 1, len(literals)
        elif high >= len(literals):
            low, high = 0, low - 1
        else:
            return None
    return _Count(tuple(literals), low, high)


def _simplify(counts: list[_Count]) -> SimpleEvent | None:
    """Put what is known into the counts until nothing changes; None if more than one is left."""
    known: dict[int, int] = {}
    while True:
        n_known = len(known)
        left: list[_Count] = []
        for count in counts:
            open_count = _without(count, known)
            if open_count is None:
                return None
            literals, low, high = open_count
            if low > high or low > len(literals) or high < 0:
                return IMPOSSIBLE
            if low <= 0 and high >= len(literals):
                continue
            if low == len(literals) or high == 0:  # all of them, or none
                known |= {literal // 2: literal % 2 ^ (high == 0) for literal in literals}
            else:
                left.append(_Count(literals, max(low, 0), min(high, len(literals))))
        counts = left
        if len(known) == n_known:
            break
    if len(counts) > 1:
        return None
    one = counts[0] if counts else _Count((), 0, 0)
    return SimpleEvent(tuple(2 * var + value for var, value in sorted(known.items())), *one)


def _without(count: _Count, known: dict[int, int]) -> _Count | None:
    """A count of variables that are not known, each once; None if one counts twice."""
    literals = set(count.literals)
    if len(literals) < len(count.literals) and not all(lit // 2 in known for lit in literals):
        return None
    n_true = sum(known.get(literal // 2) == literal % 2 for literal in count.literals)
    open_literals = [literal for literal in count.literals if literal // 2 not in known]
    both = {literal // 2 for literal in open_literals if literal ^ 1 in literals}
    n_true += len(both)  # one of a and ~a holds
    kept = tuple(literal for literal in open_literals if literal // 2 not in both)
    return _Count(kept, count.low - n_true, count.high - n_true)


# The SDD of a simple event


class _Need(NamedTuple):
    """A statement about the variables below a vtree node.

    The literals below it hold, and the number of counted ones that do is one of `counts`, whose bit
    j stands for j; or, negated, this is not so.
    """

    counts: int
    is_negated: bool


def simple_sdd(simple: SimpleEvent, vtree: Vtree) -> Sdd:
    """The SDD of a simple event, compressed and trimmed."""
    return _SimpleSdd(simple, vtree).build()


class _SimpleSdd:
    def __init__(self, simple: SimpleEvent, vtree: Vtree) -> None:
        self.simple, self.vtree = simple, vtree
        self.leaf = {literal // 2: literal for literal in (*simple.literals, *simple.counted)}
        is_counted = {literal // 2 for literal in simple.counted}
        # Per vtree node: how many are counted below it, and whether any literal is to hold.
        self.n_counted, self.is_bound = [], []
        self.left, self.right = vtree.node_left.tolist(), vtree.node_right.tolist()
        for l, r, var in zip(self.left, self.right, vtree.node_var.tolist(), strict=True):
            if var != NONE:
                self.n_counted.append(int(var in is_counted))
                self.is_bound.append(var in self.leaf and var not in is_counted)
            else:
                self.n_counted.append(self.n_counted[l] + self.n_counted[r])
                self.is_bound.append(self.is_bound[l] or self.is_bound[r])

    def build(self) -> Sdd:
        vtree = self.vtree
        counts = sum(1 << j for j in range(self.simple.low, self.simple.high + 1))
        top = _Need(counts, False)
        # Down the vtree: what is needed of every node. Up again: the nodes themselves.
        needs: list[dict[_Need, None]] = [{} for _ in range(vtree.n_nodes)]
        needs[vtree.root][top] = None
        n_elements = 0
        for v in range(vtree.n_nodes - 1, -1, -1):
            if self.left[v] != NONE:
                for need in needs[v]:
                    if self._constant(v, need) is None:
                        found = self._elements(v, need)
                        n_elements += len(found)
                        if n_elements > MAX_ELEMENTS:
                            self._refuse()
                        for prime, sub in found:
                            needs[self.left[v]][prime] = None
                            needs[self.right[v]][sub] = None
        decisions: list[tuple[int, list[tuple[int, int]]]] = []
        node: list[dict[_Need, int]] = [{} for _ in range(vtree.n_nodes)]
        first = FIRST_LITERAL + 2 * vtree.n_vars
        for v in range(vtree.n_nodes):
            for need in needs[v]:
                constant = self._constant(v, need)
                if constant is not None:
                    node[v][need] = constant
                elif self.left[v] == NONE:
                    node[v][need] = self._literal(v, need)
                else:
                    below = node[self.left[v]], node[self.right[v]]
                    elements = [(below[0][p], below[1][s]) for p, s in self._elements(v, need)]
                    elements = [element for element in elements if element[0] != FALSE]
                    trimmed = _trim(elements)
                    if trimmed is None:
                        decisions.append((v, elements))
                        trimmed = first + len(decisions) - 1
                    node[v][need] = trimmed
        return without_unused(Sdd.from_decisions(vtree, decisions, node[vtree.root][top]))

    def _refuse(self) -> NoReturn:
        raise SizeLimitError(
            f"A count of {len(self.simple.counted)} variables needs an SDD of more than "
            f"{MAX_ELEMENTS} elements on the vtree of this model.",
            "Count fewer variables.",
            part="count",
        )

    def _constant(self, v: int, need: _Need) -> int | None:
        everything = (2 << self.n_counted[v]) - 1
        if need.counts == 0:
            return TRUE if need.is_negated else FALSE
        if need.counts == everything and not self.is_bound[v]:
            return FALSE if need.is_negated else TRUE
        return None

    def _literal(self, v: int, need: _Need) -> int:
        literal = self.leaf[int(self.vtree.node_var[v])]
        if self.n_counted[v] and need.counts == 1:  # it must not hold
            literal ^= 1
        return FIRST_LITERAL + (literal ^ need.is_negated)

    def _elements(self, v: int, need: _Need) -> list[tuple[_Need, _Need]]:
        """What the left side may be, and what then is left to the right side."""
        everything = (2 << self.n_counted[self.right[v]]) - 1
        by_rest: dict[int, int] = {}  # counts on the right -> counts on the left
        for j in range(self.n_counted[self.left[v]] + 1):
            rest = need.counts >> j & everything
            by_rest[rest] = by_rest.get(rest, 0) | 1 << j
        by_rest.pop(0, None)
        left, right = self.left[v], self.right[v]
        elements = [
            (_Need(prime, False), self._need(right, rest, need.is_negated))
            for rest, prime in by_rest.items()
        ]
        # Primes exhaust the left side: what is none of the above makes the event false.
        covered = sum(by_rest.values())
        outside = self._need(left, covered, True), self._need(right, 0, need.is_negated)
        return [*elements, outside]

    def _need(self, v: int, counts: int, is_negated: bool) -> _Need:
        """A need in the one way it is written: without literals, the negation is other counts."""
        if is_negated and not self.is_bound[v]:
            return _Need((2 << self.n_counted[v]) - 1 ^ counts, False)
        return _Need(counts, is_negated)


def _trim(elements: list[tuple[int, int]]) -> int | None:
    """The node that a decision with these elements is the same as, if there is one."""
    if len(elements) == 1:  # its prime is true
        return elements[0][1]
    if len(elements) == 2 and {elements[0][1], elements[1][1]} == {FALSE, TRUE}:
        return elements[0][0] if elements[0][1] == TRUE else elements[1][0]
    return None
