"""`strudel warmup`: compile ahead of time, for images and classrooms."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any

from strudel.cli.console import JsonOption, print_json, say


def warmup(as_json: JsonOption = False) -> None:
    """Compile everything that fits, mixtures and queries use.

    Otherwise each function is compiled when it is used for the first time, once per installation.
    The compiled code goes beside the package, or to NUMBA_CACHE_DIR.
    """
    from rich.console import Console

    from strudel import warmup as compile_all

    is_live = sys.stderr.isatty()
    line = Console(stderr=True).status("compiling, once per installation")

    def show(work: str, done: Any) -> None:
        line.update(f"compiling {work}: {done.n_functions} functions, {done.seconds:.0f} s")

    with line if is_live else nullcontext():
        done = compile_all(show if is_live else None)
    if as_json:
        print_json({"n_functions": done.n_functions, "seconds": done.seconds})
    elif done.n_functions:
        say(f"compiled {done.n_functions} functions in {done.seconds:.0f} s")
    else:
        say("everything was compiled before")
