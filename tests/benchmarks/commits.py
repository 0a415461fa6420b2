"""Costs of an append to a Delta table: by Spark's own Delta writer, and as Tidemark commits.

    python -m tests.benchmarks.commits [--quick] [--json]

The same rows to two tables in one warm session, in turns; medians. ``one_row``: a row that the driver has.
``rows_1000`` and, in full, ``rows_200000``: rows that Spark computes, of nine columns. ``after_N``: one row, to a
table whose log has N commits (``--quick``: 100; in full 10,000), whatever the history keeps of it.
``encodings``: what files take as Tidemark writes them.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse.engine.parts import commit_entries, sink_of
from lakehouse.settings import Settings
from lakehouse.spark import tables
from lakehouse.spark.session import started_session
from lakehouse.storage.tables import table_commits
from tests.benchmarks.parts import run_parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TURNS, QUICK_TURNS = 15, 1
# The first ones warm up.
WARM_UP, QUICK_WARM_UP = 2, 0
COMMITS, QUICK_COMMITS = 10_000, 100
COLUMNS = [f"id * {n} AS c{n}" for n in range(8)]


def figures(quick: bool) -> dict[str, float]:
    """Return median milliseconds of each append, both ways, and their ratio."""
    turns = QUICK_TURNS if quick else TURNS
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        spark = started_session(Settings(home=Path(folder)))
        found = _one_row(spark, Path(folder) / "one", turns)
        for rows in (1000,) if quick else (1000, 200_000):
            found |= _spark_rows(spark, Path(folder) / str(rows), rows, turns)
        found |= _after(Path(folder) / "long", QUICK_COMMITS if quick else COMMITS, turns)
        spark.stop()
    return found


def _rows(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(rows).selectExpr("id", *COLUMNS)


def _by_parts(rows: DataFrame, table: Path, number: int) -> None:
    commit_entries(table, sink_of(table).write(rows.toArrow()), ("bench", number))


def _by_delta(rows: DataFrame, table: Path, number: int) -> None:
    writer = rows.write.format("delta").mode("append")
    writer.options(txnAppId="bench", txnVersion=str(number)).save(str(table))


def _spark_rows(spark: SparkSession, folder: Path, count: int, turns: int) -> dict[str, float]:
    rows = _rows(spark, count)
    ours, theirs = _created(rows, folder)
    return _compared(
        f"rows_{count}",
        turns,
        lambda number: _by_parts(rows, ours, number),
        lambda number: _by_delta(rows, theirs, number),
    )


def _one_row(spark: SparkSession, folder: Path, turns: int) -> dict[str, float]:
    ours, theirs = _created(_rows(spark, 1), folder)
    row = {"id": 1} | {f"c{n}": n for n in range(8)}
    return _compared(
        "one_row",
        turns,
        lambda number: tables.append_row(row, ours, "bench", number),
        lambda number: _by_delta(spark.createDataFrame(pa.Table.from_pylist([row])), theirs, number),
    )


def _after(table: Path, commits: int, turns: int) -> dict[str, float]:
    field = {"name": "n", "type": "long", "nullable": True, "metadata": {}}
    table_commits.create_table(table, json.dumps({"type": "struct", "fields": [field]}))
    for number in range(commits):
        table_commits.append(table, [{"n": number}], ("bench", number))
    taken = [
        _ms(partial(table_commits.append, table, [{"n": number}], ("bench", number)))
        for number in range(commits, commits + turns)
    ]
    return {f"after_{commits}_ms": round(statistics.median(taken), 1)}


def _created(rows: DataFrame, folder: Path) -> tuple[Path, Path]:
    """Return two empty tables of the columns of some rows."""
    paths = folder / "ours", folder / "theirs"
    for path in paths:
        table_commits.create_table(path, rows.schema.json())
    return paths


def _compared(
    name: str, turns: int, ours: Callable[[int], object], theirs: Callable[[int], object]
) -> dict[str, float]:
    taken: dict[str, list[float]] = {"delta_ms": [], "ms": []}
    warm_up = QUICK_WARM_UP if turns == QUICK_TURNS else WARM_UP
    for number in range(turns + warm_up):
        taken["delta_ms"].append(_ms(partial(theirs, number)))
        taken["ms"].append(_ms(partial(ours, number)))
    median = {key: statistics.median(values[warm_up:]) for key, values in taken.items()}
    return {
        **{f"{name}_{key}": round(value, 1) for key, value in median.items()},
        f"{name}_speedup": round(median["delta_ms"] / median["ms"], 1),
    }


def _ms(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


if __name__ == "__main__":
    run_parts(__doc__, __package__, ("commits", "encodings"))
