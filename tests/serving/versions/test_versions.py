from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.serving.versions.versions import (
    NotPublished,
    collect,
    current_version,
    database_path,
    hold_current,
    lock_path,
    next_version,
    place,
    point_to,
    publisher,
    versions,
)
from lakehouse.storage.layout import Home


def placed(folder: Path, version: int) -> None:
    draft = folder / ".draft"
    draft.write_text(f"version {version}", encoding="ascii")
    place(folder, version, draft)
    point_to(folder, version)


def test_nothing_is_current_before_the_first_publish(tmp_path: Path) -> None:
    assert current_version(tmp_path) is None
    with pytest.raises(NotPublished, match="nothing published yet"):
        hold_current(tmp_path)


def test_the_pointer_names_what_readers_open(tmp_path: Path) -> None:
    placed(tmp_path, 1)
    placed(tmp_path, 2)

    with hold_current(tmp_path) as held:
        assert (held.version, held.path.read_text()) == (2, "version 2")


def test_a_damaged_pointer_says_what_was_expected(tmp_path: Path) -> None:
    (tmp_path / "current").write_text("latest", encoding="ascii")

    with pytest.raises(ValueError, match="expected a version such as 00000007, found 'latest'"):
        current_version(tmp_path)


def test_a_pointer_to_a_file_that_is_gone_is_not_published(tmp_path: Path) -> None:
    placed(tmp_path, 1)
    database_path(tmp_path, 1).unlink()

    with pytest.raises(NotPublished):
        hold_current(tmp_path)


def test_only_the_newest_versions_are_kept(tmp_path: Path) -> None:
    for version in range(1, 6):
        placed(tmp_path, version)

    assert collect(tmp_path, keep=2) == [1, 2, 3]
    assert versions(tmp_path) == [4, 5]
    assert sorted(path.name for path in tmp_path.glob("*.lock")) == ["00000004.lock", "00000005.lock"]


def test_a_version_with_a_reader_is_spared_until_the_reader_leaves(tmp_path: Path) -> None:
    placed(tmp_path, 1)
    held = hold_current(tmp_path)
    placed(tmp_path, 2)

    spared = collect(tmp_path, keep=1)
    held.close()

    assert spared == []
    assert collect(tmp_path, keep=1) == [1]


def test_the_current_version_is_never_removed_even_if_newer_files_are_there(tmp_path: Path) -> None:
    placed(tmp_path, 1)
    database_path(tmp_path, 2).write_text("never pointed to", encoding="ascii")

    assert collect(tmp_path, keep=1) == []


def test_a_reader_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    placed(tmp_path, 1)
    code = (
        "import sys, time; from pathlib import Path; from lakehouse.serving.versions.versions import hold_current; "
        "held = hold_current(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        placed(tmp_path, 2)
        while_alive = collect(tmp_path, keep=1)
        os.kill(reader.pid, signal.SIGKILL)

    assert while_alive == []
    assert collect(tmp_path, keep=1) == [1]


def test_a_version_whose_file_is_gone_is_not_taken_for_none_at_all(tmp_path: Path) -> None:
    placed(tmp_path, 2)
    point_to(tmp_path, 2)
    database_path(tmp_path, 2).unlink()

    with pytest.raises(
        NotPublished, match=rf"00000002.duckdb is gone: remove {tmp_path}/current, and `tidemark"
    ):
        hold_current(tmp_path)


def test_a_version_number_is_never_used_twice(tmp_path: Path) -> None:
    placed(tmp_path, 4)
    lock_path(tmp_path, 7).touch()

    assert next_version(tmp_path) == 8


def test_segments_that_no_version_names_go_and_one_of_a_version_to_come_stays(tmp_path: Path) -> None:
    """A publisher that was paused in this step would delete what its successor has just written."""
    placed(tmp_path, 4)
    (tmp_path / "segments").mkdir()
    for name in ("00000003", "00000004r", "00000005"):
        (tmp_path / "segments" / f"{name}.duckdb").touch()

    collect(tmp_path, 1)
    assert [path.stem for path in (tmp_path / "segments").iterdir()] == ["00000005"]

    placed(tmp_path, 5)
    collect(tmp_path, 1)
    assert not list((tmp_path / "segments").iterdir())


def test_what_a_killed_publisher_left_is_removed_by_the_next(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.serving.mkdir()
    (home.serving / ".draft-00000001-99.duckdb").write_text("half", encoding="ascii")
    (home.serving / ".current.99").write_text("00", encoding="ascii")

    with publisher(home):
        left = sorted(path.name for path in home.serving.iterdir())

    assert left == ["publish.lock"]


@pytest.mark.slow
def test_a_second_publisher_waits_for_the_first(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from lakehouse.serving.versions.versions import publisher\n"
        "from lakehouse.storage.layout import Home\n"
        "with publisher(Home(Path(sys.argv[1]))): print('in')"
    )
    with publisher(Home(tmp_path)):
        second = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(timeout=1)

    assert second.communicate(timeout=30)[0] == b"in\n"
