"""Wide records: each field of a line that is a channel becomes a row, the same by every way through the ingest."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from lakehouse.settings import load_settings
from tests.conftest import DATA
from tests.support.readings_lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
T0 = 1_600_000_000
CONFIG = """
home = "var"
[streams.logger]
event_time = {{ column = "at", unit = "s" }}
identity = {identity}
keys = ["channel"]
measures = ["value"]
groupings = [["channel"], []]
levels = ["1m forever"]
[streams.logger.source]
path = "landing/*.csv"
format = "csv"
settle = 0
unpivot = {{ columns = "^(Temp|O2)" }}
[streams.logger.columns]
at = "int"
channel = "string"
value = {value}
site = {{ optional = true }}
"""
COLUMNS = {
    "raw": (
        "at",
        "channel",
        "value",
        "site",
        "event_us",
        "source_file",
        "source_line",
        "source_item",
        "batch",
    ),
    "quarantine": ("*",),
    "ledger": (
        "batch",
        "records",
        "received",
        "requeued",
        "accepted",
        "quarantined",
        "duplicates",
        "reasons",
    ),
}
LENIENT = '{ type = "double", unreadable = "missing" }'
HEADERS = (
    ("at", "Temp 1", "Temp 2", "O2 A"),
    ("at", "note", "O2 A", "Temp 2", "site"),
    ("at", "note"),
    ("note", "Temp 1"),
)


def wide_file(pick: random.Random, header: tuple[str, ...]) -> str:
    """Return lines of a logger, most of them as they should be."""

    def field(name: str) -> str:
        usual = str(T0 + pick.randrange(6)) if name == "at" else str(pick.randrange(3))
        return (
            usual
            if pick.random() < 0.93
            else pick.choice(["", "x", "NaN", "1e400", '"a ""b"""', "é", "\u0661"])
        )

    lines = [",".join(map(field, header)) for _ in range(12)]
    lines.append(lines[-1])
    lines.append(pick.choice([lines[0] + ",1", "1", '"', ",".join(header), "\x00,1,2,3"]))
    return "\n".join([",".join(header), *lines]) + "\n"


def at(spark: SparkSession, folder: Path, home: str, identity: str, value: str = '"double"') -> Lake:
    folder.mkdir(exist_ok=True)
    config = folder / "tidemark.toml"
    config.write_text(CONFIG.format(identity=identity, value=value), encoding="utf-8")
    return Lake(spark, load_settings(config, folder / home), "logger")


@pytest.mark.parametrize("identity", ["[]", '["at", "channel"]', '["*"]'])
def test_wide_lines_become_the_same_rows_on_every_runner(
    spark: SparkSession, on_spark: SparkSession, tmp_path: Path, identity: str
) -> None:
    pick = random.Random(identity)
    here, there = at(spark, tmp_path, "here", identity), at(on_spark, tmp_path, "there", identity)
    for batch in range(2):
        for number, header in enumerate(HEADERS):
            here.land(f"{batch}{number}.csv", wide_file(pick, header))
        here.ingest()
        there.ingest()

    for table, columns in COLUMNS.items():
        assert here.rows(table, *columns) == there.rows(table, *columns), table
    for _, received, accepted, quarantined, duplicates in here.rows(
        "ledger", "batch", "received", "accepted", "quarantined", "duplicates"
    ):
        assert received == accepted + quarantined + duplicates
    assert {row[0] for row in here.rows("raw", "channel")} == {"Temp 1", "Temp 2", "O2 A"}


def test_a_bad_value_is_rejected_alone_and_comes_back_alone(spark: SparkSession, tmp_path: Path) -> None:
    lake = at(spark, tmp_path, "var", '["at", "channel"]')
    lake.land("a.csv", f"at,Temp 1,Temp 2,O2 A\n{T0},1,hot,\n")

    counts = lake.ingest()

    assert {name: counts[name] for name in ("received", "accepted", "quarantined")} == {
        "received": 3,
        "accepted": 2,
        "quarantined": 1,
    }
    assert lake.rows("raw", "channel", "value", "source_item") == [("O2 A", None, 2), ("Temp 1", 1.0, 0)]
    assert lake.rows("quarantine", "reason", "detail", "source_item") == [
        ("bad_value", "value is 'hot', expected double", 1)
    ]

    more = at(spark, tmp_path, "var", '["at", "channel"]', LENIENT).requeue()

    assert (more["requeued"], more["accepted"]) == (1, 1)
    assert lake.rows("raw", "channel", "value") == [("O2 A", None), ("Temp 1", 1.0), ("Temp 2", None)]


def test_fields_of_one_name_are_channels_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    lake = at(spark, tmp_path, "var", '["at", "channel"]')
    lines = (f"{T0 + n},40,60,{40 + n % 2}" for n in range(10))
    lake.land("a.csv", "\n".join(["at,Temp 1,Temp 2,Temp 1", *lines]) + "\n")

    counts = lake.ingest()

    assert (counts["accepted"], counts["quarantined"], counts["duplicates"]) == (30, 0, 0)
    sums = dict.fromkeys(("Temp 1", "Temp 2", "Temp 1_1"), 0.0)
    for channel, value in lake.rows("raw", "channel", "value"):
        sums[channel] += value
    assert sums == {"Temp 1": 400, "Temp 2": 600, "Temp 1_1": 405}
    assert lake.rows("ledger", "schema_changes") == [
        (["a.csv: Temp 1_1 is text, another field named 'Temp 1'"],)
    ]


def test_channels_of_real_fires_are_those_that_their_files_hold(spark: SparkSession, tmp_path: Path) -> None:
    files = sorted((DATA / "building-fire" / "compartment").glob("*_Center_1.csv.gz"))
    if not files:
        pytest.skip("absent beside this checkout: ../shared/data/building-fire")
    config = tmp_path / "tidemark.toml"
    config.write_text(FIRES.format(path=files[0].parent / "*_Center_1.csv.gz"), encoding="utf-8")
    lake = Lake(spark, load_settings(config), "fires")

    counts = lake.ingest()

    assert counts["received"] == counts["accepted"] + counts["quarantined"] + counts["duplicates"]
    assert counts["quarantined"] == 0
    raw = lake.settings.layout.raw("fires")
    with duckdb.connect() as connection:
        found = connection.execute(SUMS.format(f"read_parquet('{raw}/**/*.parquet')")).fetchall()
        expected = [
            row
            for path in files
            for row in connection.execute(
                WIDE.format(name=path.name.removesuffix(".csv.gz"), path=path)
            ).fetchall()
        ]
    assert found == sorted(expected)
    assert len({channel for _, channel, *_ in found}) > 60


FIRES = """
home = "var"
[streams.fires]
event_time = {{ column = "Timestamp", unit = "iso" }}
keys = ["experiment", "channel"]
measures = ["value"]
groupings = [["experiment", "channel"]]
levels = ["1s for 1h", "1m forever"]
[streams.fires.source]
path = "{path}"
format = "csv"
settle = 0
unpivot = {{ columns = "Temperature|Oxygen|Heat Release|Flux|Pressure|Velocity" }}
[streams.fires.columns]
experiment = {{ file = "([^/]+)\\\\.csv" }}
channel = "string"
value = "double"
"""
SUMS = "SELECT experiment, channel, count(*), count(value), round(sum(value), 3) FROM {} GROUP BY ALL ORDER BY ALL"
WIDE = """
    SELECT '{name}', channel, count(*), count(value), round(sum(value), 3)
    FROM (FROM read_csv('{path}', nullstr = ['', 'NaN'], sample_size = -1)) UNPIVOT INCLUDE NULLS (
        value FOR channel IN (COLUMNS('Temperature|Oxygen|Heat Release|Flux|Pressure|Velocity')))
    GROUP BY ALL
"""
