from __future__ import annotations

import glob
import os
from pathlib import Path

import pytest

from lakehouse.ingest.sources.object_store import key_filter

KEYS = [
    "a.csv",
    "b/a.csv",
    "b/c/a.csv",
    "b/.h/a.csv",
    ".a.csv",
    "b/x[1].csv",
    "b/c/d.txt",
    "b/*.csv",
    "e/c/f/a.csv",
]


@pytest.mark.parametrize(
    "pattern",
    [
        "*.csv",
        "*/a.csv",
        "**/*.csv",
        "**/a.csv",
        "b/**",
        "b/*/*",
        "b/[a-c]/?.csv",
        "b/x[[]1].csv",
        "**/c/**/*.csv",
    ],
)
def test_patterns_name_the_keys_that_they_would_name_as_files(tmp_path: Path, pattern: str) -> None:
    for key in KEYS:
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).touch()
    found = glob.glob(pattern, root_dir=tmp_path, recursive=True)
    files = sorted(name for name in found if os.path.isfile(tmp_path / name))

    assert sorted(filter(key_filter(pattern), KEYS)) == files
    assert files


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("in", ["in", "in/a", "in//b", "in/.h"]),
        ("in/", ["in/a", "in//b", "in/.h"]),
        ("", ["in", "in/a", "in//b", "in/.h", "inner/a"]),
        ("in/*/b", ["in//b"]),
    ],
)
def test_without_a_pattern_it_is_all_that_is_below(pattern: str, named: list[str]) -> None:
    assert list(filter(key_filter(pattern), ["in", "in/a", "in//b", "in/.h", "inner/a"])) == named
