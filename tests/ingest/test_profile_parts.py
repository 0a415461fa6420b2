"""A stream's profile says of each day and column what all of its accepted rows say, however they came in."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pytest

from jobs import ingest
from lakehouse.algorithms.profile.frequent import MOST
from lakehouse.algorithms.profile.summary import SIZE
from lakehouse.engine import engine_of
from lakehouse.ingest import profile_parts
from lakehouse.settings import Settings
from lakehouse.storage.profiles import DAY_US, NO_DAY, ROWS, Profile, profile_of, read_profile
from lakehouse.storage.tables.table_log import file_facts, read_rows
from lakehouse.storage.tables.table_maintenance import SMALL_FILES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIG = """
home = "var"
[streams.readings]
event_time = { column = "ts", unit = "s" }
identity = ["device", "ts"]
keys = ["device", "floor"]
measures = ["temp", "price", "count"]
counters = ["count"]
levels = ["1m for 2d", "1d forever"]
[streams.readings.source]
path = "landing/*.ndjson"
format = "ndjson"
settle = 0
[streams.readings.columns]
ts = "double"
device = "string"
floor = "int"
temp = "double"
price = { type = "decimal", decimals = 2 }
count = "int"
note = "string"
ok = "boolean"
"""
T0, DAYS = 1_600_000_000 // 86_400 * 86_400, 3
FIRST, LAST = (T0 - 9 * 86_400) * 1_000_000, (T0 + 9 * 86_400) * 1_000_000
NUMBERS = ("floor", "temp", "price", "count", "ok", "ts")


def made(seed: int, count: int) -> list[dict[str, Any]]:
    dice = np.random.default_rng(seed)
    return [
        {
            "ts": T0 + float(dice.integers(0, DAYS * 86_400)) + n / 1e5,
            "device": f"d{min(int(dice.exponential(20)), 99)}",
            "floor": int(dice.integers(-1, 3)),
            "temp": None if dice.random() < 0.05 else round(float(dice.normal(3, 9)), 3),
            "price": str(Decimal(int(dice.integers(-(10**6), 10**6))) / 100),
            "count": int(dice.integers(-2, 10**6)),
            "note": None if dice.random() < 0.5 else f"n{dice.integers(0, 900)}",
            "ok": bool(dice.random() < 0.3),
        }
        for n in range(count)
    ]


def land(settings: Settings, name: str, rows: Sequence[dict[str, Any]], more: str = "") -> None:
    folder = Path(settings.streams["readings"].source.path).parent
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows) + more)


def everything(settings: Settings) -> Profile:
    return read_profile(settings.layout, "readings", NO_DAY, LAST)


def same(one: Profile, other: Profile) -> None:
    """Require that two profiles differ by no more than rounding, and frequent values by no more than their error."""
    assert {day: list(columns) for day, columns in one.items()} == {
        day: list(columns) for day, columns in other.items()
    }
    for day, columns in one.items():
        for name, own in columns.items():
            mine, its, theirs = own.summary, other[day][name].summary, other[day][name]
            for figure in ("rows", "missing", "low", "high", "distinct", "shift"):
                assert getattr(mine, figure) == getattr(its, figure), (day, name, figure)
            assert mine.mean == pytest.approx(its.mean, rel=1e-9, abs=1e-9)
            assert mine.squares == pytest.approx(its.squares, rel=1e-7)
            assert sorted(zip(mine.bins, mine.weights, strict=True)) == sorted(
                zip(its.bins, its.weights, strict=True)
            )
            assert own.rejected == theirs.rejected
            for value in {*own.frequent.counts, *theirs.frequent.counts}:
                apart = own.frequent.counts.get(value, 0) - theirs.frequent.counts.get(value, 0)
                assert -own.frequent.error <= apart <= theirs.frequent.error


def test_figures_are_those_of_all_rows_and_the_same_for_any_batches_and_after_a_fold(
    lakehouse_of: Callable[[str], Settings], session: SparkSession, tmp_path: Path
) -> None:
    settings, dice = lakehouse_of(CONFIG), np.random.default_rng(3)
    rows = made(1, 4500)
    cuts = sorted(dice.integers(0, 4500, 4).tolist())
    for number, part in enumerate(np.split(np.arange(4500), cuts)):
        land(settings, f"{number:02}", [rows[n] for n in [*part, *part[:2]]])
        ingest.run(settings, session, "readings")
    parts = everything(settings)
    (tmp_path / "whole").mkdir()
    whole = settings.model_copy(update={"home": tmp_path / "whole" / "var"})
    ingest.run(whole, session, "readings")

    same(parts, everything(whole))
    compare_with_duckdb(settings, parts)
    files = len(file_facts(settings.layout.profile("readings")))
    engine = engine_of(session)
    folded = dict[str, int]()
    for number in range(16):
        land(settings, f"more-{number:02}", [rows[number] | {"ts": rows[number]["ts"] + 20 * 86_400}])
        ingest.run(settings, session, "readings")
        folded |= profile_parts.fold(engine, settings.layout, "readings")
    assert folded["profile_files_folded"] > files
    assert len(file_facts(settings.layout.profile("readings"))) <= SMALL_FILES + 2
    same({day: of for day, of in everything(settings).items() if day < T0 * 10**6 + DAYS * DAY_US}, parts)
    assert profile_parts.fold(engine, settings.layout, "readings") == {}


def compare_with_duckdb(settings: Settings, days: Profile) -> None:
    live = [str(file.path) for file in file_facts(settings.layout.raw("readings"))]
    assert list(days) == sorted(T0 * 10**6 + n * DAY_US for n in range(DAYS))
    for day, columns in days.items():
        table = f"(FROM read_parquet({live}) WHERE event_us // {DAY_US} * {DAY_US} = {day})"
        (count,) = _row(f"SELECT count(*) FROM {table}")
        by_minute = dict(
            duckdb.sql(f"SELECT event_us // 60000000 % 1440, count(*) FROM {table} GROUP BY 1").fetchall()
        )
        assert columns[ROWS].summary.rows == count
        assert {n: c for n, c in enumerate(columns[ROWS].minutes.tolist()) if c} == by_minute
        for name, own in columns.items():
            if name == ROWS:
                continue
            column = own.summary
            value = f"CASE WHEN {name} >= 0 THEN {name} END" if name == "count" else name
            missing, distinct = _row(
                f"SELECT count(*) - count({value}), count(DISTINCT {value}) FROM {table}"
            )
            assert (column.rows, column.missing) == (count, missing)
            if distinct < SIZE:
                assert column.distinct == distinct
            assert abs(column.distinct - distinct) <= 0.2 * distinct
            if name in NUMBERS:
                numbers = np.sort(
                    [
                        float(v)
                        for (v,) in duckdb.sql(f"SELECT {value} FROM {table}").fetchall()
                        if v is not None
                    ]
                )
                exact = [Decimal(v) for v in numbers]
                mean = sum(exact, Decimal(0)) / len(exact)
                assert (column.low, column.high) == (numbers[0], numbers[-1])
                assert column.mean == pytest.approx(float(mean), rel=1e-12, abs=1e-9)
                squares = float(sum(((v - mean) ** 2 for v in exact), Decimal(0)) / (len(exact) - 1))
                assert column.deviation == pytest.approx(math.sqrt(squares), rel=1e-9)
                for share in (0, 0.01, 0.5, 0.9, 1):
                    at = np.quantile(numbers, share, method="nearest")
                    assert abs(column.quantile(share) - at) <= column.error * abs(at) + 1e-300
            if name in ("device", "floor"):
                counts = dict(duckdb.sql(f"SELECT {name}::TEXT, count(*) FROM {table} GROUP BY 1").fetchall())
                assert len(own.frequent.counts) <= MOST
                for each, number in counts.items():
                    assert 0 <= number - own.frequent.counts.get(each, 0) <= own.frequent.error
                assert own.frequent.error <= count / (MOST + 1)


def _row(text: str) -> tuple[Any, ...]:
    row = duckdb.sql(text).fetchone()
    assert row is not None
    return row


def test_late_rows_and_rejected_records_are_counted_on_their_day_once(
    lakehouse_of: Callable[[str], Settings], session: SparkSession
) -> None:
    settings = lakehouse_of(CONFIG)
    rows = made(2, 60)
    wrong = [rows[0] | {"temp": "warm"}, rows[1] | {"price": "1.0"}, {"device": "a"}]
    land(settings, "a", [*rows, rows[2], *wrong], "{\n")
    ingest.run(settings, session, "readings")
    land(settings, "b", [row | {"ts": row["ts"] - 86_400} for row in rows])
    ingest.run(settings, session, "readings")
    ledger = read_rows(settings.layout.ledger("readings"))
    days = everything(settings)

    day_of = [int(row["ts"]) // 86_400 * DAY_US for row in rows[:2]]
    assert days[NO_DAY][ROWS].rejected == {"malformed": 1, "no_event_time": 1}
    assert days[day_of[0]][ROWS].rejected.get("bad_value") == 1
    assert days[day_of[1]][ROWS].rejected.get("conflict") == 1
    assert sum(of[ROWS].late for of in days.values()) == sum(row["late"] for row in ledger) > 50
    rejected = sum(sum(of[ROWS].rejected.values()) for of in days.values())
    assert rejected == sum(row["quarantined"] for row in ledger) == 4
    for name in settings.streams["readings"].all_columns:
        missing = sum(of[name].summary.missing for of in days.values() if name in of)
        assert missing == sum(dict(row["missing"])[name] for row in ledger)
    shown = profile_of(settings.layout, "readings")
    assert shown[0]["column"] == ROWS
    assert sum(shown[0]["by_hour"]) == shown[0]["rows"] == shown[1]["rows"]
    json.dumps(shown)
