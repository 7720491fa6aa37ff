import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from reproduce.processes import call_within

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
ORPHAN = """
import time
from reproduce.processes import start_process
if __name__ == "__main__":
    process = start_process(time.sleep, 60)
    print(process.pid, flush=True)
    time.sleep(60)
"""


def test_an_answer_comes_back():
    assert call_within(60.0, os.getenv, "NUMBA_NUM_THREADS") == "1"


def test_nothing_in_the_current_folder_is_run(hostile_folder):
    assert call_within(60.0, abs, -1) == 1
    assert not hostile_folder.exists()


def test_what_takes_too_long_is_ended():
    started = time.perf_counter()
    with pytest.raises(TimeoutError, match="longer than"):
        call_within(0.2, time.sleep, 60)
    assert time.perf_counter() - started < 30


def test_a_process_that_dies_is_noticed():
    with pytest.raises(RuntimeError, match="exit code 7"):
        call_within(60.0, os._exit, 7)


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is for POSIX")
def test_processes_end_when_their_parent_is_killed(tmp_path):
    script = tmp_path / "orphan.py"
    script.write_text(ORPHAN)
    parent = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.fspath(BENCHMARKS)},
    )
    child = int(parent.stdout.readline())
    os.kill(child, 0)  # it lives
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    for _ in range(300):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("the child outlived its parent")
