from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest

from lakehouse.storage.control.outcomes import error_text, forget_outcome, last_outcome, read_all, record
from lakehouse.storage.control.store import FILE
from lakehouse.storage.layout import Home

STARTED = datetime(2026, 1, 5, 12, 0, 0, tzinfo=UTC)


def test_an_outcome_is_read_back_as_it_was_recorded(tmp_path: Path) -> None:
    home = Home(tmp_path)

    written = record(home, "ingest", "telemetry", True, STARTED, 1.5, {"files": 3, "accepted": 10})

    assert read_all(home) == [written]
    assert written == {
        "job": "ingest",
        "stream": "telemetry",
        "ok": True,
        "started": "2026-01-05T12:00:00.000+00:00",
        "ended": "2026-01-05T12:00:01.500+00:00",
        "seconds": 1.5,
        "figures": {"files": 3, "accepted": 10},
        "error": None,
    }
    assert last_outcome(home, "ingest", "telemetry") == written
    assert last_outcome(home, "ingest", "other") is None


def test_of_an_error_of_java_the_causes_are_told_without_its_stacks() -> None:
    stack = "\tat java.base/java.lang.Thread.run(Thread.java:840)\n\t... 12 more\n"
    said = f"calling o1.get.\n: java.io.IOException: in all\n{stack}"
    said += f"Caused by: java.io.EOFException: at the end\n{stack}"

    assert error_text(OSError(said)) == (
        "OSError: calling o1.get.\n: java.io.IOException: in all\nCaused by: java.io.EOFException: at the end"
    )


def test_only_the_last_outcome_of_a_job_and_stream_is_kept(tmp_path: Path) -> None:
    home = Home(tmp_path)
    record(home, "publish", "all", False, STARTED, 1, {}, "refused")
    record(home, "publish", "all", True, STARTED, 1, {})
    record(home, "ingest", "all", True, STARTED, 1, {})

    found = read_all(home)

    assert [(outcome["job"], outcome["ok"], outcome["error"]) for outcome in found] == [
        ("ingest", True, None),
        ("publish", True, None),
    ]


def test_outcomes_come_in_the_order_they_ended(tmp_path: Path) -> None:
    home = Home(tmp_path)
    paris = timezone(timedelta(hours=1))
    record(home, "maintain", "a", True, STARTED + timedelta(minutes=2), 1, {})
    record(home, "publish", "all", True, (STARTED + timedelta(minutes=1)).astimezone(paris), 1, {})
    record(home, "ingest", "a", True, STARTED, 90, {})

    assert [outcome["job"] for outcome in read_all(home)] == ["publish", "ingest", "maintain"]


def test_what_json_has_no_word_for_is_kept_as_text(tmp_path: Path) -> None:
    record(Home(tmp_path), "ingest", "a", True, STARTED, 1, {"report": Path("/r"), "sum": Decimal("0.1")})

    assert read_all(Home(tmp_path))[0]["figures"] == {"report": "/r", "sum": "0.1"}


def test_an_outcome_is_forgotten_alone(tmp_path: Path) -> None:
    home = Home(tmp_path)
    for job in ("ingest", "publish"):
        record(home, job, "a", True, STARTED, 1, {})

    forget_outcome(home, "ingest", "a")

    assert [outcome["job"] for outcome in read_all(home)] == ["publish"]


def test_an_outcome_that_cannot_be_kept_is_told_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = Home(tmp_path)
    (tmp_path / FILE).write_bytes(b"no database, but something else" * 200)

    assert record(home, "ingest", "a", True, STARTED, 1, {"n": 1})["figures"] == {"n": 1}

    assert "how ingest a ended could not be kept" in caplog.text
    assert "control.sqlite is damaged (file is not a database)" in caplog.text


def test_without_runs_there_are_no_outcomes(tmp_path: Path) -> None:
    assert read_all(Home(tmp_path)) == []
