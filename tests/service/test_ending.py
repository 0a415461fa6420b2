from __future__ import annotations

import signal
import subprocess
import sys
import time

import psutil
import pytest

BEGIN = """
import signal, subprocess, sys, time
from lakehouse.service import ending
ending.listen()
"""
END = """
sys.stdout.flush()
ending.leave(128 + ending.heard())
"""
# A library that has its own way with signals, in the midst of which a job runs.
IN_JOBS = """
with ending.interrupting_jobs():
    signal.signal(signal.SIGTERM, lambda *_: None)
    for job in range(3):
        ending.leave_if_heard()
        try:
            print("job", job, flush=True)
            time.sleep(60)
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
"""
ORDERLY = """
try:
    print("job 0", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("closed")
"""
# Compiled code that returns late, and a child that does not care for SIGTERM.
STUCK = """
words = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", words], stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()
import hashlib
try:
    print("job 0", flush=True)
except KeyboardInterrupt:
    pass
hashlib.pbkdf2_hmac("sha256", b"a", b"b", 200_000_000)
time.sleep(60)
print("not reached")
"""


def _ended(script: str, *numbers: signal.Signals) -> tuple[int, str, float, list[psutil.Process]]:
    """Return the exit code, what was printed after the signals, the seconds that it took, and children left."""
    with subprocess.Popen(
        [sys.executable, "-c", BEGIN + script + END], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "job 0\n"
        children = psutil.Process(process.pid).children()
        began = time.monotonic()
        for number in numbers:
            process.send_signal(number)
            time.sleep(0.1)
        printed = process.communicate(timeout=20)[0]
        took = time.monotonic() - began
    return process.returncode, printed, took, _running(children)


def _running(children: list[psutil.Process]) -> list[psutil.Process]:
    """Return which processes still run a moment later; nobody may have waited for one that has ended."""
    left = psutil.wait_procs(children, 1)[1]
    return [child for child in left if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_interrupts_the_work_whose_blocks_close_and_is_the_exit_code(
    number: signal.Signals, code: int
) -> None:
    assert _ended(ORDERLY, number)[:2] == (code, "closed\n")


def test_a_library_that_handles_the_signal_does_not_let_the_next_job_begin() -> None:
    code, printed, took, _ = _ended(IN_JOBS, signal.SIGTERM)

    assert (code, printed) == (143, "KeyboardInterrupt ended by SIGTERM\n")
    assert took < 2


@pytest.mark.slow
def test_what_does_not_end_by_itself_ends_within_five_seconds_and_so_does_its_child() -> None:
    code, printed, took, left = _ended(STUCK, signal.SIGTERM)

    assert (code, printed, left) == (143, "", [])
    assert took < 5


def test_a_second_signal_ends_the_process_at_once() -> None:
    code, _, took, _ = _ended(STUCK, signal.SIGTERM, signal.SIGINT)

    assert code == 143
    assert took < 2.5
