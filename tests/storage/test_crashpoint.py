from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PASSES = (
    "from lakehouse.storage.crashpoint import crash_point as pass_\n"
    + 3 * "pass_('rollup.appended'); print(1)\n"
)


@pytest.mark.parametrize(("asked", "passed"), [("rollup.appended", 0), ("rollup.appended:3", 2)])
def test_the_process_dies_where_it_is_asked_to(asked: str, passed: int) -> None:
    ended = _run(asked)

    assert (ended.returncode, ended.stdout.split()) == (-signal.SIGKILL, ["1"] * passed)


@pytest.mark.parametrize("asked", ["", "publish.pointer-moved", "rollup.appended:4"])
def test_other_places_are_passed(asked: str) -> None:
    assert _run(asked).stdout.split() == ["1"] * 3


def _run(asked: str) -> subprocess.CompletedProcess[str]:
    environment = {"TIDEMARK_CRASH_AT": asked, "PYTHONPATH": ":".join(sys.path)}
    return subprocess.run(
        [sys.executable, "-uc", PASSES], env=environment, capture_output=True, text=True, check=False
    )
