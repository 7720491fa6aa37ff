"""The runner: cases of a campaign one after another, with limits on time, memory and words."""

from __future__ import annotations

import os
import signal
import time
import traceback
from dataclasses import dataclass, field

import numpy as np

from campaign.densities import Densities
from campaign.files import ModelFiles, Tables, TextFiles
from campaign.kills import Kills
from campaign.questions import Options, Pages

CAMPAIGNS = {
    "text": TextFiles,
    "models": ModelFiles,
    "tables": Tables,
    "densities": Densities,
    "options": Options,
    "pages": Pages,
    "kills": Kills,
}
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # disks are slower than readers
HANG = 10.0  # seconds of one case: of work, so that a busy machine is no finding
STUCK = 60.0  # seconds of one case that may be waiting


class TooLong(BaseException):
    """Not an Exception, so that nothing catches it."""


@dataclass
class Counts:
    """What came of the cases of a campaign."""

    cases: int = 0
    answers: int = 0
    refused: int = 0
    longest_refusal: int = 0
    findings: list[str] = field(default_factory=list)


def run(name, folder, seed, *, seconds=None, cases=None, first=0):
    """Run a campaign for some seconds or cases; case n of a seed is always the same."""
    counts = Counts()
    campaign = CAMPAIGNS[name](folder)
    started = time.perf_counter()
    number = first
    timers = TIMERS if hasattr(signal, "setitimer") else {}
    before = {number: signal.signal(number, _stop) for number in timers}
    try:
        while True:
            took = time.perf_counter() - started
            if (seconds is not None and took > seconds) or number - first == cases:
                break
            _one(campaign, counts, name, seed, number, timers)
            number += 1
    finally:
        for signal_number, handler in before.items():
            signal.signal(signal_number, handler)
    return counts


TIMERS = {signal.SIGPROF: (signal.ITIMER_PROF, HANG), signal.SIGALRM: (signal.ITIMER_REAL, STUCK)}


def _one(campaign, counts, name, seed, number, timers):
    rng = np.random.default_rng([seed, number])
    counts.cases += 1
    try:
        for timer, seconds in timers.values():
            signal.setitimer(timer, seconds)
        kind, length = campaign.case(rng)
        if kind == "answer":
            counts.answers += 1
        else:
            counts.refused += 1
            counts.longest_refusal = max(counts.longest_refusal, length)
    except TooLong:
        counts.findings.append(f"{name} --seed {seed} --only {number}: more than {HANG:g} s")
    except AssertionError as error:
        counts.findings.append(f"{name} --seed {seed} --only {number}: {error}")
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{last.filename.rpartition('strudel/')[2]}:{last.lineno}"
        words = f"{type(error).__name__}: {str(error)[:200]} ({place})"
        counts.findings.append(f"{name} --seed {seed} --only {number}: {words}")
    finally:
        for timer, _ in timers.values():
            signal.setitimer(timer, 0)


def _stop(number, frame):
    """End a case, but not while the compiler is at work, which nothing else waits for."""
    while frame is not None:
        if "numba" in frame.f_code.co_filename or "llvmlite" in frame.f_code.co_filename:
            signal.setitimer(TIMERS[number][0], 1.0)
            return
        frame = frame.f_back
    raise TooLong
