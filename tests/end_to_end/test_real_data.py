"""Five real sets through every job, then many random ranges of each, held against DuckDB over the raw files."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pytest

from jobs import build_rollups, check_quality, ingest, maintain, publish, repair_late, run_queries
from lakehouse.engine import engine_of
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.multiway.run import MultiwayRun
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.serving.sandbox.locked import connect_locked
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.serving.versions.versions import hold_current
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.tables.table_log import read_log
from tests.conftest import compile_plans
from tests.end_to_end.truth import rows_of, truths
from tests.support.documented import about, deviations
from tests.support.table_rows import named_rows, table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]
KEYS = {"telemetry": "device", "rooms": "node", "conn": "proto", "lora": "gateway", "flows": "proto"}
STREAMS = sorted(KEYS)
# Each query's condition over two rows of raw, a and b, as DuckDB says it.
QUERIES = {
    "growing_connections": "a.src = b.src AND a.dest = b.dest AND a.event_us < b.event_us "
    "AND a.resp_bytes < b.resp_bytes AND a.proto = 'tcp' AND b.proto = 'tcp' AND b.event_us - a.event_us <= 60000000",
    "repeated_frames": "a.device = b.device AND a.frame = b.frame AND a.rssi > b.rssi "
    "AND abs(a.event_us - b.event_us) <= 2000000",
}
PROBES = (
    "src LIKE '192.168.%' AND proto = 'tcp' AND state IN ('S0', 'REJ', 'RSTOS0', 'RSTRH', 'SH', 'SHR') "
    "AND regexp_full_match(history, 'S?(h[rR]?|r|R|F)?')"
)
# Calls a predicate on one side, so it is run with the selections of the stream.
PROBED_THEN_USED = (
    "a.state IN ('S0', 'REJ', 'RSTOS0', 'RSTRH', 'SH', 'SHR') AND regexp_full_match(a.history, 'S?(h[rR]?|r|R|F)?') "
    "AND b.state = 'SF' AND a.src = b.src AND a.dest = b.dest AND a.event_us < b.event_us "
    "AND b.event_us - a.event_us <= 600000000"
)
# The same of three rows.
PROBED = (
    "a.proto = 'tcp' AND b.proto = 'udp' AND c.proto = 'icmp' AND a.src = b.src AND b.src = c.src "
    "AND a.dest = b.dest AND b.dest = c.dest "
    "AND greatest(a.event_us, b.event_us, c.event_us) - least(a.event_us, b.event_us, c.event_us) <= 600000000"
)
SELECTED = {
    "probes": PROBES,
    "uploads": "src LIKE '192.168.%' AND dest NOT LIKE '192.168.%' AND proto = 'tcp' AND orig_bytes > resp_bytes",
}
ASKED_ALONE = 9  # every ninth range is asked by itself too
Range = tuple[int, int, int, str | None]


@pytest.fixture(scope="module")
def settings(
    data: Path, rooms: Path, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Settings:
    """All five sets ingested, rolled up, checked, published and maintained."""
    folder = tmp_path_factory.mktemp("real")
    text = (Path(__file__).parent / "real.toml").read_text(encoding="utf-8")
    text = text.replace("{data}", str(data)).replace("{rooms}", str(rooms))
    text = text.replace("{fires}", str(folder)).replace(
        "{queries}", str(Path(__file__).parents[2] / "sql" / "queries")
    )
    (folder / "tidemark.toml").write_text(text, encoding="utf-8")
    found = load_settings(folder / "tidemark.toml")
    compile_plans(spark, True)
    for stream in STREAMS:
        ingest.run(found, spark, stream)
        build_rollups.run(found, spark, stream)
        check_quality.run(found, spark, stream)
    for query in (*QUERIES, "probed_hosts"):
        run_queries.run(found, spark, query)
        repair_late.run(found, spark, query)
    # The other selection of the stream, and the join that calls a predicate, are taken along.
    run_queries.run(found, spark, "probes")
    repair_late.run(found, spark, "probed_then_used")
    publish.run(found, spark)
    maintain.run(found, spark, "conn")
    compile_plans(spark, False)
    return found


@pytest.fixture(scope="module")
def raw(data: Path, rooms: Path) -> duckdb.DuckDBPyConnection:
    """The rows of every set as DuckDB itself reads them."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for stream, query in rows_of(data, rooms).items():
        connection.execute(f"CREATE TABLE {stream} AS {query}")
    return connection


def ledger(settings: Settings, stream: str) -> dict[str, Any]:
    (row,) = named_rows(settings.layout.ledger(stream))
    return row


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        ("telemetry", {"received": 25135, "accepted": 25135, "late": 0, "duplicates": 0}),
        ("rooms", {"received": 273145, "accepted": 273145, "files": 60, "duplicates": 0}),
        ("conn", {"received": 8462, "accepted": 8462, "late": 3574}),
        (
            "flows",
            {
                "received": 12142,
                "accepted": 11927,
                "duplicates": 215,
                "late": 3471,
                "max_lateness_us": 59 * 10**6,
            },
        ),
        ("lora", {"records": 14204, "received": 93435 + 436}),
    ],
)
def test_ledger_tells_what_the_set_is_known_to_hold(
    settings: Settings, stream: str, expected: dict[str, int]
) -> None:
    found = ledger(settings, stream)
    assert {name: found[name] for name in expected} == expected
    assert found["received"] == found["accepted"] + found["quarantined"] + found["duplicates"]


def test_straggler_of_eighteen_hours_is_in_the_ledger_and_in_the_rollups(settings: Settings) -> None:
    assert ledger(settings, "conn")["max_lateness_us"] // 10**6 == 64430


def test_gateways_with_wrong_clocks_are_in_quarantine(settings: Settings) -> None:
    reasons = ledger(settings, "lora")["reasons"]
    assert set(reasons) == {"clock", "no_event_time", "no_items"}
    assert reasons["clock"] >= 804 and reasons["no_items"] == 436


def test_raw_rows_are_those_that_duckdb_reads(settings: Settings, raw: duckdb.DuckDBPyConnection) -> None:
    asked = ("count(*)", "min(event_us)", "max(event_us)", "sum(event_us)")
    for stream in STREAMS:
        expected = raw.execute(f"SELECT {', '.join(asked)} FROM {stream}").fetchall()
        assert table_rows(settings.layout.raw(stream), *asked) == expected


def random_ranges(raw: duckdb.DuckDBPyConnection, stream: str, count: int, seed: int) -> list[Range]:
    """Ranges of all lengths, some on node edges, some outside, half of them for one key."""
    random = np.random.default_rng(seed)
    low, high = raw.execute(f"SELECT min(event_us), max(event_us) FROM {stream}").fetchone() or (0, 0)
    keys = [row[0] for row in raw.execute(f"SELECT DISTINCT key FROM {stream} ORDER BY key").fetchall()]
    span = high - low
    result = []
    for number in range(count):
        start = low + int(random.uniform(-0.05, 1.0) * span)
        end = start + max(1, int(span * 10 ** random.uniform(-6, 0.1)))
        width = int(random.choice([1, 10**6, 60 * 10**6, 3600 * 10**6]))
        start, end = start - start % width, max(end - end % width, start - start % width + width)
        result.append((number, start, end, str(random.choice(keys)) if number % 4 < 2 else None))
    return result


def text_of(stream: str, key: str | None) -> str:
    """The keys of one range as SQL."""
    return "MAP {}::MAP(VARCHAR, VARCHAR)" if key is None else f"MAP {{'{KEYS[stream]}': '{key}'}}"


def answered(settings: Settings, stream: str, measure: str, ranges: list[Range]) -> dict[int, list[Any]]:
    """Every aggregate of every range through the published macros, all ranges joined to them in one statement.

    DuckDB plans a question in tens of milliseconds and answers it in one: asked one by one, a thousand take minutes.
    """
    rows = ", ".join(
        f"({number}, {start}, {end}, {text_of(stream, key)})" for number, start, end, key in ranges
    )
    found: dict[int, list[Any]] = {}
    with open_published(settings.layout) as published:
        published.connection.execute(f"""SELECT asked.number, aggregate, value, low, high, exact
            FROM (VALUES {rows}) AS asked(number, a_us, b_us, keys), LATERAL (
                FROM range_aggregate('{stream}', '{measure}', make_timestamp(CAST(a_us AS BIGINT)),
                    make_timestamp(CAST(b_us AS BIGINT)), keys := asked.keys))""")
        for number, *answer in published.connection.fetchall():
            found.setdefault(number, []).append(answer)
    return found


def answered_one_by_one(
    settings: Settings, stream: str, measure: str, ranges: list[Range]
) -> dict[int, list[Any]]:
    """The same, each range in a statement of its own, as people ask."""
    with open_published(settings.layout) as published:
        return {
            number: published.connection.execute(f"""SELECT aggregate, value, low, high, exact
                FROM range_aggregate('{stream}', '{measure}', make_timestamp({start}), make_timestamp({end}),
                    keys := {text_of(stream, key)})""").fetchall()
            for number, start, end, key in ranges
        }


def exactness(rows: list[Any]) -> dict[str, bool]:
    return {row[0]: row[4] for row in rows}


def wrong(
    found: tuple[Any, ...],
    count: int,
    total: float,
    mean: float | None,
    least: float | None,
    most: float | None,
) -> str | None:
    """What is wrong with one answer, None for nothing."""
    aggregate, value, low, high, exact = found
    truth = {"sum": total, "count": count, "avg": mean, "min": least, "max": most}[aggregate]
    if truth is None:
        return None if value is None or not exact else f"{aggregate}: {value} over no rows"
    if aggregate == "avg" and low is not None and high is not None:
        # A quotient is rounded once more than the sum it is made of.
        low, high = math.nextafter(low, -math.inf), math.nextafter(high, math.inf)
    if (low is not None and low > truth) or (high is not None and high < truth):
        return f"{aggregate}: {truth} is not in [{low}, {high}]"
    if exact and not math.isclose(value, truth, rel_tol=1e-9, abs_tol=1e-9):
        return f"{aggregate}: {value} is called exact, the truth is {truth}"
    return None


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.long)])
@pytest.mark.parametrize("stream", STREAMS)
def test_the_interval_of_every_range_holds_the_truth(
    settings: Settings, raw: duckdb.DuckDBPyConnection, stream: str, count: int
) -> None:
    for number, measure in enumerate(settings.streams[stream].measures):
        ranges = random_ranges(raw, stream, count, seed=number)
        ranges = ranges[number :: len(settings.streams[stream].measures)]
        raw.execute("CREATE OR REPLACE TABLE asked (id BIGINT, a_us BIGINT, b_us BIGINT, key VARCHAR)")
        raw.executemany("INSERT INTO asked VALUES (?, ?, ?, ?)", ranges)
        expected = truths(raw, stream, measure)
        found = answered(settings, stream, measure, ranges)
        alone = answered_one_by_one(settings, stream, measure, ranges[::ASKED_ALONE])
        problems = [
            (n, told)
            for answers in (found, alone)
            for n, rows in answers.items()
            for row in rows
            if (told := wrong(row, *expected[n]))
        ]
        exact = sum(row[4] for rows in found.values() for row in rows)
        assert (len(found), problems) == (len(ranges), [])
        assert all(len(rows) == 5 for rows in (*found.values(), *alone.values())) and exact > 0
        assert {n: exactness(rows) for n, rows in alone.items()} == {n: exactness(found[n]) for n in alone}


@pytest.mark.parametrize("query", QUERIES)
def test_pairs_found_online_and_by_repair_are_all_pairs_of_the_real_rows(
    settings: Settings, query: str
) -> None:
    joined, layout = settings.of_kind(PairsQuery)[query], settings.layout
    found = table_rows(layout.pairs(query), "left_us", "right_us", "left_row", "right_row", "found")
    expected = true_pairs(settings, query, QUERIES[query])

    assert len(expected) > 1000
    assert Counter((left, right) for left, right, *_ in found) == Counter(expected)
    assert len({(left, right) for _, _, left, right, _ in found}) == len(found)
    online = sum(row[4] == "online" for row in found)
    assert online >= joined.recall * len(found)


def true_pairs(settings: Settings, query: str, condition: str) -> list[tuple[int, int]]:
    """Return the times of all pairs of raw rows of which a condition holds."""
    log = read_log(settings.layout.raw(settings.of_kind(PairsQuery)[query].sides[0].stream))
    assert log is not None
    files = [str(path) for path in log.files]
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE raw AS FROM read_parquet($files)", {"files": files})
        asked = f"SELECT a.event_us, b.event_us FROM raw a JOIN raw b ON {condition}"
        return connection.execute(asked).fetchall()


def test_pairs_whose_one_side_a_predicate_chooses_are_all_of_the_real_rows(settings: Settings) -> None:
    pairs = table_rows(settings.layout.pairs("probed_then_used"), "left_us", "right_us")
    operators = named_rows(settings.layout.operators("probed_then_used"))

    expected = true_pairs(settings, "probed_then_used", PROBED_THEN_USED)
    assert len(expected) == 14
    assert Counter(pairs) == Counter(expected)
    # Two selections and this one side share the scan.
    assert {row["together"] for row in operators if row["operator"] < 0} == {3}


def test_results_of_three_are_all_that_there_are_and_hardly_a_row_leaves_its_window_where_keys_are_counted(
    settings: Settings, spark: SparkSession
) -> None:
    layout = settings.layout
    again = replace(settings.of_kind(MultiwayQuery)["probed_hosts"], name="counted_hosts")
    MultiwayRun(engine_of(spark), layout, again, settings.streams, joins="pruned").drain()
    counted = named_rows(layout.multiway("counted_hosts"))
    rows = named_rows(layout.multiway("probed_hosts"))
    log = read_log(layout.raw("conn"))
    assert log is not None
    files = [str(path) for path in log.files]
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE raw AS FROM read_parquet($files)", {"files": files})
        expected = connection.execute(
            f"SELECT a.event_us, b.event_us, c.event_us FROM raw a, raw b, raw c WHERE {PROBED}"
        ).fetchall()
    moves = [row for row in named_rows(layout.queries("counted_hosts")) if row["side"] >= 0]

    assert len(expected) == 122
    for found in (rows, counted):
        assert Counter(tuple(row["times_us"]) for row in found) == Counter(expected)
        assert len({tuple(row["row_ids"]) for row in found}) == len(found)
    assert sum(row["moved"][0] for row in moves) < 0.01 * sum(row["rows"] for row in moves)


@pytest.mark.parametrize("query", SELECTED)
def test_a_selection_publishes_the_real_rows_of_which_its_conditions_hold(
    settings: Settings, query: str
) -> None:
    log = read_log(settings.layout.raw("conn"))
    assert log is not None
    files = [str(path) for path in log.files]
    with duckdb.connect() as connection:
        asked = f"SELECT uid FROM read_parquet($files) WHERE {SELECTED[query]} ORDER BY uid"
        expected = [uid for (uid,) in connection.execute(asked, {"files": files}).fetchall()]
    with hold_current(settings.layout.serving) as held, connect_locked(held.path) as connection:
        found = [
            uid for (uid,) in connection.execute(f"SELECT uid FROM selection_{query} ORDER BY uid").fetchall()
        ]

    assert len(expected) > 200
    assert found == expected


def test_documented_command_lines_about_real_sets_do_what_is_shown(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert deviations(about("real"), settings.layout.root.parent, monkeypatch, capfd) == ""
