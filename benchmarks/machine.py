"""What a benchmark ran on, and how its json is written."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy
import sklearn

import strudel


def describe() -> dict[str, Any]:
    """Processor, cores, versions and commit."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": numba.get_num_threads(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
        "scikit-learn": sklearn.__version__,
        "strudel": strudel.__version__,
        "commit": _commit(),
    }


def write(path: str | None, results: Any) -> None:
    """Write results beside the machine's description; nothing without a path."""
    if path is not None:
        text = json.dumps({"machine": describe(), "results": results}, indent=1)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text + "\n")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def _commit() -> str:
    here = Path(__file__).parent
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        cwd=here,
        check=False,
    )
    return done.stdout.strip()
