"""Kills: commands that write are killed at a random moment, and run again.

A copy of this process runs the command, so that nothing needs to be loaded again.
"""

from __future__ import annotations

import io
import os
import signal
import time
import warnings
from contextlib import redirect_stderr, redirect_stdout

import numpy as np

import strudel
from campaign.agreement import need
from campaign.files import ANSWER, same_model
from campaign.seeds import mixed_table
from makers import rows_of_kinds
from strudel.cli import main as command_line

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
QUIET = ("-q",)
FITS = {
    "greedy": ("bits.csv", "--max-splits", "40", "--set", "patience=1000"),
    "best_first": ("bits.csv", "--search", "best_first", "--max-splits", "25"),
    "mixture": ("bits.csv", "--components", "3", "--max-splits", 5),
    "gaps": ("gaps.csv", "--max-splits", "5"),
    "encoded": ("mixed.csv", "--components", "1", "--max-splits", "20"),
}
OTHERS = {
    "score": ("score", "m.strudel", "bits.csv", "-o", "out.csv"),
    "sample": ("sample", "m.strudel", "-n", "3000", "-o", "out.csv"),
    "impute": ("impute", "m.strudel", "gaps.csv", "-o", "out.csv"),
    "convert": ("convert", "m.strudel", "out.psdd"),
}


def main(command):
    """Run a command and return its exit code; nobody reads what it says."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return command_line.main(list(command))


class Kills:
    """Every command that writes."""

    def __init__(self, folder):
        self.folder = folder
        X = rows_of_kinds(n_rows=300, n_vars=8)
        names = ",".join("abcdefgh")
        lines = [",".join(map(str, row)) for row in X]
        (folder / "bits.csv").write_text("\n".join([names, *lines]))
        holes = np.where(np.random.default_rng(0).random(X.shape) < 0.1, "?", X.astype(str))
        gaps = [",".join(row) for row in holes[:80]]
        (folder / "gaps.csv").write_text("\n".join([names, *gaps]))
        mixed_table(200).to_csv(folder / "mixed.csv", index=False)
        before = os.getcwd()
        os.chdir(folder)
        try:
            self.seconds, self.whole = {}, {}
            need(main(["fit", *FITS["greedy"], "-o", "m.strudel", "-q"]) == 0, "a fit")
            for name, options in FITS.items():
                start = time.perf_counter()
                need(main(["fit", *options, *QUIET, "-o", f"{name}.strudel"]) == 0, name)
                self.seconds[name] = time.perf_counter() - start
                self.whole[name] = strudel.load(f"{name}.strudel")
            for name, command in OTHERS.items():
                start = time.perf_counter()
                need(main(list(command)) == 0, name)
                self.seconds[name] = time.perf_counter() - start
                self.whole[name] = (folder / command[-1]).read_bytes()
                (folder / command[-1]).unlink()
        finally:
            os.chdir(before)
        self.sound = set(os.listdir(folder))

    def case(self, rng):
        before = os.getcwd()
        os.chdir(self.folder)
        try:
            return self._case(rng)
        finally:
            os.chdir(before)

    def _case(self, rng):
        for file in set(os.listdir(".")) - self.sound:  # of a case that was stopped
            os.unlink(file)
        name = list(self.seconds)[int(rng.integers(len(self.seconds)))]
        which = SIGNALS[int(rng.integers(len(SIGNALS)))]
        output = "new.strudel" if name in FITS else OTHERS[name][-1]
        command = list(OTHERS.get(name, ("fit", *FITS.get(name, ()), *QUIET, "-o", output)))
        old = None
        if rng.random() < 0.3:
            old = (self.folder / "m.strudel").read_bytes() if name in FITS else b"old"
            (self.folder / output).write_bytes(old)
        code = killed(command, which, rng.random() * 1.1 * self.seconds[name])
        self.check_output(output, name, old)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            need(main(command) == 0, f"{name} after signal {which} ({code}) cannot run again")
        if name in FITS:
            again = strudel.load(output)
            need(same_model(again, self.whole[name]), f"{name}: another model after a kill")
        else:
            need((self.folder / output).read_bytes() == self.whole[name], f"{name}: other rows")
        os.unlink(output)
        extra = set(os.listdir(".")) - self.sound
        for file in extra:
            os.unlink(file)
        need(not extra, f"{name}: {sorted(extra)} are left")
        return ANSWER, 0

    def check_output(self, output, name, old):
        """The file that was there, a whole new one, or none if there was none."""
        if not os.path.exists(output):
            need(old is None, f"{name}: the old file is lost")
            return
        content = (self.folder / output).read_bytes()
        if content == old:
            return
        if name in FITS:
            strudel.load(output)  # an error is a finding
        else:
            need(content == self.whole[name], f"{name}: half a file")


def killed(command, which, seconds):
    """Run a command in a copy of this process, and end it after some seconds."""
    child = os.fork()
    if child == 0:
        try:  # a signal may come at once
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            os._exit(main(command))
        finally:
            os._exit(99)
    time.sleep(seconds)
    before = worked(child)
    os.kill(child, which)
    _, status, used = os.wait4(child, 0)
    took = used.ru_utime + used.ru_stime - before  # of work: others may use the machine
    need(took < 2.0, f"{command[0]} took {took:.1f} s to end after signal {which}")
    return status


def worked(child):
    """Seconds of work of a process so far, where the system tells."""
    try:
        with open(f"/proc/{child}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return float("inf")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
