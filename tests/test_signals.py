"""SIGTERM does what Ctrl-C does, and ends a command within two seconds."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from strudel._signals import terminate_like_interrupt

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals of Unix")

COMMAND = """
import sys, time
import strudel.cli.main as main
from strudel.cli import {module}

def work():
    try:
        print("working", file=sys.stderr, flush=True)
        while True:
            time.sleep(0.01)
    except KeyboardInterrupt:
        print("keeps the best", file=sys.stderr, flush=True)
        {after}

main.app.registered_commands.clear()
def datasets() -> None:
    work()

main.app.command(name="datasets")(datasets)
main.app.command(name="other")(lambda: None)
sys.exit(main.main(["datasets"]))
"""


def terminated(after):
    """What a command says, its exit code and how long it takes to end, after SIGTERM."""
    code = textwrap.dedent(COMMAND).format(module="datasets", after=after)
    process = subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, env=os.environ | {"COLUMNS": "80"}
    )
    assert process.stderr.readline() == b"working\n"
    start = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    return said.decode(), process.returncode, time.monotonic() - start


def test_the_work_so_far_is_kept():
    said, code, _ = terminated("return")
    assert (said, code) == ("keeps the best\n", 0)


def test_a_command_that_does_not_end_is_ended():
    said, code, seconds = terminated("time.sleep(100)")
    assert said == "keeps the best\n"
    assert code in (128 + 15, 1)
    assert seconds < 30  # two, unless the machine is busy


def test_the_block_leaves_the_signal_as_it_was():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ValueError, match="x"), terminate_like_interrupt():
        raise ValueError("x")
    assert signal.getsignal(signal.SIGTERM) is before
