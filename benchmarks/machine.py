"""How a benchmark's json is written: beside the description of the machine it ran on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reproduce.machine import describe_machine

from strudel._numba import n_threads


def write(path: str | None, results: Any) -> None:
    """Write results beside the machine's description; nothing without a path."""
    if path is not None:
        machine = {**describe_machine(), "threads": n_threads()}
        text = json.dumps({"machine": machine, "results": results}, indent=1)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text + "\n")
