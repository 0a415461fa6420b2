"""Rows of three streams through ingest, queries, repairs and rollups, all of it by Spark's tasks.

    python -m tests.cluster.life FOLDER [--kinds pairs,selection] [--rows 80] [--parts 1,0] [--runner spark]

leads it in the configuration of a folder, where ``TIDEMARK_SPARK__MASTER`` says, and prints what came of it as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from jobs import build_rollups, ingest, publish, repair_late, run_queries
from lakehouse.engine import engine_of
from lakehouse.settings import Settings, load_settings
from lakehouse.spark.session import build_session, started_session
from lakehouse.storage.tables.table_log import read_rows
from tests.end_to_end.pipeline import answers, digest
from tests.queries.laws import EXAMPLES, IS_EVEN, asked
from tests.queries.multiway.streams import NAMES, configuration, some_rows
from tests.support.shuffle_metrics import Meter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# In the order in which they land: all of the second is late.
PARTS = (1, 0)


def begin(folder: Path, kinds: Sequence[str]) -> Settings:
    """Write the configuration of a life with a query of each kind; return its settings."""
    for name in ("queries", "predicates"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "predicates" / "is_even.py").write_text(IS_EVEN)
    for kind in kinds:
        (folder / "queries" / f"{kind}.sql").write_text(EXAMPLES[kind].text)
    text = configuration().replace("levels =", 'groupings = [["room"], []]\nlevels =')
    (folder / "tidemark.toml").write_text(text, encoding="utf-8")
    return load_settings(folder / "tidemark.toml")


def streams_of(settings: Settings) -> list[str]:
    """Return the streams that queries read."""
    read = {name for query in settings.registered.values() for name in query.streams}
    return [name for name in NAMES if name in read]


def land(settings: Settings, part: int, rows: int) -> None:
    """Put files of rows into the landing folders, two for each stream, unless they are there."""
    for name, own in some_rows(11, part, rows).items():
        folder = Path(settings.streams[name].source.path).parent
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(2):
            lines = "".join(json.dumps(row) + "\n" for row in own[number::2])
            if not (file := folder / f"{part}-{number}.ndjson").exists():
                file.write_text(lines)


def lead(spark: SparkSession, settings: Settings, rows: int, parts: Sequence[int] = PARTS) -> None:
    """Take rows through everything."""
    for part in parts:
        land(settings, part, rows)
        for name in streams_of(settings):
            ingest.run(settings, spark, name)
        for kind in settings.registered:
            print(f"part {part}: {kind}", flush=True)
            run_queries.run(settings, spark, kind)
    for kind in settings.registered if len(parts) > 1 else ():
        repair_late.run(settings, spark, kind)
    for name in streams_of(settings):
        build_rollups.run(settings, spark, name)
    publish.run(settings, spark, unchecked=True)


def content(settings: Settings) -> dict[str, str]:
    """Return a hash of what each table holds for whoever asks: not batches, not places in files."""
    layout, found = settings.layout, {}
    for name in streams_of(settings):
        raw = read_rows(layout.raw(name))
        columns = ["event_us", *settings.streams[name].all_columns]
        found[f"raw {name}"] = digest([row[column] for column in columns] for row in raw)
        found[f"nodes {name}"] = digest(nodes(settings, name))
        found[f"answers {name}"] = answers(settings, name, "value")
    for kind in settings.registered:
        rows_of = pa.Table.from_pylist(read_rows(getattr(layout, EXAMPLES[kind].table)(kind)))
        found[kind] = digest(sorted(asked(EXAMPLES[kind].found, found=rows_of).elements(), key=repr))
    return found


def nodes(settings: Settings, name: str) -> list[tuple[Any, ...]]:
    """Return the nodes of a stream's rollup, with those combined that stand for one."""
    partial = pa.Table.from_pylist(read_rows(settings.layout.rollup(name)))
    statement = """
        SELECT level, grouping, start_us, room, sum(rows), sum(value__n), sum(value__sum), min(value__min),
            max(value__max)
        FROM partial WHERE level > 0 GROUP BY ALL
    """
    return list(asked(statement, partial=partial).elements())


def main(argv: Sequence[str] | None = None) -> None:
    """Lead a life and print what came of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kinds", default=",".join(EXAMPLES))
    parser.add_argument("--rows", type=int, default=80)
    parser.add_argument("--parts", default=",".join(map(str, PARTS)))
    # Whatever runner tests have by default.
    parser.add_argument("--runner", default="spark")
    asked_for = parser.parse_args(argv)
    os.environ["TIDEMARK_ENGINE__RUNNER"] = asked_for.runner
    settings = begin(asked_for.folder, asked_for.kinds.split(","))
    started, is_spark = time.monotonic(), asked_for.runner == "spark"
    spark = started_session(settings) if is_spark else build_session(settings)
    joined, meter = time.monotonic(), Meter(spark) if is_spark and not settings.spark.is_connect else None
    lead(spark, settings, asked_for.rows, [int(part) for part in asked_for.parts.split(",")])
    told = {
        "content": content(settings),
        "cores": engine_of(spark).cores,
        "start_s": joined - started,
        "seconds": time.monotonic() - joined,
    }
    if meter:
        moved = meter.read()
        told |= {"collected": moved.collected, "shuffled": moved.shuffled}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
