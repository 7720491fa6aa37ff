"""Any event to an SDD, within bounds of memory and time.

In:  an `Event` and a `Vtree`.
Out: `Sdd` on that vtree; or `SizeLimitError`, which names the part of the event that grew.

A single step of PySDD can take all memory and never end, and cannot be stopped from within. So
steps that may be large are done in a process of their own, with a limit on its memory and time;
small events, nearly all, need none.
"""

from __future__ import annotations

import os
import pickle  # between a process and its own child only
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from strudel._memory import SECONDS_VARIABLE, allowed_seconds, total_memory
from strudel.errors import SizeLimitError, in_the_middle
from strudel.logic.events import Event, children_first
from strudel.logic.pysdd_compiler import MAX_ELEMENTS, LargeStep, compile_with_pysdd
from strudel.logic.sdd import Sdd
from strudel.trees.vtree import Vtree

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
        [sys.executable, "-P", "-m", "strudel.logic.bounded_compiler"],
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


if __name__ == "__main__":
    _bound_memory()
    sys.exit(serve(sys.stdin.buffer, sys.stdout.buffer, sys.stderr))
