from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import functions as F

from jobs import check_quality
from lakehouse.declare.settings import Settings
from lakehouse.home.corrections import read_corrections
from lakehouse.home.layout import Home
from lakehouse.streams import checks as metrics
from quality import GateFailed
from quality.history import verified_through
from tests.quality.conftest import Lake

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def _save(checked_lake: Lake, checked_home: Settings) -> None:
    layout = checked_home.layout
    paths = {
        "ledger": layout.ledger,
        "raw": layout.raw,
        "quarantine": layout.quarantine,
        "nodes": layout.rollup,
    }
    for table, path in paths.items():
        rows = checked_lake.frame(table).coalesce(1)
        rows.write.format("delta").mode("overwrite").save(str(path("telemetry")))
    told = f"'tidemark.definition' = '{checked_lake.stream.definition()}'"
    checked_lake.spark.sql(f"ALTER TABLE delta.`{layout.rollup('telemetry')}` SET TBLPROPERTIES ({told})")


def test_a_stream_that_never_landed_anything_passes(checked_lake: Lake, checked_home: Settings) -> None:
    assert check_quality.run(checked_home, checked_lake.spark, "telemetry") == {"checks": 0, "failed": 0}


def test_right_tables_pass_and_are_not_read_again(checked_lake: Lake, checked_home: Settings) -> None:
    _save(checked_lake, checked_home)

    first = check_quality.run(checked_home, checked_lake.spark, "telemetry")
    second = check_quality.run(checked_home, checked_lake.spark, "telemetry")

    assert (first["checks"], first["through"]) == (27, 2)
    assert second["checks"] == first["checks"] - 6
    assert Path(first["report"]).is_file()
    assert verified_through(checked_lake.spark, checked_home.layout.quality, "telemetry") == 2
    assert verified_through(checked_lake.spark, checked_home.layout.quality, "other") == -1


def test_a_failed_rule_stops_the_gate_and_stays_in_the_history(
    checked_lake: Lake, checked_home: Settings
) -> None:
    _save(checked_lake.with_rows("raw", checked_lake.raw[1:]), checked_home)

    with pytest.raises(
        GateFailed, match=r"raw.gap_to_ledger is 1 \(batch 1\), expected at most 0"
    ) as failure:
        check_quality.run(checked_home, checked_lake.spark, "telemetry")

    history = checked_lake.spark.read.format("delta").load(str(checked_home.layout.quality))
    failed = (
        history.where("not success").select("table", "expectation", "observed").orderBy("table").collect()
    )
    assert [tuple(row) for row in failed] == [("raw", "gap_to_ledger", 1.0), ("totals", "raw_gap", 1.0)]
    assert failure.value.report.is_file()
    assert verified_through(checked_lake.spark, checked_home.layout.quality, "telemetry") == -1


def test_batches_that_come_while_it_checks_are_no_failure(
    checked_lake: Lake, checked_home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service goes on beside the checks: what it built after the ledger was read seemed too much."""
    _save(checked_lake, checked_home)

    def read_as_one_comes(layout: Home, stream: str) -> object:
        nodes = (
            checked_lake.frame("nodes")
            .where("level > 0 or batch = 2")
            .withColumn("batch", F.lit(3).cast("bigint"))
        )
        nodes.write.format("delta").mode("append").save(str(layout.rollup("telemetry")))
        return read_corrections(layout, stream)

    monkeypatch.setattr(metrics, "read_corrections", read_as_one_comes)

    assert check_quality.run(checked_home, checked_lake.spark, "telemetry")["failed"] == 0
