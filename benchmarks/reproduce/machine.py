"""What a result was computed on: processor, versions, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from strudel._memory import total_memory
from strudel._version import __version__

PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "matplotlib")


@cache
def describe_machine() -> dict[str, Any]:
    """Processor, cores, memory, versions and commit."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(total_memory() / 2**30, 1),
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in PACKAGES},
        "strudel": __version__,
        "commit": _commit(),
    }


def peak_memory_mib() -> float | None:
    """The peak memory of this process, where the system reports it."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak) / (2**20 if platform.system() == "Darwin" else 2**10)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration, IndexError):
        return platform.processor()


def _commit() -> str:
    """The commit of the checkout that holds this file."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return ""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--exclude", "*"],
            capture_output=True,
            text=True,
            cwd=root,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
