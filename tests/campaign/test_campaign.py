"""The campaign in small, and the seeds of what it has found.

STRUDEL_CAMPAIGN_SEED tries other cases; `python tests/campaign --minutes 60` tries many.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from campaign.runner import run

SEED = int(os.environ.get("STRUDEL_CAMPAIGN_SEED", "0"))
CASES = {"text": 1000, "models": 250, "tables": 800}
CASES |= {"options": 60, "pages": 25, "densities": 60}


@pytest.mark.compiled
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_found(tmp_path, name):
    counts = run(name, tmp_path, SEED, cases=CASES[name])
    assert counts.findings == []
    assert counts.answers > 0
    assert counts.longest_refusal <= 300 or name == "options"


@pytest.mark.compiled
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs copies of a process")
def test_kills_lose_nothing(tmp_path):
    command = [sys.executable, str(Path(__file__).parent), "--campaigns", "kills"]
    done = subprocess.run(
        [*command, "--cases", "6", "--seed", str(SEED)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cases=6" in done.stdout


# An array header that breaks Python's tokenizer; damaged words of pandas in a parquet file; pieces
# on a lattice that are not on it; texts of a parquet file that are not UTF-8; numbers whose squares
# are no floats.
FOUND = [("tables", 0, 6), ("tables", 0, 81)]
FOUND += [
    ("tables", 2000, 1586),
    ("tables", 2000, 3643),
    ("densities", 1, 533),
    ("tables", 777001, 2129),
    ("densities", 9000001, 1281),
]


@pytest.mark.compiled
@pytest.mark.parametrize(("name", "seed", "number"), FOUND)
def test_what_was_found_once_is_not_found_again(tmp_path, name, seed, number):
    assert run(name, tmp_path, seed, cases=1, first=number).findings == []
