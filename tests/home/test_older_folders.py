"""A home that an earlier version wrote is read under today's names."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.declare.problems import ConfigError
from lakehouse.declare.settings import load_settings
from lakehouse.home.older_folders import rename_older_folders

OLDER = ("late/one", "missed/one", "plans/one", "plans/two", "selected/rows", "joins/one", "joins/three")
NAMES = (
    *("missed_rows/one", "needed_slack/one", "batch_manifests/one", "batch_manifests/two"),
    *("selection/rows", "pairs/one", "multiway/three"),
)
KINDS = {"one": "pairs", "three": "multiway", "rows": "selection"}


def older_home(root: Path) -> Path:
    for number, place in enumerate(OLDER):
        (root / place).mkdir(parents=True)
        (root / place / "file").write_text(str(number))
    return root


def test_folders_of_earlier_versions_have_the_names_of_today_with_all_that_is_in_them(tmp_path: Path) -> None:
    root = older_home(tmp_path)

    for _ in range(2):
        rename_older_folders(root, KINDS)

    assert [(root / name / "file").read_text() for name in NAMES] == [str(n) for n in range(len(OLDER))]
    assert not any((root / name).exists() for name in ("late", "missed", "plans", "selected"))


def test_what_is_there_under_both_names_is_left_alone(tmp_path: Path) -> None:
    root = older_home(tmp_path)
    (root / "missed_rows").mkdir()

    rename_older_folders(root, KINDS)

    assert (root / "late" / "one").is_dir() and not list((root / "missed_rows").iterdir())


def test_reading_a_configuration_renames_them_or_says_in_a_line_why_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tidemark.toml").write_text('home = "var"\n')
    older_home(tmp_path / "var")

    def refuse(path: Path, target: Path) -> None:
        raise PermissionError(f"{path} cannot be written")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refuse)
        with pytest.raises(
            ConfigError, match=r"home: found .*late cannot be written; expected .* be written"
        ):
            load_settings(tmp_path / "tidemark.toml")
    load_settings(tmp_path / "tidemark.toml")

    assert (tmp_path / "var" / "missed_rows" / "one").is_dir()
