"""Nobody who may land files has others read through them, however late a name begins to lead elsewhere."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.declare.stream import Source
from lakehouse.streams.sources import landed_content
from lakehouse.streams.sources.files import landed, matching
from lakehouse.streams.sources.landed_content import NotLanded, delete, digest, landing_of, opened
from lakehouse.streams.sources.lines import records_of
from lakehouse.streams.sources.parquet_rows import numbered_rows

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

    (records,) = [batch.to_pylist() for batch in records_of(name, source)]

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

    with pytest.raises(NotLanded, match="it is a link to"):
        next(numbered_rows("a.parquet", _source(folder, "parquet")))


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
        opened(str(folder / "a.csv"), landing_of(_source(folder))).close()
    else:
        with pytest.raises(NotLanded, match="2 names"):
            opened(str(folder / "a.csv"), landing_of(_source(folder)))
    opened(str(folder / "a.csv"), landing_of(_source(folder, follow_links=True))).close()


def test_no_file_behind_a_link_is_deleted(folder: Path) -> None:
    _link_of_a_folder(folder)

    with pytest.raises(NotLanded):
        delete(str(folder / "sub" / "a.csv"), landing_of(_source(folder)))

    assert (folder.parent / "elsewhere" / "a.csv").read_text() == SECRET


def test_what_is_refused_leaves_nothing_open(folder: Path) -> None:
    _link(folder)
    before = os.listdir("/proc/self/fd")

    for _ in range(20):
        with pytest.raises(NotLanded):
            opened(str(folder / "sub" / "a.csv"), landing_of(_source(folder)))

    assert os.listdir("/proc/self/fd") == before


def test_every_reader_of_landed_files_opens_them_here() -> None:
    sources = Path(landed_content.__file__).parent
    # Manifests and the state of listings are the home's own.
    own = {"landed_content.py", "manifest_store.py", "listing.py", "probe.py"}
    opens = re.compile(r"(?<![\w.])open\(|\bos\.open\(|\.read_(bytes|text)\(|\bpq\.read_table\(|gzip\.open\(")

    opening = {path.name for path in sources.glob("*.py") if opens.search(path.read_text())}

    assert "landed_content.py" in opening and opening <= own
