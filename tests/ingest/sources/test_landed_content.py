"""Nobody who may land files has others read through them, however late a name begins to lead elsewhere."""

from __future__ import annotations

import errno
import io
import os
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.config.stream import Source
from lakehouse.ingest.sources import landed_content
from lakehouse.ingest.sources.files import all_landed, landed, matching
from lakehouse.ingest.sources.landed_content import (
    NotLanded,
    SourceChanged,
    delete,
    digest,
    landing_of,
    opened,
)
from lakehouse.ingest.sources.lines import records_of
from lakehouse.ingest.sources.manifest import LandedFile

SECRET = "a\nsecret\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A landing folder beside a file that nobody landed."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.csv").write_text(SECRET)
    (tmp_path / "landing" / "sub").mkdir(parents=True)
    return tmp_path / "landing"


def _source(folder: Path, format: str = "csv", **more: object) -> Source:
    return Source.model_validate({"path": f"{folder}/**/*.{format}", "format": format, **more})


def _opened(folder: Path, name: str) -> AbstractContextManager[IO[bytes]]:
    return opened(f"{folder}/{name}", landing_of(_source(folder)))


def _link(folder: Path) -> None:
    (folder / "sub" / "a.csv").symlink_to(folder.parent / "elsewhere" / "a.csv")


def _link_of_a_folder(folder: Path) -> None:
    (folder / "sub").rmdir()
    (folder / "sub").symlink_to(folder.parent / "elsewhere")


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "sub" / "a.csv")


def _folder(folder: Path) -> None:
    (folder / "sub" / "a.csv").mkdir()


SWAPS: dict[str, tuple[Callable[[Path], None], str]] = {
    "link": (_link, "it is a link to"),
    "link of a folder": (_link_of_a_folder, "it is a link to"),
    "pipe": (_pipe, "it is no regular file"),
    "folder": (_folder, "it is no regular file"),
}


@pytest.mark.parametrize("kind", SWAPS)
def test_what_a_file_was_swapped_for_after_it_was_listed_is_not_read(folder: Path, kind: str) -> None:
    source = _source(folder)
    (folder / "sub" / "a.csv").write_text("a\n1\n")
    [(name, known)] = matching(source)
    assert landed(name, known, source).unreadable is None
    (folder / "sub" / "a.csv").unlink()
    swap, said = SWAPS[kind]
    swap(folder)
    began = time.monotonic()

    (records,) = [batch.to_pylist() for batch in records_of(LandedFile(name, *known[:2]), source)]

    assert [(row["source_line"], row["record"]) for row in records] == [(0, b"")]
    assert records[0]["fault"].startswith(f"unreadable_file: {said}")
    # Between the listing and the manifest, too; and no content decides whether it is the file that was read.
    assert said in str(landed(name, known, source).unreadable)
    with pytest.raises(NotLanded, match=said):
        digest(str(folder / "sub" / "a.csv"), landing_of(source))
    assert time.monotonic() - began < 5


def test_a_parquet_file_is_read_through_no_link(folder: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), folder.parent / "elsewhere" / "a.parquet")
    (folder / "a.parquet").symlink_to(folder.parent / "elsewhere" / "a.parquet")

    with pytest.raises(NotLanded, match="it is a link to"), _opened(folder, "a.parquet"):
        pass


LISTED = "a\n1\n2\n"


def _listed(folder: Path, content: str = LISTED) -> LandedFile:
    """Return a file that was listed a while ago."""
    (folder / "a.csv").write_text(content)
    os.utime(folder / "a.csv", (1_000_000, 1_000_000))
    [found] = matching(_source(folder))
    return landed(*found, _source(folder))


def _records(folder: Path, file: LandedFile) -> list[tuple[bytes, str | None]]:
    found = (batch.to_pylist() for batch in records_of(file, _source(folder)))
    return [(row["record"], row["fault"]) for rows in found for row in rows]


def _swapped(folder: Path) -> None:
    (folder / "other").write_text("a\n9\n9\n")
    (folder / "other").rename(folder / "a.csv")


def _written_over(folder: Path) -> None:
    with (folder / "a.csv").open("r+") as file:
        file.write("a\n9\n9\n")


def _cut(folder: Path) -> None:
    os.truncate(folder / "a.csv", 4)


@pytest.mark.parametrize("change", [_swapped, _written_over, _cut])
def test_a_file_that_is_another_one_than_its_manifest_lists_is_not_read(
    folder: Path, change: Callable[[Path], None]
) -> None:
    file = _listed(folder)
    change(folder)
    # Whoever may land files may set their times.
    os.utime(folder / "a.csv", (1_000_000, 1_000_000))

    assert _records(folder, file) == [
        (b"", "unreadable_file: it changed after it was listed, and is not read: give it a new name")
    ]


def test_a_file_with_the_content_that_its_manifest_lists_is_read_whoever_touched_it(folder: Path) -> None:
    file = _listed(folder)
    (folder / "copy").write_text(LISTED)
    (folder / "copy").rename(folder / "a.csv")

    assert _records(folder, file) == [(b"1", None), (b"2", None)]


def test_a_file_that_grew_is_read_as_far_as_its_manifest_lists_it(folder: Path) -> None:
    file = _listed(folder)
    with (folder / "a.csv").open("a") as log:
        log.write("3\n4\n")

    assert _records(folder, file) == [(b"1", None), (b"2", None)]


def test_a_file_that_changes_while_it_is_read_is_read_again_as_a_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landed_content, "BLOCK_BYTES", 4)
    file = _listed(folder)
    reading = records_of(file, _source(folder))
    assert next(reading)["record"].to_pylist() == [b"1"]
    _written_over(folder)

    with pytest.raises(SourceChanged, match=r"a\.csv was changed while it was read"):
        list(reading)

    assert [fault for _, fault in _records(folder, file)] == [
        "unreadable_file: it changed after it was listed, and is not read: give it a new name"
    ]


def test_a_file_that_is_written_between_its_listing_and_its_manifest_waits(folder: Path) -> None:
    _listed(folder)
    found = list(matching(_source(folder)))
    _written_over(folder)

    assert all_landed(found, _source(folder)) == ()
    assert [file.path for file in all_landed(list(matching(_source(folder))), _source(folder))] == ["a.csv"]


def test_a_lack_of_this_machine_is_no_fault_of_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _listed(folder)
    (folder / "a.csv").touch()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tempfile.TemporaryFile", full)

    with pytest.raises(OSError, match="No space left"):
        _records(folder, file)


def test_a_disk_that_fails_inside_a_file_leaves_the_lines_before_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(io.FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell():
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return super().read(-1 if size is None else size)

    (folder / "a.csv").write_text("a\n" + "1\n" * 9)
    file, source = LandedFile("a.csv", 20, 0, ("a",)), _source(folder)
    monkeypatch.setattr(landed_content, "BLOCK_BYTES", 10)
    monkeypatch.setattr("os.fdopen", Failing)

    *_, last = records_of(file, source)

    assert last["fault"].to_pylist() == [
        "truncated_file: rows from 6 on cannot be read: [Errno 5] Input/output error"
    ]


def test_links_inside_the_landing_folder_are_read_and_others_where_that_is_allowed(folder: Path) -> None:
    (folder / "real").write_text(SECRET)
    (folder / "sub" / "inner.csv").symlink_to(folder / "real")
    (folder.parent / "alias").symlink_to(folder)
    _link(folder)

    for source, names in (
        (_source(folder), ["inner"]),
        (_source(folder.parent / "alias"), ["inner"]),
        (_source(folder, follow_links=True), ["a", "inner"]),
    ):
        read = [name for name, known in matching(source) if landed(name, known, source).unreadable is None]
        assert read == [f"sub/{name}.csv" for name in names]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")
@pytest.mark.parametrize(
    ("mode", "owner_of_folder", "owner_of_file", "is_read"),
    [
        (0o700, 0, 0, True),
        (0o777, 0, 0, False),
        (0o700, 1000, 0, False),
        (0o700, 1000, 1000, True),
        (0o777, 0, 1000, False),
    ],
)
def test_a_file_of_two_names_is_read_if_nobody_else_could_have_linked_it(
    folder: Path, mode: int, owner_of_folder: int, owner_of_file: int, is_read: bool
) -> None:
    os.link(folder.parent / "elsewhere" / "a.csv", folder / "a.csv")
    os.chown(folder / "a.csv", owner_of_file, owner_of_file)
    os.chown(folder, owner_of_folder, owner_of_folder)
    folder.chmod(mode)

    if is_read:
        with _opened(folder, "a.csv"):
            pass
    else:
        with pytest.raises(NotLanded, match="2 names"), _opened(folder, "a.csv"):
            pass
    with opened(str(folder / "a.csv"), landing_of(_source(folder, follow_links=True))):
        pass


def test_no_file_behind_a_link_is_deleted(folder: Path) -> None:
    _link_of_a_folder(folder)

    with pytest.raises(NotLanded):
        delete(str(folder / "sub" / "a.csv"), landing_of(_source(folder)))

    assert (folder.parent / "elsewhere" / "a.csv").read_text() == SECRET


def test_what_is_refused_leaves_nothing_open(folder: Path) -> None:
    _link(folder)
    before = len(os.listdir("/proc/self/fd"))

    for _ in range(100):
        with pytest.raises(NotLanded), _opened(folder, "sub/a.csv"):
            pass

    # Other threads of the process open files of their own.
    assert len(os.listdir("/proc/self/fd")) < before + 50


def test_every_reader_of_landed_files_opens_them_here() -> None:
    sources = Path(landed_content.__file__).parent
    # Manifests and the state of listings are the home's own.
    own = {"landed_content.py", "manifest_store.py", "listing.py"}
    opens = re.compile(r"(?<![\w.])open\(|\bos\.open\(|\.read_(bytes|text)\(|\bpq\.read_table\(|gzip\.open\(")

    opening = {path.name for path in sources.glob("*.py") if opens.search(path.read_text())}

    assert "landed_content.py" in opening and opening <= own
