"""Rounds that go on after tables that cannot be read, streams with nothing new, and streams that never came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from jobs import ingest, repair_late, run_queries
from lakehouse.queries.runtime.batch_manifest import finished, last_planned
from lakehouse.queries.runtime.failure import QueryFailed, read_failure
from lakehouse.settings import Settings
from lakehouse.storage.control.lease import LeaseHeld, lease
from lakehouse.storage.layout import Part
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import read_rows
from tests.queries.runtime.scan.test_rounds import FITS, QUERIES, answered, content, expected, land
from tests.storage.control.damaging import flip
from tests.support.readings import declared, write
from tests.support.taking_in import take_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]
# A second stream, like the first.
VISITS = declared().replace('home = "var"\n', "").replace("readings", "visits").replace("landing/", "visits/")
BOTH = {
    "chosen": QUERIES["chosen"],
    "both": """
        SELECT a.temp AS one, b.temp AS other FROM readings [RANGE 5 SECONDS] a JOIN visits b
        ON a.device = b.device WHERE fits(a.count) AND fits(b.count) RECALL 0.9 OVER 1 MINUTE SPARE 0 ROWS
    """,
    "sums": """
        SELECT a.device, COUNT(*) AS n FROM readings [8 SECONDS] a JOIN visits [5 SECONDS] b
        ON a.device = b.device WHERE fits(b.count) GROUP BY a.device EVERY 2 SECONDS SLACK 30 SECONDS
    """,
    "three": """
        SELECT a.temp AS one, c.temp AS other FROM readings [2 SECONDS] a JOIN readings [2 SECONDS] b
        ON a.device = b.device JOIN visits [2 SECONDS] c ON b.device = c.device
        WHERE fits(c.count) SLACK 30 SECONDS
    """,
}
BOTH_YARDSTICK = """
SELECT a.us, b.us, a.temp, b.temp FROM kept a, visits b WHERE a.device = b.device
AND a.count % 3 > 0 AND b.count % 3 > 0 AND abs(a.us - b.us) <= 5000000
"""
SUMS_YARDSTICK = """
SELECT tick, a.device, count(*) FROM kept a, visits b,
    (SELECT unnest(generate_series(min(us) // 2000000 * 2000000, (
        SELECT least((SELECT max(us) FROM kept), (SELECT max(us) FROM visits))), 2000000)) AS tick FROM kept)
WHERE a.device = b.device AND tick - a.us BETWEEN 0 AND 8000000 AND tick - b.us BETWEEN 0 AND 5000000
AND b.count % 3 > 0 GROUP BY ALL
"""
SUMS = """
SELECT tick_us, device, n FROM (FROM found
QUALIFY row_number() OVER (PARTITION BY tick_us, device ORDER BY revision DESC) = 1) WHERE holds
"""


@contextmanager
def without_files(*folders: Location) -> Iterator[None]:
    """Have tables whose data files are gone."""
    files = [path for folder in folders for path in Path(folder).rglob("*.parquet")]
    assert files
    for path in files:
        path.rename(path.with_suffix(".away"))
    yield
    for path in files:
        path.with_suffix(".away").rename(path)


@contextmanager
def garbled(part: Part) -> Iterator[None]:
    """Have a manifest of a first batch that a disk has changed."""
    flip(part, 1, "batch")
    yield
    flip(part, 1, "batch")


def test_a_query_whose_tables_or_plans_cannot_be_read_stands_still_and_the_others_go_on(
    tmp_path: Path, spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    queries = QUERIES | {"counted": "SELECT temp FROM readings WHERE fits(count)"}
    write(tmp_path, queries, fits=FITS.format(path=str(tmp_path / "calls")))
    settings, layout = (found := lakehouse_of(declared())), found.layout
    rows = land(settings, 0)
    take_in(settings, spark, "readings")
    run_queries.run(settings, spark, "chosen")
    rows += land(settings, 1)
    take_in(settings, spark, "readings")
    broken = (layout.states("pairs"), layout.states("totals"), layout.operators("threes"))
    with without_files(*broken), garbled(layout.batch_manifests("counted")):
        went_on = run_queries.run(settings, spark, "chosen")
        stopped = {name: read_failure(layout, name) for name in queries}
        with pytest.raises(QueryFailed, match=r"query totals is stopped: batch 2, at its aggregates: ."):
            run_queries.run(settings, spark, "totals")
    caught_up = {name: run_queries.run(settings, spark, name)["batches"] for name in queries}
    for name in QUERIES:
        repair_late.run(settings, spark, name)

    assert went_on["batches"] == 1
    assert {name: (why.batch, why.operator) for name, why in stopped.items() if why} == {
        "pairs": (2, "its join"),
        "totals": (2, "its aggregates"),
        "threes": (2, "its task"),
        "counted": (1, "its plans"),
    }
    assert caught_up == {name: int(name != "chosen") for name in queries}
    assert not any(read_failure(layout, name) for name in queries)
    for name in QUERIES:
        assert content(settings, name) == expected(rows, name), name


def test_a_side_with_nothing_new_and_a_stream_that_never_came_hold_up_nobody(
    tmp_path: Path, spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    write(tmp_path, BOTH, fits=FITS.format(path=str(tmp_path / "calls")))
    settings = lakehouse_of(declared() + VISITS)
    landed: dict[str, list[dict[str, Any]]] = {"readings": [], "visits": []}

    def run_part(part: int, *streams: str) -> list[int]:
        for stream in streams:
            landed[stream] += land(settings, part, stream)
            take_in(settings, spark, stream)
        # Whoever is asked takes the others along.
        run_queries.run(settings, spark, "chosen")
        return [finished(settings.layout, name) for name in BOTH]

    assert run_part(0, "readings") == [1, 0, 0, 0]
    alone = [run_queries.run(settings, spark, name)["batches"] for name in ("both", "sums", "three")]
    assert alone == [0, 0, 0]
    assert not any(last_planned(settings.layout.batch_manifests(name)) for name in ("both", "sums", "three"))
    assert run_part(0, "visits") == [1, 1, 1, 1]
    assert run_part(1, "readings") == [2, 2, 2, 2]
    assert run_part(1, "visits") == [2, 3, 3, 3]
    assert run_part(2, "readings", "visits") == [3, 4, 4, 4]
    for name in BOTH:
        repair_late.run(settings, spark, name)
        assert read_failure(settings.layout, name) is None

    assert found_of(settings, "both") == yardstick(landed, BOTH_YARDSTICK)
    assert found_of(settings, "sums") == yardstick(landed, SUMS_YARDSTICK)
    whole = [row for row in read_rows(settings.layout.operators("both")) if row["operator"] < 0]
    assert sorted((row["batch"], row["side"], row["rows"]) for row in whole) == [
        *((1, 0, 60), (1, 1, 60), (2, 0, 60), (2, 1, 0), (3, 0, 0), (3, 1, 60), (4, 0, 60), (4, 1, 60))
    ]


def test_a_new_query_of_a_column_that_raw_lacks_yet_waits_alone(
    tmp_path: Path, spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    write(tmp_path, {"chosen": QUERIES["chosen"]}, fits=FITS.format(path=str(tmp_path / "calls")))
    settings = lakehouse_of(declared())
    rows = land(settings, 0)
    ingest.run(settings, spark, "readings")
    write(tmp_path, {"humid": "SELECT hum FROM readings WHERE fits(count) AND temp > 20"})
    settings = lakehouse_of(declared() + 'hum = "double"\n')
    run_queries.run(settings, spark, "chosen")
    stopped = read_failure(settings.layout, "humid")
    rows += land(settings, 1)
    # A real ingest adds the column to the table.
    ingest.run(settings, spark, "readings")
    caught_up = run_queries.run(settings, spark, "humid")

    assert stopped is not None
    assert stopped.error == "raw of readings has no hum yet: it comes with the next ingest batch"
    assert content(settings, "chosen") == expected(rows, "chosen")
    assert (caught_up["batches"], caught_up["selected"]) == (2, sum(expected(rows, "chosen").values()))


def test_a_query_that_is_held_for_long_is_left_to_its_own_job(
    tmp_path: Path,
    spark: SparkSession,
    lakehouse_of: Callable[[str], Settings],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_queries, "TIMEOUT_S", 1)
    chosen = QUERIES["chosen"]
    write(tmp_path, {"chosen": chosen, "held": chosen}, fits=FITS.format(path=str(tmp_path / "calls")))
    settings = lakehouse_of(declared())
    rows = land(settings, 0)
    take_in(settings, spark, "readings")
    with lease(settings.layout, settings.layout.queries("held")):
        done = run_queries.run(settings, spark, "chosen")
        with pytest.raises(LeaseHeld, match="another process"):
            run_queries.run(settings, spark, "held")
    later = run_queries.run(settings, spark, "held")

    assert (done["batches"], done["selected"]) == (later["batches"], later["selected"])
    assert content(settings, "chosen") == expected(rows, "chosen")


def found_of(settings: Settings, name: str) -> Counter[tuple[Any, ...]]:
    """Return what a query of both streams has come to."""
    table, statement = {
        "both": (settings.layout.pairs, "SELECT left_us, right_us, one, other FROM found"),
        "sums": (settings.layout.answers, SUMS),
    }[name]
    return answered(statement, found=pa.Table.from_pylist(read_rows(table(name))))


def yardstick(landed: Mapping[str, list[dict[str, Any]]], statement: str) -> Counter[tuple[Any, ...]]:
    """Return what DuckDB finds in all rows of both streams."""
    kept, visits = (
        pa.Table.from_pylist([row | {"us": round(row["ts"] * 10**6)} for row in landed[stream]])
        for stream in ("readings", "visits")
    )
    return answered(statement, kept=kept, visits=visits)
