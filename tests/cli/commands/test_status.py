from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from lakehouse.storage.control.outcomes import record
from lakehouse.storage.layout import Home
from tests.cli.conftest import Tidemark


def test_a_status_tells_versions_streams_levels_and_quarantine(
    tidemark: Tidemark, published_home: Path
) -> None:
    found = json.loads(tidemark("--home", published_home, "status", "--json").stdout)

    (stream,) = found["streams"]
    assert found["published"]["version"] == 1
    assert (stream["stream"], stream["quarantine"]) == ("telemetry", {"clock": 3})
    assert [level["width_us"] for level in stream["levels"]] == [60_000_000, 86_400_000_000]


def test_people_get_tables(called: Tidemark, published_home: Path) -> None:
    text = called("--home", published_home, "status").stdout

    lines = [line.split() for line in text.splitlines()]
    assert "late of accepted" in text
    assert ["levels", "of", "telemetry"] in lines
    assert ["1", "1m", "2d", "90", "2026-01-01", "00:00:00", "2026-01-01", "00:30:00", "-"] in lines
    assert ["clock", "3"] in [line[-2:] for line in lines]


def test_an_empty_home_is_no_error(called: Tidemark) -> None:
    ended = called("status")

    assert ended.returncode == 0
    assert "nothing published yet; run `tidemark run`" in ended.stdout


def test_failed_jobs_are_told_before_the_first_publish(called: Tidemark, tmp_path: Path) -> None:
    record(
        Home(tmp_path / "var"),
        "ingest",
        "flows",
        False,
        datetime.now(UTC),
        1.5,
        {},
        "the disk is full\nat ...",
    )

    lines = called("status").stdout.splitlines()

    assert any("the disk is full" in line and "failed" in line and "ingest" in line for line in lines)
    assert not any("at ..." in line for line in lines)
