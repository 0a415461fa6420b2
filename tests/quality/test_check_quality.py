from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs import check_quality
from lakehouse.checks import checks as metrics
from lakehouse.checks import repeats
from lakehouse.settings import Settings
from lakehouse.storage.checked import read_checked
from lakehouse.storage.corrections import read_corrections
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_commits import open_table
from quality import GateFailed
from quality.history import verified_through
from tests.quality.conftest import Lake

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_stream_that_never_landed_anything_passes(
    checked_lake: Lake, checked_home: Settings, spark: SparkSession
) -> None:
    assert check_quality.run(checked_home, spark, "telemetry") == {"checks": 0, "failed": 0}


def test_right_tables_pass_and_are_not_read_again(
    checked_lake: Lake, checked_home: Settings, spark: SparkSession
) -> None:
    checked_lake.save(checked_home.layout)

    first = check_quality.run(checked_home, spark, "telemetry")
    unchanged = check_quality.run(checked_home, spark, "telemetry")
    checked_lake.save(checked_home.layout)
    second = check_quality.run(checked_home, spark, "telemetry")

    assert (first["checks"], first["through"]) == (27, 2)
    # No table has a new commit.
    assert unchanged == {**first, "unchanged": True}
    # Ledger, quarantine and raw have no new rows.
    assert "unchanged" not in second
    assert second["checks"] == first["checks"] - (5 + 3 + 6)
    assert Path(first["report"]).is_file()
    assert verified_through(checked_home.layout.quality, "telemetry") == 2
    assert verified_through(checked_home.layout.quality, "other") == -1


def test_a_failed_rule_stops_the_gate_and_stays_in_the_history(
    checked_lake: Lake, checked_home: Settings, spark: SparkSession
) -> None:
    checked_lake.with_rows("raw", checked_lake.raw[1:]).save(checked_home.layout)

    with pytest.raises(
        GateFailed, match=r"raw.gap_to_ledger is 1 \(batch 1\), expected at most 0"
    ) as failure:
        check_quality.run(checked_home, spark, "telemetry")

    history = open_table(checked_home.layout.quality).to_pyarrow_table().to_pylist()
    failed = sorted((v["table"], v["expectation"], v["observed"]) for v in history if not v["success"])
    assert failed == [("raw", "gap_to_ledger", 1.0), ("totals", "raw_gap", 1.0)]
    assert failure.value.report.is_file()
    assert verified_through(checked_home.layout.quality, "telemetry") == -1


def test_batches_that_come_while_it_checks_are_no_failure(
    checked_lake: Lake, checked_home: Settings, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service goes on beside the checks: what it built after the ledger was read seemed too much."""
    checked_lake.save(checked_home.layout)

    def read_as_one_comes(layout: Home, stream: str) -> object:
        nodes = [(*node[:3], 3, *node[4:]) for node in checked_lake.nodes if node[0] > 0 or node[3] == 2]
        checked_lake.append(layout.rollup("telemetry"), "nodes", nodes)
        return read_corrections(layout, stream)

    monkeypatch.setattr(metrics, "read_corrections", read_as_one_comes)

    assert check_quality.run(checked_home, spark, "telemetry")["failed"] == 0


def test_a_failed_check_is_made_again_without_any_change(
    checked_lake: Lake, checked_home: Settings, spark: SparkSession
) -> None:
    checked_lake.with_rows("raw", checked_lake.raw[1:]).save(checked_home.layout)

    for _ in range(2):
        with pytest.raises(GateFailed, match=r"raw.gap_to_ledger"):
            check_quality.run(checked_home, spark, "telemetry")


def test_other_limits_or_an_unreadable_memory_are_reasons_to_check_again(
    checked_lake: Lake, checked_home: Settings, spark: SparkSession
) -> None:
    checked_lake.save(checked_home.layout)
    stricter = checked_home.model_copy(
        update={"quality": checked_home.quality.model_copy(update={"max_quarantined_share": 0.6})}
    )
    check_quality.run(checked_home, spark, "telemetry")

    assert "unchanged" not in check_quality.run(stricter, spark, "telemetry")
    checked_home.layout.passed("telemetry").write_text("{")
    assert "unchanged" not in check_quality.run(stricter, spark, "telemetry")
    assert "unchanged" in check_quality.run(stricter, spark, "telemetry")


def test_what_has_passed_is_read_again_only_in_full(
    checked_lake: Lake, checked_home: Settings, spark: SparkSession
) -> None:
    """A row that rots after a check shows when everything is checked; new rows and totals show at once."""
    checked_lake.save(checked_home.layout)
    assert check_quality.run(checked_home, spark, "telemetry")["full"]
    checked_lake.with_row("raw", 0, "temp", float("nan")).save(checked_home.layout)

    assert not check_quality.run(checked_home, spark, "telemetry")["full"]

    with pytest.raises(GateFailed, match=r"raw.not_numbers is 1 \(batch 1\)"):
        check_quality.run(checked_home, spark, "telemetry", full=True)
    checked_lake.with_rows("raw", checked_lake.raw[1:]).save(checked_home.layout)
    with pytest.raises(GateFailed, match=r"totals.raw_gap is 1"):
        check_quality.run(checked_home, spark, "telemetry")


def test_each_days_first_check_is_of_everything(
    checked_lake: Lake, checked_home: Settings, spark: SparkSession
) -> None:
    checked_lake.save(checked_home.layout)
    check_quality.run(checked_home, spark, "telemetry")
    path = checked_home.layout.checked("telemetry")
    path.write_text(path.read_text().replace('"day": "2', '"day": "1'))

    assert check_quality.run(checked_home, spark, "telemetry")["full"]
    path.write_text("{")
    assert check_quality.run(checked_home, spark, "telemetry")["full"]


def test_new_batches_add_to_the_totals_that_were_kept(
    checked_lake: Lake, checked_home: Settings, spark: SparkSession
) -> None:
    layout = checked_home.layout
    checked_lake.save(layout)
    check_quality.run(checked_home, spark, "telemetry")
    checked_lake.append(layout.ledger("telemetry"), "ledger", [(3, "files", 2, 0, 1, 1, 0, {"clock": 1})])
    checked_lake.append(layout.quarantine("telemetry"), "quarantine", [(3, "clock", "landing/b.csv")])
    row = (*checked_lake.raw[0][:1], "c", *checked_lake.raw[0][2:6], 3, None)
    checked_lake.append(layout.raw("telemetry"), "raw", [row])

    figures = check_quality.run(checked_home, spark, "telemetry")

    assert (figures["full"], figures["failed"], figures["through"]) == (False, 0, 3)
    assert read_checked(layout.checked("telemetry"), checked_lake.stream.definition(), _today()).totals == {
        **{"received": 11, "requeued": 0, "accepted": 7, "quarantined": 3, "duplicates": 1}
    }


def _today() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}"


@pytest.mark.parametrize("few_rows", [0, 1_000])
@pytest.mark.parametrize("runner", ["spark", "on_spark"])
def test_a_repeated_identity_is_found_by_either_runner_among_new_rows_and_among_all(
    checked_lake: Lake,
    checked_home: Settings,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    few_rows: int,
    runner: str,
) -> None:
    monkeypatch.setattr(repeats, "FEW_ROWS", few_rows)
    session = request.getfixturevalue(runner)
    checked_lake.with_rows("raw", [*checked_lake.raw, checked_lake.raw[4]]).save(checked_home.layout)

    with pytest.raises(GateFailed, match=r"raw.repeated_identities is 1 \(batch 2\)"):
        check_quality.run(checked_home, session, "telemetry")
