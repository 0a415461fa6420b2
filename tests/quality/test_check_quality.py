from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import functions as F

from jobs import check_quality
from lakehouse.catalog.corrections import read_corrections
from lakehouse.catalog.layout import Home
from lakehouse.catalog.settings import Settings
from quality import GateFailed, metrics
from quality.history import verified_through
from tests.quality.conftest import Lake

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def _save(lake: Lake, home: Settings) -> None:
    layout = home.layout
    paths = {
        "ledger": layout.ledger,
        "raw": layout.raw,
        "quarantine": layout.quarantine,
        "nodes": layout.rollup,
    }
    for table, path in paths.items():
        rows = lake.frame(table).coalesce(1)
        rows.write.format("delta").mode("overwrite").save(str(path("telemetry")))
    told = f"'tidemark.definition' = '{lake.stream.definition()}'"
    lake.spark.sql(f"ALTER TABLE delta.`{layout.rollup('telemetry')}` SET TBLPROPERTIES ({told})")


def test_a_stream_that_never_landed_anything_passes(lake: Lake, home: Settings) -> None:
    assert check_quality.run(home, lake.spark, "telemetry") == {"checks": 0, "failed": 0}


def test_right_tables_pass_and_are_not_read_again(lake: Lake, home: Settings) -> None:
    _save(lake, home)

    first = check_quality.run(home, lake.spark, "telemetry")
    second = check_quality.run(home, lake.spark, "telemetry")

    assert (first["checks"], first["through"]) == (27, 2)
    assert second["checks"] == first["checks"] - 6
    assert Path(first["report"]).is_file()
    assert verified_through(lake.spark, home.layout.quality, "telemetry") == 2
    assert verified_through(lake.spark, home.layout.quality, "other") == -1


def test_a_failed_rule_stops_the_gate_and_stays_in_the_history(lake: Lake, home: Settings) -> None:
    _save(lake.with_rows("raw", lake.raw[1:]), home)

    with pytest.raises(
        GateFailed, match=r"raw.gap_to_ledger is 1 \(batch 1\), expected at most 0"
    ) as failure:
        check_quality.run(home, lake.spark, "telemetry")

    history = lake.spark.read.format("delta").load(str(home.layout.quality))
    failed = (
        history.where("not success").select("table", "expectation", "observed").orderBy("table").collect()
    )
    assert [tuple(row) for row in failed] == [("raw", "gap_to_ledger", 1.0), ("totals", "raw_gap", 1.0)]
    assert failure.value.report.is_file()
    assert verified_through(lake.spark, home.layout.quality, "telemetry") == -1


def test_batches_that_come_while_it_checks_are_no_failure(
    lake: Lake, home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service goes on beside the checks: what it built after the ledger was read seemed too much."""
    _save(lake, home)

    def read_as_one_comes(layout: Home, stream: str) -> object:
        nodes = (
            lake.frame("nodes").where("level > 0 or batch = 2").withColumn("batch", F.lit(3).cast("bigint"))
        )
        nodes.write.format("delta").mode("append").save(str(layout.rollup("telemetry")))
        return read_corrections(layout, stream)

    monkeypatch.setattr(metrics, "read_corrections", read_as_one_comes)

    assert check_quality.run(home, lake.spark, "telemetry")["failed"] == 0
