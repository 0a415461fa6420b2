"""A batch that is judged on the driver becomes the same rows, rejections and counts as one that Spark judges."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.declare.settings import Settings, load_settings
from lakehouse.streams import file_chunks, small_batch
from tests import readings
from tests.faults.inputs import READINGS
from tests.readings_lake import Lake
from tests.streams import hostile
from tests.streams.no_session import no_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
T0 = 1_600_000_000
COLUMNS = {
    "raw": ("*",),
    "quarantine": ("*",),
    "ledger": (
        *("batch", "records", "received", "accepted", "quarantined", "duplicates", "reasons", "missing"),
        *("min_event_us", "max_event_us", "newest_us", "late", "lateness", "max_lateness_us"),
    ),
}


@pytest.mark.parametrize("identity", ['["device", "ts"]', '["*"]', "[]"])
def test_small_batches_and_large_ones_leave_the_same_tables(
    lake: Callable[..., Lake], tmp_path: Any, monkeypatch: pytest.MonkeyPatch, identity: str
) -> None:
    small = lake()
    config = tmp_path / "tidemark.toml"
    config.write_text(config.read_text().replace('identity = ["device", "ts"]', f"identity = {identity}"))
    small = Lake(small.spark, load_settings(config))
    large = Lake(small.spark, load_settings(config, tmp_path / "other"))
    pick = random.Random(identity)
    for batch in range(3):
        lines = [line(pick) for _ in range(25)]
        small.land(f"{batch}a.ndjson", "".join(lines))
        small.land(
            f"{batch}b.ndjson.gz",
            gzip.compress("".join([*lines[:3], line(pick)]).encode())[: -9 * (batch == 1) or None],
        )
        if batch == 2:
            small.land("c.ndjson.gz", b"not gzip")
        monkeypatch.setattr(small_batch, "SMALL_BYTES", 10**6)
        small.ingest()
        # Too large, or one with too many rejected records.
        module, bound = (file_chunks, "REJECTED_BYTES") if batch == 1 else (small_batch, "SMALL_BYTES")
        with monkeypatch.context() as patch:
            patch.setattr(module, bound, -1)
            large.ingest()

    for table, columns in COLUMNS.items():
        assert small.rows(table, *columns) == large.rows(table, *columns), table
    for row in small.rows("ledger", "received", "accepted", "quarantined", "duplicates"):
        assert row[0] == sum(row[1:])


@pytest.mark.parametrize("file_format", ["ndjson", "csv"])
def test_hostile_lines_leave_the_same_tables_with_spark_and_without(
    spark: SparkSession, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, file_format: str
) -> None:
    config = tmp_path / "tidemark.toml"
    source = f'format = "{file_format}"\npath = "landing/*"\nsettle = 0\nbatch_files = 5000\n'
    body = READINGS.format(name=file_format)
    config.write_text(
        f'home = "var"\n[streams.{file_format}]\n{body}[streams.{file_format}.source]\n{source}',
        encoding="utf-8",
    )
    here, there = (Lake(spark, load_settings(config, tmp_path / home), file_format) for home in "ab")
    for name, content in getattr(hostile, file_format)().items():
        if not name.endswith(".gz"):
            here.land(name, content)
    here.ingest()
    with monkeypatch.context() as patch:
        patch.setattr(small_batch, "SMALL_BYTES", -1)
        there.ingest()

    for table, columns in COLUMNS.items():
        assert here.rows(table, *columns) == there.rows(table, *columns), table


def test_a_batch_of_bad_lines_starts_no_spark(lakehouse_of: Callable[[str], Settings]) -> None:
    settings = lakehouse_of(readings.declared("ndjson"))
    lake = Lake(no_session(settings), settings)
    good = f'{{"ts": {T0}, "device": "a", "temp": 1.0, "count": 1}}\n'
    bad = [good[:-2], good.replace("1.0", '"hot"'), good.replace(str(T0), "noon"), good.replace("1.0", "2.0")]
    lake.land("a.ndjson", good + "\n".join(bad) + "\nno json\n" + good.replace('"a"', '"b\u00fcro"'))
    counts = lake.ingest()
    assert {name: counts[name] for name in ("accepted", "quarantined")} == {"accepted": 2, "quarantined": 5}


def line(pick: random.Random) -> str:
    second = pick.randrange(12)
    record: dict[str, Any] = {"ts": T0 + second, "received": T0 + second, "device": pick.choice("ab")}
    record |= {"temp": float(pick.randrange(2)), "count": pick.choice([1, 1, 1, None, "x"])}
    text = json.dumps(record)
    return pick.choice([text] * 9 + [text[:-1], text.replace("device", "dev\\u0069ce")]) + "\n"
