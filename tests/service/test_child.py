"""A process that is kept running beside another one: started again when it ends, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.slow
CHILD = """
import sys, time
from lakehouse.service.child import end_with_input
print("child", flush=True)
end_with_input()
time.sleep(600)
"""
PARENT = """
import sys, time
from lakehouse.service import child, ending
child.FIRST_WAIT_S = 0.1
ending.listen()
child.keep_running("child", [sys.executable, "-c", sys.argv[1]], {})
time.sleep(600)
"""


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PARENT, CHILD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as found:
        assert found.stdout is not None and found.stdout.readline() == "child\n"
        yield found
        found.kill()


def _child(parent: subprocess.Popen[str]) -> psutil.Process:
    (found,) = psutil.Process(parent.pid).children()
    return found


def test_what_is_killed_is_started_again(parent: subprocess.Popen[str]) -> None:
    first = _child(parent)
    for _ in range(2):
        _child(parent).kill()
        assert parent.stdout is not None and parent.stdout.readline() == "child\n"

    assert _child(parent) != first and parent.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_it_ends_with_the_process_that_keeps_it_running(
    parent: subprocess.Popen[str], number: signal.Signals
) -> None:
    child = _child(parent)
    began = time.monotonic()

    os.kill(parent.pid, number)

    parent.wait(10)
    assert psutil.wait_procs([child], 5)[1] == []
    assert time.monotonic() - began < 5
