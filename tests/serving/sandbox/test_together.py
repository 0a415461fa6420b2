from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakehouse.serving.sandbox import together
from lakehouse.serving.sandbox.together import TooMuchTogether, counted

HOLD = (
    "import sys; held = b'x' * (int(sys.argv[1]) * 1024**2); print(len(held), flush=True); sys.stdin.read()"
)


def _held(mb: int, seconds: float) -> str:
    command = [sys.executable, "-c", HOLD, str(mb)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            with counted(process):
                try:
                    process.wait(seconds)
                except subprocess.TimeoutExpired:
                    process.kill()
        except TooMuchTogether:
            return "stopped"
    return "ran"


@pytest.mark.slow
def test_of_statements_that_hold_too_much_together_one_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(together, "MOST_MB", 400)
    with ThreadPoolExecutor(3) as pool:
        ended = list(pool.map(_held, (100, 150, 250), (2, 2, 2)))

    assert sorted(ended) == ["ran", "ran", "stopped"]
