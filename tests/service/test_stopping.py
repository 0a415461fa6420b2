from __future__ import annotations

import signal
import subprocess
import sys

import pytest

WAITS = """
import time
from lakehouse.service.stopping import until_signalled
with until_signalled() as stop:
    print("ready", flush=True)
    while not stop.wait(0.05):
        pass
    print("stopping", flush=True)
    time.sleep({seconds})
print("done", flush=True)
"""


def waiting(seconds: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS.format(seconds=seconds)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_the_block_end_by_itself(number: signal.Signals) -> None:
    with waiting(0.2) as process:
        process.send_signal(number)
        assert process.communicate(timeout=20)[0] == "stopping\ndone\n"

    assert process.returncode == 0
