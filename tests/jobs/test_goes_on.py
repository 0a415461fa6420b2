"""Failures that a run of all DAGs survives."""

from __future__ import annotations

from typing import Any

from jobs.run_dags import _goes_on


def outcomes(job: str, **oks: bool) -> list[dict[str, Any]]:
    return [{"job": job, "stream": name, "ok": ok} for name, ok in oks.items()]


def test_a_query_that_fails_stands_still_alone() -> None:
    assert _goes_on("queries", outcomes("run_queries", hot=False, new=True))
    assert _goes_on("queries", outcomes("run_queries", hot=False))
    assert _goes_on("repair", outcomes("repair_late", hot=False))
    assert _goes_on("repair", outcomes("check_queries", hot=False))


def test_a_stream_that_cannot_be_taken_in_holds_no_other_up() -> None:
    assert _goes_on("ingest", outcomes("ingest", telemetry=False, flows=True))
    assert not _goes_on("ingest", outcomes("ingest", telemetry=False, flows=False))


def test_a_stream_whose_rollup_fails_holds_no_other_up() -> None:
    assert _goes_on("rollups", outcomes("build_rollups", telemetry=False, flows=True))
    assert not _goes_on("rollups", outcomes("build_rollups", telemetry=False, flows=False))


def test_a_stream_that_fails_its_checks_or_totals_is_withheld_alone() -> None:
    assert _goes_on("quality", outcomes("check_quality", telemetry=False, flows=True))
    assert _goes_on("publish", outcomes("publish", all=False))
