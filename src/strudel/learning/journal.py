"""What a fit has done so far, so that another process can continue where it was killed.

In:  the sections of an earlier process, if there was one, and a way to save them.
Out: `Journal`: code that learns opens a section for every stretch of work; a section that an
     earlier process recorded is done again quickly (operations are replayed, counts of EM taken as
     they are), all others are done and recorded.

Learning is the same sequence of sections for the same rows, options and seed, so a list of them is
enough. A section also restores the state of the random numbers and of the clock: what comes
after it cannot tell whether it was replayed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from strudel._compiling import now
from strudel._types import AnyArray
from strudel.errors import JournalError

Arrays = dict[str, AnyArray]


@dataclass(eq=False)
class Section:
    """One stretch of work: a search until its bounds, or a run of EM."""

    kind: str
    arrays: Arrays = field(default_factory=dict)  # what was done, if an earlier process did it
    stopped_because: str = ""  # empty while it goes on
    seconds: float = 0.0  # on the clock of the journal, at its end or when it was saved
    rng_state: dict[str, Any] | None = None  # also then
    rng: np.random.Generator | None = None
    state: Callable[[], Arrays] | None = None  # what has been done by now

    @property
    def is_recorded(self) -> bool:
        """Whether an earlier process did some of it."""
        return bool(self.arrays)

    def update(self, now: float) -> None:
        """Write down how things stand."""
        assert self.rng is not None
        self.arrays = {} if self.state is None else self.state()
        self.rng_state, self.seconds = dict(self.rng.bit_generator.state), now


class Scorer(Protocol):
    """Whoever has scores that a replay does not give back."""

    def scores(self) -> Arrays:
        """All of them."""


class JournalClock:
    """Seconds of work since a fit began, in whatever process."""

    def __init__(self) -> None:
        self._zero = now()

    def __call__(self) -> float:
        """How many."""
        return now() - self._zero

    def set(self, seconds: float) -> None:
        """Go on from there."""
        self._zero = now() - seconds


class Journal:
    """The sections of a fit, and its clock.

    `recorded` is what an earlier process did, `scores` are those of every search it had under way,
    in the order of their beginnings. `save` is called with the journal about every `seconds`, and
    never in the middle of a step.
    """

    def __init__(
        self,
        recorded: list[Section] | None = None,
        scores: list[Arrays] | None = None,
        save: Callable[[Journal], None] | None = None,
        seconds: float = 60.0,
    ) -> None:
        self.sections: list[Section] = []
        self._recorded = list(reversed(recorded or []))  # the next one last
        self._scores = list(scores or [])
        self._scorers: list[weakref.ref[Scorer]] = []  # a search that is over may leave
        self._save = save
        self._seconds = float(seconds)
        self.now = JournalClock()
        self._next_save = now() + self._seconds

    def begin(
        self, kind: str, rng: np.random.Generator, state: Callable[[], Arrays] | None = None
    ) -> Section:
        """The next section; recorded, if an earlier process has begun it."""
        section = Section(kind)
        if self._recorded:
            section = self._recorded.pop()
            if section.kind != kind:
                raise JournalError(f"it continues with {section.kind}, but {kind} comes next")
        section.rng, section.state = rng, state
        self.sections.append(section)
        return section

    def catch_up(self, section: Section) -> None:
        """Set the random numbers and the clock to what they were, when all is done again."""
        assert section.rng is not None
        if section.rng_state is not None:
            try:
                section.rng.bit_generator.state = section.rng_state
            except (TypeError, ValueError, KeyError, OverflowError) as error:
                raise JournalError("the state of its random numbers is damaged") from error
        self.now.set(section.seconds)

    def end(self, section: Section, stopped_because: str) -> None:
        """Close a section that this process has done to its end."""
        if self._save is not None:  # else nobody will ask
            section.update(self.now())
        section.stopped_because = stopped_because
        section.state = None

    def add_scorer(self, scorer: Scorer) -> int:
        """Have its scores saved; returns its number."""
        self._scorers.append(weakref.ref(scorer))
        return len(self._scorers) - 1

    def scores_of(self, number: int) -> Arrays:
        """The scores that an earlier process had; empty if it had none."""
        return self._scores[number] if number < len(self._scores) else {}

    def all_scores(self) -> list[Arrays]:
        """The scores of every search under way."""
        scorers = [reference() for reference in self._scorers]
        return [{} if scorer is None else scorer.scores() for scorer in scorers]

    def tick(self) -> None:
        """Save, if it is time to; called between two steps."""
        if self._save is None or now() < self._next_save:
            return
        if self.sections and self.sections[-1].state is not None:
            self.sections[-1].update(self.now())
        self._save(self)
        self._next_save = now() + self._seconds


def take(recorded: Arrays, name: str, dtype: Any, shape: tuple[int, ...]) -> AnyArray:
    """One of the recorded arrays, if it is what it should be."""
    found = recorded.get(name)
    if found is None or found.dtype != dtype or found.shape != shape:
        raise JournalError(f"what it says about {name} is damaged")
    return found


def restore_arrays(owner: Any, recorded: Arrays, lengths: dict[str, int]) -> None:
    """Fill the beginnings of an object's arrays with what was recorded."""
    for name, length in lengths.items():
        array = getattr(owner, name)
        array[:length] = take(recorded, name, array.dtype, array[:length].shape)
