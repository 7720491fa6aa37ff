"""`strudel warmup`: compile ahead of time, for images and classrooms."""

from __future__ import annotations

from strudel.cli.console import JsonOption, print_json, say


def warmup(as_json: JsonOption = False) -> None:
    """Compile everything that fits, mixtures and queries use.

    Otherwise each function is compiled when it is used for the first time, once per installation.
    The compiled code goes beside the package, or to NUMBA_CACHE_DIR.
    """
    from strudel import warmup as compile_all

    done = compile_all()
    if as_json:
        print_json({"n_functions": done.n_functions, "seconds": done.seconds})
    else:
        say(f"compiled {done.n_functions} functions in {done.seconds:.0f} s")
