"""Any event to an SDD, by PySDD, within bounds of memory and time.

In:  an `Event` and a `Vtree`.
Out: `Sdd` on that vtree; or `SizeLimitError`, which names the part of the event that grew.

A single step of PySDD can take all memory and never end, and cannot be stopped from within. So
steps that may be large are done in a process of their own, with a limit on its memory and time;
small events, nearly all, need none.

PySDD works on the part of the vtree that the event is about: leaves that it does not mention are
taken out and inner nodes with one side left are skipped. An SDD only has nodes where both sides
matter, so it is the same one.
"""

from __future__ import annotations

import math
import os
import pickle  # between a process and its own child only
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np

from strudel._memory import SECONDS_VARIABLE, allowed_seconds, total_memory
from strudel._names import find_name
from strudel._types import NONE
from strudel.errors import MissingDependencyError, SizeLimitError, in_the_middle
from strudel.logic.events import Event, children_first
from strudel.logic.sdd import FALSE, FIRST_LITERAL, TRUE, Sdd, reached_nodes
from strudel.trees.vtree import Vtree, restrict_vtree

MAX_ELEMENTS = 2**23  # of all SDDs of a compilation: about 1 GB
DEAD_ELEMENTS = 2**18  # that may lie around before they are removed
SMALL = 2**11  # elements of all SDDs up to which no step is large
LARGE_STEP = 2**24  # product of the sizes of two SDDs; a step below takes at most some seconds
MOST_BYTES = 2**31  # of the process, or a quarter of the memory
ARRAYS = ("node_vtree", "node_start", "element_prime", "element_sub", "root")


def compile_bounded(event: Event, vtree: Vtree, place: Mapping[str, int]) -> Sdd:
    """The SDD of an event, whatever its form.

    Raises
    ------
    MissingDependencyError
        Without PySDD.
    SizeLimitError
        If the SDD, or one on the way to it, takes too much memory or time.
    """
    try:
        return compile_with_pysdd(event, vtree, place, max_seconds=allowed_seconds())
    except LargeStep:
        return _compile_apart(event, vtree, place)


def _compile_apart(event: Event, vtree: Vtree, place: Mapping[str, int]) -> Sdd:
    """The same in another process, which says on stderr which part it is at."""
    items = [item for item, _ in children_first(event)]
    task = pickle.dumps((event, vtree, dict(place)))
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "strudel.logic.pysdd_compiler"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(_import_folders()), "PYTHONSAFEPATH": "1"},
    )
    is_late = False
    try:
        found, said = child.communicate(task, timeout=allowed_seconds())
    except subprocess.TimeoutExpired:
        is_late = True
        child.kill()
        found, said = child.communicate()
    finally:
        if child.poll() is None:  # after a Ctrl-C
            child.kill()
            child.wait()
    if child.returncode == 0:
        return Sdd(vtree, *pickle.loads(found))
    if is_late:
        why = f"takes longer than {allowed_seconds():g} s"
    elif b"elements" in said.split():
        why = f"needs an SDD of more than {MAX_ELEMENTS} elements"
    elif b"alloc failed" in said or b"MemoryError" in said:  # by PySDD, by Python
        why = f"takes more than {_most_bytes() / 2**30:.1f} GiB of memory"
    elif child.returncode < 0:
        why = f"ended the process that compiled it (signal {-child.returncode})"
    else:
        last = said.decode(errors="replace").split("\n")[-2:]
        raise RuntimeError(
            f"The process that compiles events failed (exit code {child.returncode}): "
            f"{in_the_middle(' '.join(last), 200)}"
        )
    steps = [int(line) for line in said.split() if line.isdigit()]
    part = items[steps[-1]] if steps else event
    raise SizeLimitError(
        f"The event cannot be compiled on the vtree of this model: its part "
        f"{in_the_middle(repr(part), 90)} {why}.",
        "Split it, ask about fewer variables at a time, or allow more time with "
        f"{SECONDS_VARIABLE}.",
        part=part,
    )


def _import_folders() -> list[str]:
    """Where the other process finds modules: as here, but never in the current folder.

    That may be anyone's folder, such as one of downloads. If this package itself lies there, it is
    found last, after all that is installed.
    """
    here = Path.cwd().resolve()
    folders = [folder for folder in sys.path if folder and Path(folder).resolve() != here]
    return [*folders, str(Path(__file__).resolve().parents[2])]


def _most_bytes() -> int:
    return min(MOST_BYTES, total_memory() // 4)


def serve(source: IO[bytes], target: IO[bytes], log: IO[Any]) -> int:
    """Compile what stands on a stream, in a process of its own; returns the exit code."""
    event, vtree, place = pickle.load(source)

    def on_part(number: int) -> None:
        print(number, file=log, flush=True)

    try:
        sdd = compile_with_pysdd(event, vtree, place, on_part=on_part, is_apart=True)
    except SizeLimitError:
        print("elements", file=log, flush=True)
        return 1
    pickle.dump([getattr(sdd, name) for name in ARRAYS], target)
    return 0


def _bound_memory() -> None:
    """Let no allocation go beyond the limit, where the system can."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        pages = int(open("/proc/self/statm", encoding="ascii").read().split()[0])  # noqa: SIM115
        most = pages * resource.getpagesize() + _most_bytes()
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


class LargeStep(Exception):  # noqa: N818 (no error: the step belongs into a process of its own)
    """A step may take more memory and time than a process that goes on should risk."""


def compile_with_pysdd(
    event: Event,
    vtree: Vtree,
    place: Mapping[str, int],
    *,
    max_seconds: float = math.inf,
    on_part: Callable[[int], None] = lambda _: None,
    is_apart: bool = False,
) -> Sdd:
    """The SDD of an event, whatever its form.

    `on_part` is told the number of every part of the event before it is compiled.

    Raises
    ------
    LargeStep
        Unless this process `is_apart`, if a step may be large.
    MissingDependencyError
        Without PySDD.
    SizeLimitError
        If the SDD, or one on the way to it, is too large or takes too long.
    """
    used = _used_variables(event, place)
    if not used:
        constant = bool(event.holds([[0] * len(place)], list(place))[0])
        return Sdd.from_decisions(vtree, [], TRUE if constant else FALSE)
    return _Compiler(vtree, used, max_seconds, on_part, is_apart).compile(event, place)


def _used_variables(event: Event, place: Mapping[str, int]) -> set[int]:
    used: set[int] = set()
    for item, _ in children_first(event):
        if item.kind == "variable":
            used.add(find_name(item.var, place, "The event"))
        elif item.sdd is not None:
            nodes = reached_nodes(item.sdd)
            is_literal = (nodes >= FIRST_LITERAL) & (nodes < item.sdd.first_decision)
            used |= set(((nodes[is_literal] - FIRST_LITERAL) // 2).tolist())
    return used


def _import_pysdd() -> Any:
    try:
        from pysdd import sdd
    except ImportError as error:
        raise MissingDependencyError(
            "This event is compiled by PySDD, which is not installed: pip install "
            "'strudel-pc[logic]'. Rows, conjunctions, single clauses, counts of variables, and for "
            "probabilities any formula of a few conditions, need no compiler."
        ) from error
    return sdd


class _Compiler:
    """A manager of PySDD over some variables, and the way back to the whole vtree."""

    def __init__(
        self,
        vtree: Vtree,
        used: set[int],
        max_seconds: float,
        on_part: Callable[[int], None],
        is_apart: bool,
    ) -> None:
        pysdd = _import_pysdd()
        self.whole = vtree
        self.vars = sorted(used)  # PySDD's variable i + 1 is vars[i]
        self.number = {var: i + 1 for i, var in enumerate(self.vars)}
        self.vtree, _, origin = restrict_vtree(vtree, self.vars)
        self.origin: list[int] = origin.tolist()
        position = _positions(self.vtree)
        self.at = {place: v for v, place in enumerate(position)}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "event.vtree"
            path.write_text(_vtree_file(self.vtree, position), encoding="ascii")
            self.manager = pysdd.SddManager.from_vtree(pysdd.Vtree.from_file(str(path)))
        self.manager.auto_gc_and_minimize_off()  # minimising would change the vtree
        self.max_seconds, self.on_part, self.is_apart = max_seconds, on_part, is_apart
        self.part: Event | None = None  # that is being compiled
        self.started = time.monotonic()

    def compile(self, event: Event, place: Mapping[str, int]) -> Sdd:
        manager = self.manager
        node: dict[int, Any] = {}
        for number, (item, operands) in enumerate(children_first(event)):
            self.part = item
            self.on_part(number)
            below = [node[id(child)] for child in operands]
            if item.kind == "variable":
                var = find_name(item.var, place, "The event")
                result = manager.literal(self.number[var])
            elif item.kind == "constant":
                result = manager.true() if item.low == 1 else manager.false()
            elif item.kind == "not":
                result = manager.negate(below[0])
            elif item.kind == "and":
                result = self._join_all(below, manager.conjoin, manager.true())
            elif item.kind == "or":
                result = self._join_all(below, manager.disjoin, manager.false())
            elif item.kind == "implies":
                result = self._join(manager.disjoin, manager.negate(below[0]), below[1])
            elif item.kind in ("xor", "iff"):
                other = below[1] if item.kind == "xor" else manager.negate(below[1])
                result = self._choose(below[0], manager.negate(other), other)
            elif item.kind == "count":
                result = self._count(below, item.low, item.high)
            else:
                assert item.sdd is not None
                result = self._load(item.sdd)
            node[id(item)] = result
        return self._unload(node[id(event)])

    def _join(self, join: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        """One step, after which nodes that are no longer used may be removed."""
        is_small = self.is_apart or self.manager.size() < SMALL
        if not is_small and a.size() * b.size() > LARGE_STEP:
            raise LargeStep
        result = join(a, b)
        if self.manager.dead_size() > DEAD_ELEMENTS:
            self.manager.garbage_collect()
        if self.manager.size() > MAX_ELEMENTS:
            self._refuse(f"needs an SDD of more than {MAX_ELEMENTS} elements")
        if time.monotonic() - self.started > self.max_seconds:
            self._refuse(f"takes longer than {self.max_seconds:g} s")
        return result

    def _refuse(self, why: str) -> NoReturn:
        assert self.part is not None
        raise SizeLimitError(
            "The event cannot be compiled on the vtree of this model: its part "
            f"{in_the_middle(repr(self.part), 90)} {why}.",
            "Split it, or ask about fewer variables at a time.",
            part=self.part,
        )

    def _choose(self, test: Any, then: Any, otherwise: Any) -> Any:
        manager = self.manager
        yes = self._join(manager.conjoin, test, then)
        no = self._join(manager.conjoin, manager.negate(test), otherwise)
        return self._join(manager.disjoin, yes, no)

    def _join_all(self, nodes: list[Any], join: Callable[[Any, Any], Any], none: Any) -> Any:
        """Join from the leaves of the vtree up: those that share most variables come together."""
        by_place: dict[int, list[Any]] = defaultdict(list)
        for node in nodes:
            if node.is_true() or node.is_false():
                none = join(none, node)
            else:
                by_place[self._place(node)].append(node)
        left, right = self.vtree.node_left.tolist(), self.vtree.node_right.tolist()
        joined: dict[int, Any] = {}
        for v in range(self.vtree.n_nodes):
            here = [joined.pop(child) for child in (left[v], right[v]) if child in joined]
            here += sorted(by_place.get(v, ()), key=lambda node: node.size())
            while len(here) > 1:
                here[:2] = [self._join(join, here[0], here[1])]
            if here:
                joined[v] = here[0]
        return join(none, joined[self.vtree.root]) if joined else none

    def _count(self, items: list[Any], low: int, high: int) -> Any:
        """Between `low` and `high` of the items hold; one after another, from left to right."""
        manager, n = self.manager, len(items)
        items = sorted(items, key=self._place)
        most = high + 1 if high < n else low  # counts of `most` and more are one case
        found = {0: manager.true()}
        for item in items:
            negation = manager.negate(item)
            after: dict[int, Any] = {}
            for j, node in found.items():
                for k, test in ((j, negation), (min(j + 1, most), item)):
                    way = self._join(manager.conjoin, node, test)
                    after[k] = self._join(manager.disjoin, after[k], way) if k in after else way
            found = after
        kept = [node for j, node in found.items() if low <= j <= high]
        return self._join_all(kept, manager.disjoin, manager.false())

    def _place(self, node: Any) -> int:
        """The vtree node of an SDD node; any for a constant."""
        vtree = node.vtree()
        return 0 if vtree is None else self.at[vtree.position()]

    def _load(self, sdd: Sdd) -> Any:
        """An SDD on any vtree."""
        manager = self.manager
        node = {FALSE: manager.false(), TRUE: manager.true()}
        for n in reached_nodes(sdd).tolist():
            if FIRST_LITERAL <= n < sdd.first_decision:
                var, value = divmod(n - FIRST_LITERAL, 2)
                node[n] = manager.literal(self.number[var] if value else -self.number[var])
            elif n >= sdd.first_decision:
                elements = [
                    self._join(manager.conjoin, node[prime], node[sub])
                    for prime, sub in sdd.elements(n)
                ]
                node[n] = self._join_all(elements, manager.disjoin, manager.false())
        return node[sdd.root]

    def _unload(self, root: Any) -> Sdd:
        """PySDD's nodes below the root, as our own on the whole vtree."""
        first = FIRST_LITERAL + 2 * self.whole.n_vars
        number: dict[int, int] = {}
        decisions: list[tuple[int, list[tuple[int, int]]]] = []
        todo: list[tuple[Any, list[tuple[Any, Any]] | None]] = [(root, None)]
        while todo:
            node, elements = todo.pop()
            if node.id in number:
                continue
            if not node.is_decision():
                number[node.id] = self._terminal(node)
            elif elements is None:
                elements = node.elements()
                todo.append((node, elements))
                todo += [
                    (child, None) for pair in elements for child in pair if child.id not in number
                ]
            else:
                pairs = [(number[prime.id], number[sub.id]) for prime, sub in elements]
                decisions.append((self.origin[self._place(node)], pairs))
                number[node.id] = first + len(decisions) - 1
        return Sdd.from_decisions(self.whole, decisions, number[root.id])

    def _terminal(self, node: Any) -> int:
        if node.is_literal():
            literal = node.literal
            return FIRST_LITERAL + 2 * self.vars[abs(literal) - 1] + (literal > 0)
        return TRUE if node.is_true() else FALSE


def _positions(vtree: Vtree) -> list[int]:
    """Where every node stands from left to right: an inner one between its two sides."""
    first, _ = vtree.node_span
    is_leaf = vtree.node_var != NONE
    places: list[int] = np.where(is_leaf, 2 * first, 2 * first[vtree.node_right] - 1).tolist()
    return places


def _vtree_file(vtree: Vtree, position: list[int]) -> str:
    lines = [f"vtree {vtree.n_nodes}"]
    for v, var in enumerate(vtree.node_var.tolist()):
        if var != NONE:
            lines.append(f"L {position[v]} {var + 1}")
        else:
            left, right = position[vtree.node_left[v]], position[vtree.node_right[v]]
            lines.append(f"I {position[v]} {left} {right}")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    _bound_memory()
    sys.exit(serve(sys.stdin.buffer, sys.stdout.buffer, sys.stderr))
