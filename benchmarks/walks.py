"""How much of the library a reader walks through: files, functions, and the deepest chain of calls.

In:  the name of a way (all of them without one).
Out: one line per way: files of `src/strudel` that ran, their functions, and the depth of calls.

Imports do not count, nor do calls inside compiled code, comprehensions and lambdas. Calls of all
threads count.

    python benchmarks/walks.py [way ...] [--list]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pandas as pd

import strudel

HOME = str(Path(strudel.__file__).parent)


class Walk:
    """The functions that ran while it was open."""

    def __init__(self) -> None:
        self.functions: dict[tuple[str, str], int] = {}
        self.depth = 0
        self._local = threading.local()

    def __enter__(self) -> Walk:
        threading.setprofile(self._event)
        sys.setprofile(self._event)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _event(self, frame, event: str, arg: object) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if not code.co_filename.startswith(HOME) or code.co_name in (
            "<module>",
            "<listcomp>",
            "<dictcomp>",
            "<setcomp>",
            "<genexpr>",
            "<lambda>",
        ):
            return
        if event == "call":
            deep = getattr(self._local, "depth", 0) + 1
            self._local.depth = deep
            self.depth = max(self.depth, deep)
            place = (code.co_filename, code.co_qualname)
            self.functions[place] = self.functions.get(place, 0) + 1
        else:
            self._local.depth = max(0, getattr(self._local, "depth", 0) - 1)

    def __str__(self) -> str:
        files = {file for file, _ in self.functions}
        return f"{len(files)} / {len(self.functions)} / {self.depth}"


def binary_rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.integers(0, 2, size=(600, 1)).repeat(8, axis=1) ^ (rng.random((600, 8)) < 0.2)


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 600
    smoker = rng.random(n) < 0.3
    age = rng.normal(50, 15, n).round()
    pressure = 110 + 0.4 * age + 8 * smoker + rng.normal(0, 8, n)
    city = rng.choice(["Rome", "Oslo", "Lima"], n)
    frame = pd.DataFrame(
        {"age": age, "smoker": np.where(smoker, "yes", "no"), "pressure": pressure, "city": city}
    )
    frame.loc[rng.random(n) < 0.1, "pressure"] = np.nan
    return frame


def fit_rows() -> None:
    strudel.Strudel(n_components=1, random_state=0).fit(binary_rows())


def fit_table() -> strudel.Strudel:
    return strudel.Strudel(n_components=1, random_state=0).fit(table())


def fit_mixture() -> strudel.Strudel:
    return strudel.Strudel(random_state=0).fit(table())


def ask(model: strudel.Strudel) -> None:
    model.probability("pressure > 140", given={"age": (60, None), "smoker": "yes"})


def impute() -> None:
    strudel.StrudelImputer(random_state=0).fit_transform(table())


def command_line(folder: Path) -> None:
    from strudel.cli.main import main

    try:
        main(["fit", str(folder / "my.csv")])
    except SystemExit as end:
        if end.code:
            raise


def run(name: str) -> Walk:
    """Walk one of the ways; whatever it needs is made before."""
    walk = Walk()
    if name == "single circuit of 0/1 rows":
        with walk:
            fit_rows()
    elif name == "single circuit of a table":
        with walk:
            fit_table()
    elif name == "probability, single circuit of a table":
        model = fit_table()
        with walk:
            ask(model)
    elif name == "mixture of a table":
        with walk:
            fit_mixture()
    elif name == "probability, mixture of a table":
        model = fit_mixture()
        with walk:
            ask(model)
    elif name == "imputer":
        with walk:
            impute()
    elif name == "load a model":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.strudel"
            strudel.save(fit_table(), path)
            with walk:
                strudel.load(path)
    elif name == "strudel fit my.csv":
        with tempfile.TemporaryDirectory() as folder:
            table().to_csv(Path(folder) / "my.csv", index=False)
            with walk:
                command_line(Path(folder))
    else:
        raise SystemExit(f"no way is called {name!r}; there are {', '.join(WAYS)}")
    return walk


WAYS = (
    "single circuit of 0/1 rows",
    "single circuit of a table",
    "probability, single circuit of a table",
    "mixture of a table",
    "probability, mixture of a table",
    "imputer",
    "load a model",
    "strudel fit my.csv",
)


def main(arguments: list[str]) -> None:
    """Each way in its own process; the second time counts, when all is imported and compiled."""
    names = [name for name in arguments if not name.startswith("--")]
    if len(names) == 1:
        run(names[0])  # imports what it needs
    if "--list" in arguments:
        for (file, function), n in sorted(run(names[0]).functions.items()):
            print(f"{Path(file).relative_to(HOME)}  {function}  {n}")
        return
    if len(names) == 1:
        print(f"{names[0]}: {run(names[0])}", flush=True)
        return
    for name in names or WAYS:
        subprocess.run([sys.executable, __file__, name], check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main(sys.argv[1:])
