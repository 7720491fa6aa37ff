"""Checkpoints: a file, written about every minute, from which an interrupted fit continues.

In:  a path.
Out: `Checkpoint`, which `fit` takes.

The file is an archive like that of a model (see `archive`). It says which fit it belongs to and
holds the sections of its `Journal`. Nothing in it is ever executed, and every operation is checked
before it is done.
"""

from __future__ import annotations

import math
import os
import warnings
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from strudel._files import Lock, remove_abandoned
from strudel._types import AnyArray
from strudel._version import __version__
from strudel.data.argument_checks import check_size
from strudel.errors import FileFormatError, OtherFitError
from strudel.io.archive import Archive, expect, read_archive, write_archive
from strudel.learning.journal import Arrays, Journal, Section

FORMAT = "strudel checkpoint"
VERSION = 1
TYPES = ("<i4", "<i8", "<f8")
ADVICE = "Remove it, or give another path, to start again."


class Checkpoint:
    """A file from which an interrupted fit continues, to the same model.

    `fit` writes it about every minute, completely or not at all, and removes it when it is done. A
    second `fit` with the same rows and options continues from it; other rows or options are an
    error. Without a time limit the model is the same as without an interruption; with one, the time
    of all processes counts.

    Parameters
    ----------
    path : path-like
        Usually ends in ``.part``.
    seconds : float, default=60
        Time between two writes.

    Examples
    --------
    >>> import numpy as np
    >>> from strudel import Strudel
    >>> from strudel.io import Checkpoint
    >>> X = np.random.default_rng(0).integers(0, 2, size=(200, 5))
    >>> model = Strudel(n_components=1, random_state=0).fit(X, checkpoint=Checkpoint("survey.part"))
    """

    def __init__(self, path: str | os.PathLike[str], seconds: float = 60.0) -> None:
        check_size("seconds", seconds)
        self.path = Path(path)
        self.seconds = float(seconds)
        self._lock: Lock | None = None

    def __repr__(self) -> str:
        return f"Checkpoint({str(self.path)!r}, seconds={self.seconds:g})"

    def open(self, fit: dict[str, Any]) -> Journal:
        """The journal of a fit; a damaged file, or that of another fit, is refused.

        While another process writes the file, this fit goes on without it.
        """
        if not self.claim():
            warnings.warn(
                f"The checkpoint {str(self.path)!r} belongs to another fit, which is running. This "
                "one has no checkpoint.",
                RuntimeWarning,
                stacklevel=2,
            )
            return Journal()
        sections: list[Section] = []
        scores: list[Arrays] = []
        if self.path.exists():
            sections, scores = self._read(fit)

        def save(journal: Journal) -> None:
            try:
                self._write(fit, journal)
            except OSError as error:  # a full disk must not end the fit
                warnings.warn(
                    f"The checkpoint {str(self.path)!r} could not be written: {error.strerror}.",
                    RuntimeWarning,
                    stacklevel=2,
                )

        return Journal(sections, scores, save, self.seconds)

    def claim(self) -> bool:
        """Whether no other process writes the file; none can from now on, until it is removed.

        A second fit of this process takes the file over: the first one is done.
        """
        place = self._lock_file()
        if self._lock is not None or not place.parent.is_dir():
            return True
        try:
            while self._lock is None:
                place.touch()
                self._lock = Lock.on(place)
                if self._lock is None and place.exists():
                    return place.read_text(encoding="ascii") == str(os.getpid())
            place.write_text(str(os.getpid()), encoding="ascii")
            weakref.finalize(self, _leave, place, self._lock)  # also if the fit fails
        except OSError:  # nothing can be written here, as `save` will say
            pass
        return True

    def _lock_file(self) -> Path:
        final = Path(os.path.realpath(self.path))
        return final.with_name(f".{final.name}.lock")

    def remove(self) -> None:
        """Delete the file, if it is ours, and files that an interrupted write left."""
        if not self.claim():
            return
        final = Path(os.path.realpath(self.path))
        remove_abandoned(final)
        final.unlink(missing_ok=True)
        with suppress(OSError):
            self._lock_file().unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _write(self, fit: dict[str, Any], journal: Journal) -> None:
        packed = _Pack()
        meta = {
            "format": FORMAT,
            "version": VERSION,
            "strudel": __version__,
            "fit": fit,
            "sections": [
                {
                    "kind": section.kind,
                    "stopped_because": section.stopped_because,
                    "seconds": section.seconds,
                    "rng_state": section.rng_state,
                    "arrays": packed.add(section.arrays),
                }
                for section in journal.sections
            ],
            "scores": [packed.add(scores) for scores in journal.all_scores()],
        }
        write_archive(self.path, meta, packed.arrays())

    def _read(self, fit: dict[str, Any]) -> tuple[list[Section], list[Arrays]]:
        def read(archive: Archive) -> tuple[list[Section], list[Arrays]]:
            meta = archive.meta
            if meta.get("format") != FORMAT:
                raise FileFormatError("its meta.json does not say that it is a checkpoint")
            if meta.get("version") != VERSION or meta.get("strudel") != __version__:
                raise FileFormatError(
                    f"it was written by Strudel {meta.get('strudel')}, and this is {__version__}"
                )
            if not archive.is_as_saved():
                raise OtherFitError("it was changed after it was saved.", ADVICE)
            _check_same(fit, expect(meta.get("fit"), dict, "the fit"))
            packed = _Pack(archive)
            sections = [
                _section_from(expect(one, dict, "a section"), packed)
                for one in expect(meta.get("sections"), list, "the sections")
            ]
            if any(not section.stopped_because for section in sections[:-1]):
                raise FileFormatError("a section before the last one has no end")
            scores = expect(meta.get("scores"), list, "the scores")
            return sections, [packed.take(index) for index in scores]

        return read_archive(self.path, read, "checkpoint")


def _leave(place: Path, lock: Lock) -> None:
    """Remove the file of a lock, unless somebody else has it by now."""
    if lock.is_held:
        with suppress(OSError):
            place.unlink(missing_ok=True)
        lock.release()


def _check_same(fit: dict[str, Any], other: dict[str, Any]) -> None:
    """Refuse the checkpoint of another fit, and say what differs."""
    if other.get("estimator") != fit["estimator"]:
        raise OtherFitError(
            f"it belongs to the fit of a {other.get('estimator')}, not of a {fit['estimator']}.",
            ADVICE,
        )
    options = expect(other.get("options"), dict, "the options")
    for name in fit["options"]:
        if options.get(name) != fit["options"][name]:
            before, now = _differences(str(options.get(name)), str(fit["options"][name]))
            raise OtherFitError(
                f"it belongs to a fit with {name}={before}, and now it is {now}.", ADVICE
            )
    if other.get("rows") != fit["rows"]:
        raise OtherFitError("it belongs to a fit to other rows.", ADVICE)


def _differences(before: str, now: str) -> tuple[str, str]:
    """Two objects in words, without the options that they share."""
    parts = [text.rstrip("}").replace("{", "{, ").split(", ") for text in (before, now)]
    if "{" not in now or len(parts[0]) != len(parts[1]):
        return before, now
    pairs = [pair for pair in zip(*parts, strict=True) if pair[0] != pair[1] or "{" in pair[0]]
    first, second = (
        ", ".join(column).replace("{, ", "{") + "}" for column in zip(*pairs, strict=True)
    )
    return first, second


def _section_from(state: dict[str, Any], packed: _Pack) -> Section:
    seconds = state.get("seconds")
    if not isinstance(seconds, int | float) or not 0.0 <= seconds < math.inf:
        raise FileFormatError("a section does not say how many seconds it took")
    section = Section(
        expect(state.get("kind"), str, "the kind of a section"),
        packed.take(state.get("arrays")),
        expect(state.get("stopped_because"), str, "the end of a section"),
        float(seconds),
        expect(state.get("rng_state"), dict, "the state of the random numbers"),
    )
    if not section.is_recorded:
        raise FileFormatError("a section is empty")
    return section


class _Pack:
    """Many small arrays packed into one large array per type, with an index of names and shapes."""

    def __init__(self, archive: Archive | None = None) -> None:
        self._parts: dict[str, list[AnyArray]] = {dtype: [] for dtype in TYPES}
        self._used = dict.fromkeys(TYPES, 0)
        if archive is not None:
            self._parts = {dtype: [archive.read_array(_name(dtype), (dtype,))] for dtype in TYPES}

    def add(self, arrays: Arrays) -> list[Any]:
        """Append arrays; returns their index."""
        index = []
        for name, array in arrays.items():
            dtype = array.dtype.newbyteorder("<").str
            self._parts[dtype].append(array.astype(dtype).ravel())
            index.append([name, dtype, list(array.shape)])
        return index

    def arrays(self) -> dict[str, AnyArray]:
        """The large arrays."""
        return {
            _name(dtype): np.concatenate([np.empty(0, dtype), *parts])
            for dtype, parts in self._parts.items()
        }

    def take(self, index: Any) -> Arrays:
        """The arrays of an index, in the order in which they were appended."""
        found: Arrays = {}
        for entry in expect(index, list, "an index"):
            name, dtype, shape = expect(entry, list, "an entry of an index")
            lengths = expect(shape, list, "a shape")
            if dtype not in TYPES or not all(type(n) is int and n >= 0 for n in lengths):
                raise FileFormatError("an index is damaged")
            first, n = self._used[dtype], math.prod(lengths)
            part = self._parts[dtype][0][first : first + n]
            if len(part) != n:
                raise FileFormatError("an index refers to more numbers than there are")
            self._used[dtype] = first + n
            # Native, as learning has them.
            found[expect(name, str, "a name")] = part.reshape(lengths).astype(dtype[1:])
        return found


def _name(dtype: str) -> str:
    return f"checkpoint.{dtype[1:]}"
