"""Folders that cannot be listed are named, if a pattern leads through them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakehouse.config.stream import Source
from lakehouse.ingest.sources.unmatched import unlisted

NOBODY = 65534


@pytest.fixture
def landing() -> Iterator[Path]:
    """A folder that every user may enter, which pytest's own are not."""
    # A command that another test of this process has called may have closed what is made from then on.
    before = os.umask(0o022)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)
    os.umask(before)


def make_too_deep(folder: Path) -> None:
    """Make folders below a folder whose paths are longer than the system allows: no user can list the deepest."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("x" * 250, dir_fd=here)
        above, here = here, os.open("x" * 250, os.O_RDONLY, dir_fd=here)
        os.close(above)
    os.close(here)


@contextmanager
def closed(folder: Path, mode: int) -> Iterator[None]:
    """Take a folder's rights away; the superuser needs none, and is another user meanwhile."""
    folder.mkdir(parents=True)
    folder.chmod(mode)
    own = os.geteuid()
    if own == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if own == 0:
            os.seteuid(own)
        folder.chmod(0o755)


@pytest.mark.parametrize("mode", [0o000, 0o444], ids=["unreadable", "not to be entered"])
@pytest.mark.parametrize(
    ("pattern", "folder", "is_named"),
    [
        ("*.csv", ".", True),
        ("*.csv", "a", False),
        ("**/*.csv", "a/b", True),
        ("**/x/*.csv", "a/b", True),
        ("**/*.csv", ".hidden", False),
        ("*/*.csv", "a", True),
        ("a*/*.csv", "b", False),
        ("*/x/*.csv", "a", True),
        ("*/x/*.csv", "a/y", False),
        ("*/*.csv", "a/b", False),
        ("zzz/*.csv", "a", False),
    ],
)
def test_a_folder_without_rights_is_named_where_the_pattern_leads_through_it(
    landing: Path, pattern: str, folder: str, is_named: bool, mode: int
) -> None:
    top = landing / "top"
    source = Source(path=f"{top}/{pattern}", format="csv")
    with closed(top / folder, mode):
        found = list(unlisted(source))

    said = f"{os.path.normpath(top / folder)} cannot be listed: Permission denied; none of its files is read"
    assert found == ([said] if is_named else [])


def test_a_folder_that_is_not_there_and_an_object_store_are_none_of_them(tmp_path: Path) -> None:
    assert list(unlisted(Source(path=f"{tmp_path}/no/*/x.csv", format="csv"))) == []
    assert list(unlisted(Source(path="s3://bucket/**/x.csv", format="csv"))) == []
