"""The records of a source that a stream is about."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import ingest
from lakehouse.config.problems import ConfigError
from lakehouse.config.where import condition, fields_of
from lakehouse.ingest.parser.field_map import WHERE
from lakehouse.ingest.parser.own_records import are_own
from lakehouse.settings import Settings
from tests.support.table_rows import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Make = Callable[[str], Settings]
NUMBERS = ["0.1", "1", "-2.5", "9007199254740993", "9007199254740993.001", "1e3", "1e-20"]
TEXTS = ["flow", "dns", "Flow", "", "a%b", "1"]
CONFIG = """
home = "var"
[streams.flows]
event_time = { column = "at", unit = "iso" }
measures = ["pkts"]
levels = ["1d forever"]
columns.pkts = { path = "flow.pkts", type = "int" }
source = { path = "landing/*", format = "ndjson", settle = 0, where = "event_type = 'flow' AND flow.pkts > 1" }
[streams.names]
event_time = { column = "at", unit = "iso" }
levels = ["1d forever"]
columns.name = { path = "dns.name" }
source = { path = "landing/*", format = "ndjson", settle = 0, where = "event_type <> 'flow'" }
"""
EVE = [
    {"at": "2026-02-01T00:00", "event_type": "flow", "flow": {"pkts": 5}},
    {"at": "2026-02-01T00:01", "event_type": "flow", "flow": {"pkts": 1}},
    {"at": "2026-02-01T00:02", "event_type": "dns", "dns": {"name": "a"}},
    {"event_type": "stats", "uptime": 7},
    {"at": "2026-02-01T00:04"},
]


def conditions() -> st.SearchStrategy[str]:
    texts = st.sampled_from(TEXTS).map(lambda text: f"'{text}'")
    # SQLite has no decimals: its doubles are exact for these.
    numbers = st.sampled_from(["0.5", "1", "-2", "1000", "9007199254740992"])
    operator = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
    leaf = st.one_of(
        st.builds(lambda o, v: f"t {o} {v}", operator, texts),
        st.builds(lambda o, v: f"n {o} {v}", operator, numbers),
        st.builds(lambda o, v: f"{v} {o} n", operator, numbers),
        st.builds(lambda a, b: f"t IN ({a}, {b})", texts, texts),
        st.builds(lambda a, b: f"n BETWEEN {a} AND {b}", numbers, numbers),
        st.sampled_from(["t IS NULL", "n IS NOT NULL", "NOT t = 'flow'", "t LIKE 'd%'", "t NOT LIKE 'a_b'"]),
    )
    return st.recursive(
        leaf,
        lambda part: st.builds(lambda a, w, b: f"({a} {w} {b})", part, st.sampled_from(["AND", "OR"]), part),
    )


@given(
    st.lists(st.tuples(st.none() | st.sampled_from(TEXTS), st.none() | st.sampled_from(NUMBERS)), max_size=8),
    conditions(),
)
def test_a_condition_means_what_sql_means(rows: list[tuple[str | None, str | None]], where: str) -> None:
    texts = {WHERE + name: pa.array([row[n] for row in rows], pa.string()) for n, name in enumerate("tn")}
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE r (t TEXT, n NUMERIC)")
    database.executemany("INSERT INTO r VALUES (?, ?)", rows)

    expected = [
        bool(each) for (each,) in database.execute(f"SELECT coalesce({where}, 0) FROM r ORDER BY rowid")
    ]

    assert are_own(texts, where).tolist() == expected


@pytest.mark.parametrize(
    ("where", "own"),
    [
        ("n = 9007199254740993.001", [False, True]),
        ("n > 9007199254740993", [False, True]),
        ("n LIKE '%.001'", [False, True]),
        ("n = '9007199254740993'", [True, False]),
    ],
)
def test_numbers_are_compared_to_the_last_digit(where: str, own: list[bool]) -> None:
    texts = {f"{WHERE}n": pa.array(["9007199254740993", "9007199254740993.001"])}

    assert are_own(texts, where).tolist() == own


def test_what_is_no_number_is_not_compared_with_one() -> None:
    texts = {f"{WHERE}n": pa.array(["1_000", "NaN", "inf", "x", "+1e3", "٣"])}

    assert are_own(texts, "n >= 0 OR n < 0").tolist() == [False, False, False, False, True, False]


def test_paths_lead_as_deep_as_they_are_written() -> None:
    assert fields_of(condition("a.b.c.d.e = 1 AND \"Core Temp\" = '' OR NOT x IS NULL")) == {
        "a.b.c.d.e",
        "Core Temp",
        "x",
    }


@pytest.mark.parametrize(
    "where",
    [
        "",
        "1",
        "a",
        "a = b",
        "count(*) = 1",
        "SELECT 1",
        "a = ",
        "a IN (SELECT 1)",
        "a BETWEEN SYMMETRIC 2 AND 1",
    ],
)
def test_what_is_no_condition_is_refused(lakehouse_of: Make, where: str) -> None:
    with pytest.raises(ConfigError, match=r"streams\.flows\.source\.where"):
        lakehouse_of(CONFIG.replace("event_type = 'flow' AND flow.pkts > 1", where))


def _ledger(settings: Settings, stream: str) -> dict[str, Any]:
    names = ("records", "received", "accepted", "quarantined", "duplicates", "filtered")
    return dict(zip(names, table_rows(settings.layout.ledger(stream), *names)[0], strict=True))


def test_two_streams_share_the_records_of_a_file(lakehouse_of: Make, session: SparkSession) -> None:
    """A record that is none of a stream is not rejected, though it lacks all that the stream reads."""
    settings = lakehouse_of(CONFIG)
    folder = settings.home.parent / "landing"
    folder.mkdir()
    lines = [
        *map(json.dumps, EVE),
        '{"event_type": "flow"',
        '{"event_type": "\\u0066low", "flow": {"pkts": 9}}',
    ]
    (folder / "eve.json").write_text("\n".join(lines))

    for stream in ("flows", "names"):
        ingest.run(settings, session, stream)

    counts = {"records": 3, "received": 3, "accepted": 1, "quarantined": 2, "duplicates": 0, "filtered": 4}
    assert _ledger(settings, "flows") == counts
    assert table_rows(settings.layout.raw("flows"), "pkts") == [(5,)]
    # One is cut off, the other one has no time.
    assert sorted(table_rows(settings.layout.quarantine("flows"), "reason")) == [
        ("malformed",),
        ("no_event_time",),
    ]
    counts = {"records": 3, "received": 3, "accepted": 1, "quarantined": 2, "duplicates": 0, "filtered": 4}
    assert _ledger(settings, "names") == counts
    assert table_rows(settings.layout.raw("names"), "name") == [("a",)]
