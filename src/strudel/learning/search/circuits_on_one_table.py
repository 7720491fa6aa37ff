"""Circuits that share one table: paths in a tree of splits, and how to go from one to another.

In:  a `GrowingCircuit`.
Out: `SplitTree`: `go_to(member)` makes it the circuit of any `Member`.

A member is the split that makes it from its parent. To go to another one is to undo splits up to
the common ancestor and to make those of the other path (`undo.py`), so a member costs what it
differs in from the others. Splits are discarded when no member uses them any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isclose

from strudel._types import NONE, IntArray
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.undo import Edit, UndoableSplits
from strudel.learning.history import History
from strudel.learning.search.heaviest_edges import HeaviestEdges

# The same circuit, reached by splits in another order, has the same likelihood up to rounding.
ROUNDING = 1e-11


@dataclass(eq=False)
class Member:
    """A circuit of the search: the split that makes it from its parent, and what was found."""

    parent: Member | None = None
    edge: int = NONE
    place: int = NONE
    n_splits: int = 0
    row: tuple[float, ...] = ()  # of the history
    size: tuple[int, int, int] = (0, 0, 0)  # sums and parameters more than at first, and edges
    decisive_nodes: IntArray | None = None  # on which it depended what the split changed
    # From when it is split until its children are:
    heaviest: HeaviestEdges | None = None
    tried: dict[int, Member] = field(default_factory=dict)  # its children by edge
    n_uses: int = 0  # places in the beam, and children with uses
    edit: Edit | None = None  # its split, to make it again; only with uses, while it is undone

    @property
    def train(self) -> float:
        """Mean log-likelihood of the training rows."""
        return self.row[1]

    @property
    def valid(self) -> float:
        """Mean log-likelihood of the validation rows; nan without any."""
        return self.row[2]

    def child(self, edge: int, place: int) -> Member:
        """The member that one more split makes, not yet looked at."""
        return Member(self, edge, place, self.n_splits + 1)

    def child_like(self, twin: Member, seconds: float) -> Member:
        """The member that a split makes which did the same to the parent of this one."""
        assert self.parent is not None
        child = self.child(twin.edge, twin.place)
        old, new = self.parent, twin
        n_splits, train, valid, n_edges, _, _ = self.row
        child.row = (
            n_splits + 1,
            train + (new.row[1] - old.row[1]),
            valid + (new.row[2] - old.row[2]),
            n_edges + (new.row[3] - old.row[3]),
            new.row[4],
            seconds,
        )
        child.size = (
            self.size[0] + (new.size[0] - old.size[0]),
            self.size[1] + (new.size[1] - old.size[1]),
            self.size[2] + (new.size[2] - old.size[2]),
        )
        child.decisive_nodes = new.decisive_nodes
        return child

    def path(self) -> list[Member]:
        """From the first circuit to this one."""
        path = [self]
        while path[-1].parent is not None:
            path.append(path[-1].parent)
        return path[::-1]

    def use(self) -> None:
        """Count a place in the beam, or the first use of a child."""
        self.n_uses += 1
        if self.n_uses == 1 and self.parent is not None:
            self.parent.use()

    def release(self) -> None:
        """Take back a use; what is of no use any more need not be made again."""
        member: Member | None = self
        while member is not None:
            member.n_uses -= 1
            if member.n_uses > 0:
                break
            member.edit = None
            member.close()
            member = member.parent

    def close(self) -> None:
        """Forget what only its children need."""
        self.heaviest = None
        self.tried = {}

    def is_like(self, other: Member) -> bool:
        """Whether sizes and likelihood are the same."""
        return self.size == other.size and isclose(self.train, other.train, rel_tol=ROUNDING)


class SplitTree:
    """The growing circuit that all members share: always the circuit of one of them."""

    def __init__(self, growing: GrowingCircuit, history: History) -> None:
        self.growing = growing
        self.history = history
        self.splits = UndoableSplits(growing)
        first = Member(row=history.row_of(growing), size=(0, 0, growing.n_edges))
        self.path = [first]

    @property
    def here(self) -> Member:
        """The member whose circuit it is now."""
        return self.path[-1]

    def is_past(self, member: Member) -> bool:
        """Whether the current circuit passed a member."""
        return member.n_splits < len(self.path) and self.path[member.n_splits] is member

    def go_to(self, member: Member) -> None:
        """Become the circuit of a member, by way of the common ancestor."""
        ahead = []
        while not self.is_past(member):
            ahead.append(member)
            assert member.parent is not None
            member = member.parent
        while self.here is not member:
            self._leave()
        for other in reversed(ahead):
            self._enter(other)

    def _leave(self) -> None:
        """Undo the latest split; keep it if it is going to be made again."""
        member = self.path.pop()
        member.edit = self.splits.undo(keep=member.n_uses > 0)

    def _enter(self, member: Member) -> None:
        """Make the split of a child of the current member; see what it gives, the first time."""
        parent = self.here
        if member.edit is not None:
            self.splits.redo(member.edit)
            member.edit = None
        else:
            self.splits.split(member.edge, member.place)
        self.path.append(member)
        if not member.row:
            member.row = self.history.row_of(self.growing)
            n_nodes, n_parameters = self.splits.size_change()
            member.size = (
                parent.size[0] + n_nodes,
                parent.size[1] + n_parameters,
                self.growing.n_edges,
            )
            member.decisive_nodes = self.splits.decisive_nodes()

    def forget_before(self, members: list[Member]) -> None:
        """Forget how to undo what they all have in common; they are in the order of a walk."""
        apart = max(_n_apart(self.here, members[0]), _n_apart(self.here, members[-1]))
        self.splits.forget(max(apart, 1))  # the latest says what it changed


def _n_apart(one: Member, other: Member) -> int:
    """How many splits the first has made since it was one with the other."""
    n_splits = one.n_splits
    while one is not other:
        later, earlier = (one, other) if one.n_splits > other.n_splits else (other, one)
        assert later.parent is not None
        one, other = later.parent, earlier
    return n_splits - one.n_splits
