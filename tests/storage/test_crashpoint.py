from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import crash_points

ROOT = Path(__file__).parents[2]

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


def test_every_named_place_is_one_where_tests_kill() -> None:
    files = (path for folder in ("lakehouse", "jobs") for path in (ROOT / folder).rglob("*.py"))
    named = {name for path in files for name in re.findall(r'\bcrash_point\("([^"]+)"\)', path.read_text())}
    lists = (names for name, names in vars(crash_points).items() if name.endswith("_POINTS"))

    assert len(named) > 40
    assert named - {name.partition(":")[0] for names in lists for name in names} == set()


def _run(asked: str) -> subprocess.CompletedProcess[str]:
    environment = {"TIDEMARK_CRASH_AT": asked, "PYTHONPATH": ":".join(sys.path)}
    return subprocess.run(
        [sys.executable, "-uc", PASSES], env=environment, capture_output=True, text=True, check=False
    )
