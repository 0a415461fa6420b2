"""Every job as a command of its own."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.readings import declared

JOBS = (
    "ingest",
    "build_rollups",
    "check_quality",
    "publish",
    "maintain",
    "merge_raw",
    "run_queries",
)


@pytest.mark.parametrize("job", JOBS)
def test_a_wrong_configuration_is_one_message_and_misuse(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tidemark.toml").write_text("[streams.a]\nevent_time = 5\n")

    code = import_module(f"jobs.{job}").main(["--config", str(tmp_path / "tidemark.toml")])

    assert code == 2
    assert capsys.readouterr().err.startswith(f"{tmp_path}/tidemark.toml: ")


@pytest.mark.parametrize("job", JOBS)
def test_a_home_of_another_version_is_one_message_and_a_failure(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tidemark.toml").write_text(declared())
    (tmp_path / "var").mkdir()
    with closing(sqlite3.connect(tmp_path / "var" / "control.sqlite")) as database:
        database.execute("PRAGMA user_version = 1")

    code = import_module(f"jobs.{job}").main(["--config", str(tmp_path / "tidemark.toml")])

    assert code == 1
    assert f"{tmp_path}/var/control.sqlite" in capsys.readouterr().err
