"""Rules proposed by a profile are accepted by the configuration and hold of the rows they come from."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from jobs import ingest
from lakehouse.config.rules import Rule
from lakehouse.ingest.parser.row_rules import verdicts
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.tables.table_reads import read_between
from tests.cli.conftest import Tidemark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIG = """
home = "var"
[streams.readings]
event_time = { column = "ts", unit = "s" }
keys = ["device", "floor"]
measures = ["temp", "price", "count"]
counters = ["count"]
levels = ["1m for 30d", "1h for 1y", "1d forever"]
[streams.readings.source]
path = "landing/*.ndjson"
format = "ndjson"
settle = 0
[streams.readings.columns]
ts = "int"
device = "string"
floor = "int"
temp = "double"
price = { type = "decimal", decimals = 2 }
count = "int"
stage = "int"
same = "double"
id = "string"
note = "string"
"""
T0 = 1_600_000_000


def land(settings: Settings) -> None:
    dice, folder = np.random.default_rng(1), Path(settings.streams["readings"].source.path).parent
    folder.mkdir()
    rows = [
        {
            "ts": T0 + 60 * n,
            "device": 'a"b\\' if n % 3 else "\u00e9",
            "floor": n % 5 - 1,
            "temp": None if n % 50 == 0 else round(float(dice.normal(-3, 9)), 3),
            "price": str(round(float(dice.lognormal(0, 1)), 2)),
            "count": n,
            "stage": int(dice.integers(0, 3)) * 10**9,
            "same": 0.1,
            "id": f"i{n}",
            "note": None,
        }
        for n in range(4000)
    ]
    (folder / "a.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_proposed_rules_are_accepted_and_hold_of_the_rows_they_come_from(
    lakehouse_of: Callable[[str], Settings], session: SparkSession, called: Tidemark, tmp_path: Path
) -> None:
    settings = lakehouse_of(CONFIG)
    empty = called("rules", "readings", "--propose")
    land(settings)
    ingest.run(settings, session, "readings")
    printed = called("rules", "readings", "--propose").stdout
    as_json = called("rules", "readings", "--propose", "--json").stdout
    (tmp_path / "tidemark.toml").write_text(CONFIG + printed, encoding="utf-8")
    pasted = load_settings(tmp_path / "tidemark.toml")
    raw = read_between(settings.layout.raw("readings"))

    assert (empty.returncode, "no row of readings is there yet" in empty.stderr) == (2, True)
    given: Sequence[Any] = pasted.streams["readings"].rules
    rules = [rule for rule in given if isinstance(rule, Rule)]
    proposed = {(rule.column, rule.expect.removeprefix("column_values_to_")) for rule in rules}
    assert proposed >= {
        *((name, "be_between") for name in ("temp", "price", "stage", "same")),
        *((name, "be_in_set") for name in ("device", "floor")),
        *((name, "not_be_null") for name in ("device", "temp", "id")),
    }
    assert not proposed & {("note", "not_be_null"), ("id", "be_in_set"), ("ts", "be_between")}
    for rule in rules:
        broken = verdicts({name: raw[name] for name in rule.columns}, rule)
        assert (pc.sum(broken).as_py() or 0) <= (1 - rule.mostly) * raw.num_rows, rule
    tables = tomllib.loads(printed)["streams"]["readings"]["rules"]
    assert json.loads(as_json) == tables
    sentences = json.loads(called("rules", "readings", "--json").stdout)
    assert len(sentences) == len(tables)
    assert all(each["says"] for each in sentences)
    assert "temp is at least" in called("rules", "readings").stdout


def test_a_profile_is_printed_by_day_in_order_of_columns(
    lakehouse_of: Callable[[str], Settings], session: SparkSession, called: Tidemark
) -> None:
    settings = lakehouse_of(CONFIG)
    assert called("profile", "readings").stdout == "no row of readings is there yet\n"
    land(settings)
    ingest.run(settings, session, "readings")

    last = called("profile", "readings").stdout
    rows = json.loads(called("profile", "readings", "--day", "2020-09-13", "--json").stdout)

    assert last.startswith("readings, 2020-09-16: ")
    assert [row["column"] for row in rows] == ["*", *settings.streams["readings"].all_columns]
    assert rows[0]["rows"] == sum(rows[0]["by_hour"]) == 694
    temp = next(row for row in rows if row["column"] == "temp")
    assert temp["least"] < temp["quantiles"]["0.5"] < temp["greatest"]
    assert "no row of readings is of that day" in called("profile", "readings", "--day", "2019-01-01").stdout
