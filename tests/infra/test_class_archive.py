from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.spark import archived_classes

pytestmark = [pytest.mark.spark, pytest.mark.slow]
# Another place than this environment's, whose archive the other tests run on.
ELSEWHERE = """
import sys
from pathlib import Path
from lakehouse.spark import archived_classes
archived_classes.archive_file = lambda: Path(sys.argv[1])
from infra import class_archive
"""
OTHER_JARS = """
from lakehouse.spark import jars, session
session.jar_paths = lambda **asked: jars.jar_paths(**asked)[::-1]
"""
START = """
from lakehouse.settings import Settings
from lakehouse.spark.session import started_session
spark = started_session(Settings(home=Path(sys.argv[1]).parent))
maps = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/maps").read_text()
print(spark.range(3).count(), "classes.jsa" in maps)
"""


def called(words: str, archive: Path) -> str:
    """Return what a process of its own prints."""
    command = [sys.executable, "-c", ELSEWHERE + words, str(archive)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_session_starts_from_the_archive_and_without_one_that_fits(tmp_path: Path) -> None:
    """None that fits: as after a change of jars, or of Java."""
    archive = tmp_path / "classes.jsa"
    if not Path("/proc/self/maps").exists():
        pytest.skip("what a process has mapped is told on Linux only")

    assert called("print(archived_classes.archive_option())", archive) == ""
    if archived_classes.archive_file().is_file():
        # `make setup` has made it in the same way.
        shutil.copy(archived_classes.archive_file(), archive)
    else:
        assert called("class_archive.make_archive()", archive) == ""
    assert called(START, archive) == "3 True"
    # The JVM tells nobody on the standard output, where others read JSON.
    assert called(OTHER_JARS + START, archive) in ("3 False", "3 True")


def test_it_is_of_this_environment() -> None:
    assert archived_classes.archive_file().is_relative_to(sys.prefix)
