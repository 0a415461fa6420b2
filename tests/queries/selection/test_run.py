from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pytest

from jobs import maintain_queries, run_queries
from jobs.publishing.snapshots import queries_to_publish
from lakehouse.engine import engine_of
from lakehouse.engine.local import LocalEngine
from lakehouse.queries.runtime.checks import frames_of, rows_to_take
from lakehouse.queries.runtime.failure import QueryFailed, read_failure
from lakehouse.queries.runtime.recall.tables import open_tables
from lakehouse.queries.runtime.scan.measurements import read_before
from lakehouse.queries.runtime.scan.readers import readers_of
from lakehouse.queries.runtime.scan.rounds import Rounds
from lakehouse.queries.runtime.state import state_of
from lakehouse.queries.selection.query import SelectionQuery
from lakehouse.queries.selection.run import SelectionRun
from lakehouse.serving.publish.build import write_tables
from lakehouse.settings import Settings
from lakehouse.spark.noted_rows import PLACE
from lakehouse.storage.tables.table_log import read_rows
from tests.engine.jobs import jobs_of
from tests.support.readings import declared, write
from tests.support.taking_in import take_in

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
    "even": "SELECT device, temp AS t, event_us AS read_us FROM readings WHERE NOT count % 2 = 1 AND temp > 20",
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


def selected(settings: Settings, name: str) -> list[dict[str, Any]]:
    return sorted(read_rows(settings.layout.selection(name)), key=lambda row: row["event_us"])


def times(rows: Sequence[dict[str, Any]], name: str) -> list[int]:
    return [row["ts"] * 10**6 for row in rows if TRUTH[name](row)]


def test_selections_of_a_stream_run_in_one_pass_and_select_what_their_conditions_say(
    tmp_path: Path, spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    write(tmp_path, QUERIES, odd=ODD, short=SHORT)
    settings = lakehouse_of(declared())
    rows = land(settings, 0)
    take_in(settings, spark, "readings")
    first = run_queries.run(settings, spark, "warm")
    rows += land(settings, 1)
    take_in(settings, spark, "readings")
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
    assert set(selected(settings, "brief")[0]) == {"event_us", "row_id", *PLACE, "batch", "count"}


def test_ten_queries_over_one_stream_are_one_job_of_spark(
    tmp_path: Path,
    spark: SparkSession,
    on_spark: SparkSession,
    lakehouse_of: Callable[[str], Settings],
) -> None:
    texts = {f"above_{n}": f"SELECT device, temp FROM readings WHERE temp > {10 * n}" for n in range(10)}
    write(tmp_path, texts)
    settings = lakehouse_of(declared())
    rows = land(settings, 0)
    take_in(settings, spark, "readings")

    assert jobs_of(on_spark, lambda: run_queries.run(settings, on_spark, "above_0")) == 1

    for number, name in enumerate(texts):
        warm = [row for row in rows if row["temp"] is not None and row["temp"] > 10 * number]
        assert len(selected(settings, name)) == len(warm) > 0


def content(settings: Settings, name: str) -> list[tuple[Any, ...]]:
    """Return what a query has selected, whichever batch did; sorted."""
    return sorted(
        tuple(row[key] for key in sorted(row) if key != "batch") for row in selected(settings, name)
    )


def test_any_split_into_batches_selects_the_same_and_the_history_of_statistics_stays(
    tmp_path: Path, spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    write(tmp_path, QUERIES, odd=ODD, short=SHORT)
    settings = lakehouse_of(declared())
    for part in range(3):
        land(settings, part)
        take_in(settings, spark, "readings")
    engine = engine_of(spark)
    runs = {
        name: SelectionRun(engine, settings.layout, settings.of_kind(SelectionQuery)[name], settings.streams)
        for name in QUERIES
    }

    both = Rounds(engine, settings.layout, (runs["warm"], runs["even"]), limit_bytes=1)
    one_each = both.drain(most_rows=1)
    alone = Rounds(engine, settings.layout, (runs["brief"],)).drain()
    land(settings, 3)
    take_in(settings, spark, "readings")
    together = run_queries.run(settings, spark, "brief")

    assert [one_each[name]["batches"] for name in ("warm", "even")] == [3, 3]
    assert alone["brief"]["batches"] == 1
    assert (together["batches"], together["rows"]) == (1, 200)
    whole = {
        name: [row for row in read_rows(settings.layout.queries(name)) if row["operator"] < 0]
        for name in QUERIES
    }
    passes = {
        name: [row["together"] for row in sorted(rows, key=lambda row: row["batch"])]
        for name, rows in whole.items()
    }
    assert passes == {"warm": [2, 2, 2, 3], "even": [2, 2, 2, 3], "brief": [1, 3]}
    rows = [row for part in range(4) for row in land(settings, part)]
    for name in QUERIES:
        assert [row["event_us"] for row in selected(settings, name)] == times(rows, name)
        told = read_rows(settings.layout.queries(name))
        assert len(told) == len(whole[name]) * (1 + len(settings.of_kind(SelectionQuery)[name].conjuncts))
        assert all(
            row["handled_per_s"] > 0 and 0 <= row["selectivity"] <= 1 for row in told if row["operator"] >= 0
        )
    # Each batch begins with what the one before has shown.
    [reader] = readers_of(settings.query("warm")).values()
    before = read_before(settings.layout, reader, 4)
    third = [row for row in read_rows(settings.layout.queries("warm")) if row["batch"] == 3]
    assert before.operators == {
        row["name"]: (row["handled_per_s"], row["selectivity"]) for row in third if row["operator"] >= 0
    }
    assert before.whole["tau_us"] == third[[row["operator"] for row in third].index(-1)]["tau_us"]


def test_a_query_that_raises_stands_still_with_its_error_and_catches_up_once_it_is_mended(
    tmp_path: Path, spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    write(tmp_path, QUERIES, odd=ODD, short=SHORT)
    settings = lakehouse_of(declared())
    rows = land(settings, 0)
    take_in(settings, spark, "readings")
    run_queries.run(settings, spark, "warm")
    # On the first batch it raised nothing.
    write(tmp_path, {}, short=SHORT.replace("return", "assert count_of(device)\n    return"))
    for part in (1, 2):
        rows += land(settings, part)
        take_in(settings, spark, "readings")
        assert run_queries.run(settings, spark, "even")["selected"] == len(times(rows[-200:], "even"))
    with pytest.raises(
        QueryFailed, match=r"query brief is stopped: batch 2, at short.device, temp. .short.py:3."
    ):
        run_queries.run(settings, spark, "brief")
    found = state_of(settings.layout, settings.query("brief")).summary()
    others = [state_of(settings.layout, settings.query(name)).summary()["state"] for name in ("warm", "even")]
    write(tmp_path, {}, short=SHORT)
    caught_up = run_queries.run(settings, spark, "brief")

    assert (found["state"], found["stopped"]["batch"]) == ("stopped", 2)
    assert found["stopped"]["error"] == "NameError: name 'count_of' is not defined"
    assert others == ["current", "current"]
    assert (caught_up["batches"], caught_up["rows"]) == (2, 400)
    assert read_failure(settings.layout, "brief") is None
    for name in QUERIES:
        assert [row["event_us"] for row in selected(settings, name)] == times(rows, name)
    chosen = open_tables(LocalEngine(), settings.layout, settings.of_kind(SelectionQuery)["brief"], -1, None)
    assert chosen is not None
    frames = frames_of(chosen, rows_to_take(chosen, 0))
    assert [
        [value for key, value in row.items() if key != "batch"] for frame in frames for row in frame.rows
    ] == [[0, 0, 0, 0, 0]] * 3
    maintain_queries.run(settings, spark, "brief")
    assert [row["event_us"] for row in selected(settings, "brief")] == times(rows, "brief")


def test_a_predicate_that_ends_its_process_stops_its_query_and_no_other(
    tmp_path: Path,
    spark: SparkSession,
    on_spark: SparkSession,
    lakehouse_of: Callable[[str], Settings],
) -> None:
    write(
        tmp_path, QUERIES, odd=ODD, short="import os\n\n\ndef short(device, temp) -> bool:\n    os._exit(3)\n"
    )
    settings = lakehouse_of(declared())
    rows = land(settings, 0)
    take_in(settings, spark, "readings")

    done = run_queries.run(settings, on_spark, "warm")

    assert done["selected"] == len(times(rows, "warm"))
    assert [row["event_us"] for row in selected(settings, "even")] == times(rows, "even")
    stopped = read_failure(settings.layout, "brief")
    assert stopped is not None and stopped.operator == "its task"


def test_a_published_version_has_what_is_selected(
    tmp_path: Path, spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    write(tmp_path, {"even": QUERIES["even"]})
    settings = lakehouse_of(declared())
    rows = land(settings, 0)
    take_in(settings, spark, "readings")
    run_queries.run(settings, spark, "even")

    told, changed = queries_to_publish(settings.layout, settings.registered, settings.streams, None)
    with duckdb.connect() as connection:
        write_tables(connection, 1, [], told)
        found = connection.execute(
            "SELECT read_us, t, event_us, batch FROM selection_even ORDER BY event_us"
        ).fetchall()
        query = connection.execute("SELECT kind, rows, rows_found, published FROM queries").fetchone()

    assert changed == []
    wanted = [(row["ts"] * 10**6, row["temp"]) for row in rows if TRUTH["even"](row)]
    assert found == [(us, temp, us, 1) for us, temp in wanted]
    assert query == ("selection", 200, len(wanted), len(wanted))
