from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.collect.spool import Spool

SECOND = 1_000_000
NOW = 1_767_225_600 * SECOND


def spool(folder: Path, roll_bytes: int = 10**6, roll_after_s: int = 60) -> Spool:
    return Spool(folder, "s", roll_bytes, roll_after_s * SECOND)


def landed(folder: Path) -> list[bytes]:
    return [line for path in sorted(folder.glob("*.ndjson")) for line in path.read_bytes().splitlines()]


def test_nothing_has_landed_before_the_file_is_old_enough(tmp_path: Path) -> None:
    one = spool(tmp_path)
    one.append(b"a\n")
    one.commit(NOW)

    assert one.roll_if_due(NOW + 59 * SECOND) is None
    assert (landed(tmp_path), one.waiting_bytes, one.pending) == ([], 2, 0)

    path = one.roll_if_due(NOW + 60 * SECOND)
    assert path and path.name == "s-20260101T000000.000000Z.ndjson"
    assert (landed(tmp_path), one.waiting_bytes, one.files) == ([b"a"], 0, 1)


def test_a_file_lands_when_it_is_large_enough(tmp_path: Path) -> None:
    one = spool(tmp_path, roll_bytes=4)
    one.append(b"abc\n")
    one.commit(NOW)

    assert one.roll_if_due(NOW) is not None


def test_an_idle_spool_lands_no_empty_files(tmp_path: Path) -> None:
    one = spool(tmp_path)
    one.commit(NOW)

    assert (one.roll_if_due(NOW + 10**9), one.roll(), list(tmp_path.iterdir())) == (None, None, [])


def test_every_line_is_on_disk_before_commit_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bytes] = []
    fsync = os.fsync

    def watched(handle: int) -> None:
        fsync(handle)
        synced.extend(path.read_bytes() for path in tmp_path.glob("*.part"))

    monkeypatch.setattr(os, "fsync", watched)
    one = spool(tmp_path)
    one.append(b"a\n")
    one.append(b"b\n")
    one.commit(NOW)

    assert synced[-1] == b"a\nb\n"


def test_a_disk_that_is_full_leaves_what_was_safe_and_nothing_of_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = spool(tmp_path)
    one.append(b"safe\n")
    one.commit(NOW)
    write = os.write

    def full(handle: int, content: bytes) -> int:
        write(handle, bytes(content)[:3])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    one.append(b"too much\n")
    with pytest.raises(OSError, match="No space left"):
        one.commit(NOW)

    monkeypatch.undo()
    spool(tmp_path)
    assert landed(tmp_path) == [b"safe"]


@settings(deadline=None, max_examples=60)
@given(
    steps=st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 40)), max_size=12),
    torn=st.sampled_from([b"", b"half of a li"]),
)
def test_whatever_was_committed_lands_once_and_in_order_however_often_the_process_dies(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, bool, int]], torn: bytes
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    written: list[bytes] = []
    one, now = spool(folder, roll_bytes=30), NOW
    for count, dies, passed in steps:
        for _ in range(count):
            written.append(b"%d" % len(written))
            one.append(written[-1] + b"\n")
        one.commit(now)
        now += passed * SECOND
        one.roll_if_due(now)
        if dies:
            # Whatever a dying process was about to write is cut off at its last whole line.
            for part in folder.glob("*.part"):
                part.write_bytes(part.read_bytes() + torn)
            one = spool(folder, roll_bytes=30)
    one.roll()

    assert landed(folder) == written
    assert list(one.landed_lines()) == [line + b"\n" for line in reversed(written)]
    assert not list(folder.glob("*.part"))


def test_a_name_that_was_used_is_never_used_again(tmp_path: Path) -> None:
    """Under a name that is in a manifest nothing new would ever be read."""
    one = spool(tmp_path)
    for line in (b"a\n", b"b\n"):
        one.append(line)
        one.commit(NOW)
        one.roll()

    assert [path.name[-9:] for path in sorted(tmp_path.glob("*.ndjson"))] == ["0Z.ndjson", "1Z.ndjson"]
    assert landed(tmp_path) == [b"a", b"b"]
