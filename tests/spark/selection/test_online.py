from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jobs import ingest, run_queries
from lakehouse.catalog.settings import Settings
from lakehouse.catalog.stopped import QueryStopped, read_stopped
from lakehouse.catalog.table_log import read_rows
from lakehouse.spark import tables
from lakehouse.spark.selection.online import Run
from tests.readings import declared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
T0 = 1_600_000_000
ODD = """
import pyarrow as pa
import pyarrow.compute as pc


def odd(count):
    return pc.equal(pc.bit_wise_and(count, 1), 1)
"""
SHORT = """
def short(device, temp) -> bool:
    return device is not None and temp is not None and len(device) < 3 and temp < 80
"""
QUERIES = {
    "warm": "SELECT * FROM readings WHERE temp > 20 AND odd(count) AND device <> 'cc'",
    "even": "SELECT device, temp AS t, event_us AS at FROM readings WHERE NOT count % 2 = 1 AND temp > 20",
    "brief": "SELECT count FROM readings r WHERE short(r.device, r.temp) AND odd(count) DEADLINE 2 SECONDS",
}
TRUTH = {
    "warm": lambda row: (
        row["temp"] is not None and row["temp"] > 20 and row["count"] % 2 == 1 and row["device"] != "cc"
    ),
    "even": lambda row: row["temp"] is not None and row["temp"] > 20 and row["count"] % 2 == 0,
    "brief": lambda row: (
        row["temp"] is not None and len(row["device"]) < 3 and row["temp"] < 80 and row["count"] % 2 == 1
    ),
}


def land(settings: Settings, part: int, size: int = 200) -> list[dict[str, Any]]:
    """Land some readings, one of twenty without a temperature."""
    dice = np.random.default_rng(part)
    rows = [
        {
            "ts": T0 + 1000 * part + n,
            "received": T0 + 1000 * part + n,
            "device": ["a", "bb", "cc", "dddd"][dice.integers(4)],
            "temp": None if dice.random() < 0.05 else float(dice.integers(0, 100)),
            "count": int(dice.integers(0, 50)),
        }
        for n in range(size)
    ]
    folder = Path(settings.streams["readings"].source.path).parent
    folder.mkdir(exist_ok=True)
    (folder / f"{part:03d}.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


def write(tmp_path: Path, queries: dict[str, str], **predicates: str) -> None:
    for folder, suffix, texts in (("queries", "sql", queries), ("predicates", "py", predicates)):
        (tmp_path / folder).mkdir(exist_ok=True)
        for name, text in texts.items():
            (tmp_path / folder / f"{name}.{suffix}").write_text(text)


def selected(settings: Settings, name: str) -> list[dict[str, Any]]:
    return sorted(read_rows(settings.layout.selected(name)), key=lambda row: row["event_us"])


def times(rows: Sequence[dict[str, Any]], name: str) -> list[int]:
    return [row["ts"] * 10**6 for row in rows if TRUTH[name](row)]


def test_selections_of_a_stream_run_in_one_pass_and_select_what_their_conditions_say(
    tmp_path: Path, spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    write(tmp_path, QUERIES, odd=ODD, short=SHORT)
    settings = lakehouse_of(declared())
    rows = land(settings, 0)
    ingest.run(settings, spark, "readings")
    first = run_queries.run(settings, spark, "warm")
    rows += land(settings, 1)
    ingest.run(settings, spark, "readings")
    run_queries.run(settings, spark, "even")

    assert first["rows"] == 200
    assert first["selected"] == len(times(rows[:200], "warm"))
    for name in QUERIES:
        found = selected(settings, name)
        assert [row["event_us"] for row in found] == times(rows, name)
        assert len({row["row_id"] for row in found}) == len(found)
        assert {row["batch"] for row in found} == {1, 2}
        told = read_rows(settings.layout.queries(name))
        assert [row["together"] for row in told if row["operator"] < 0] == [3, 3]
        assert run_queries.run(settings, spark, name) == {"batches": 0, "rows": 0, "selected": 0, "misses": 0}
    assert [row["t"] for row in selected(settings, "even")] == [r["temp"] for r in rows if TRUTH["even"](r)]
    assert set(selected(settings, "brief")[0]) == {"event_us", "row_id", "batch", "count"}
