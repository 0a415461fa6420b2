"""Cost of a publish behind many batches of a stream and of a query: the job itself, in a process without Spark.

Two streams and a join of pairs with eight buckets. Their history is written straight to the tables as maintenance
leaves them: one file each, behind a log with commits of up to 10,000 batches, whose files were merged, and a
checkpoint. There are a pair, and a row of metrics per bucket, for each batch, and a repair for every hundredth. It is
published once; then one batch of each comes at a time and ``jobs.publish`` is timed: medians, in seconds of the clock
and of processors. ``metrics_all``: only to read what all metrics of the query come to, as a first publish does.
``macros``: an empty version whose process binds its macros, and one that copies what was bound.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jobs import publish
from jobs.publishing.snapshots import queries_to_publish, snapshot_of
from lakehouse.queries.kind import definition_of, written_as
from lakehouse.queries.runtime.tables import create_tables
from lakehouse.serving.publish import macros
from lakehouse.serving.publish import publish as published_file
from lakehouse.settings import Settings, load_settings
from lakehouse.spark import tables
from lakehouse.spark.session import build_session
from lakehouse.storage.layout import Home
from lakehouse.storage.query_meaning import require_same
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_commits import append_arrow, arrow_schema, fitted, open_table, write_arrow
from lakehouse.storage.tables.table_reads import read_between
from tests.benchmarks.parts import cpu_s

HISTORIES, QUICK_HISTORIES = (1_000, 10_000, 100_000), (10, 100)
# The first of them warms up.
BATCHES, QUICK_BATCHES = 16, 2
MOST_COMMITS = 10_000
BUCKETS, BATCHES_A_REPAIR, ROWS = 8, 100, 1_000
MINUTE_US, T0_US = 60_000_000, 1_600_000_000_000_000
STREAMS, QUERY = ("asks", "replies"), "answers"
CONFIG = """
home = "var"
"""
STREAM = """
[streams.{name}]
event_time = {{ column = "ts", unit = "s" }}
keys = ["device"]
measures = ["temp"]
levels = ["1m for 1d", "1d forever"]
[streams.{name}.source]
path = "{name}/*.csv"
format = "csv"
settle = 0
[streams.{name}.columns]
ts = "int"
device = "string"
temp = "double"
"""
PAIRS = """SELECT a.device, r.temp FROM asks [RANGE 2 SECONDS] a JOIN replies r ON a.device = r.device
RECALL 0.9 OVER 10 MINUTES
"""
Table = dict[str, Any]


def figures(quick: bool) -> dict[str, Any]:
    """Return the seconds of a publish, by how many batches came before it."""
    found: dict[str, Any] = {}
    for history in QUICK_HISTORIES if quick else HISTORIES:
        with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
            taken = _measured(Path(name), history, QUICK_BATCHES if quick else BATCHES)
        found |= {f"{figure}_at_{history}": value for figure, value in taken.items()}
    return found | _macros(1 if quick else 5)


def _macros(rounds: int) -> dict[str, float]:
    """Return the seconds of an empty version, medians of a few."""
    found: dict[str, list[tuple[float, float]]] = {"bound": [], "copied": []}
    for _ in range(rounds):
        macros.bound.cache_clear()
        for taken in found.values():
            with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
                home = Home(Path(name))
                taken.append(_taken(lambda home=home: published_file.publish(home, [])))  # type: ignore[misc]
    return {
        f"macros_{name}_{clock}": round(statistics.median(one[place] for one in taken), 3)
        for name, taken in found.items()
        for place, clock in enumerate(("s", "cpu_s"))
    }


def _measured(folder: Path, history: int, batches: int) -> dict[str, float]:
    settings = _lakehouse(folder)
    for path, rows in _tables(settings, np.arange(1, history + 1)).items():
        _write_history(path, rows, min(history, MOST_COMMITS))
    _publish_history(settings, folder)
    spark, publishes = build_session(settings), []
    for batch in range(history + 1, history + batches + 1):
        for path, rows in _tables(settings, np.array([batch])).items():
            _append(path, rows, batch)
        publishes.append(_taken(lambda: publish.run(settings, spark, unchecked=True)))
    del publishes[0]
    asked = (settings.layout, settings.registered, settings.streams, None)
    whole = [_taken(lambda: queries_to_publish(*asked)) for _ in range(3)]
    named = (("publish", publishes), ("metrics_all", whole))
    return {
        f"{name}_{clock}": round(statistics.median(one[place] for one in taken), 3)
        for name, taken in named
        for place, clock in enumerate(("s", "cpu_s"))
    }


def _taken(work: Callable[[], object]) -> tuple[float, float]:
    """Return seconds, and those of processors."""
    started, before = time.perf_counter(), cpu_s()
    work()
    return time.perf_counter() - started, cpu_s() - before


def _lakehouse(folder: Path) -> Settings:
    """Return a configuration with empty tables."""
    (folder / "tidemark.toml").write_text(CONFIG + "".join(STREAM.format(name=name) for name in STREAMS))
    (folder / "queries").mkdir()
    (folder / "queries" / f"{QUERY}.sql").write_text(PAIRS)
    settings = load_settings(folder / "tidemark.toml")
    layout, query = settings.layout, settings.query(QUERY)
    for name, stream in settings.streams.items():
        tables.create(layout.ledger(name), "ledger")
        tables.create_rollup(layout.rollup(name), stream)
    create_tables(layout, query, settings.streams)
    means = (definition_of(query), written_as(query))
    require_same(layout.batch_manifests(QUERY), QUERY, *means)
    return settings


def _tables(settings: Settings, batch: np.ndarray[Any, Any]) -> Mapping[Location, Table]:
    """Return what some batches add to each table."""
    layout, at = settings.layout, T0_US + batch * 1_000_000
    repair = batch[batch % BATCHES_A_REPAIR == 0] // BATCHES_A_REPAIR
    found: dict[Location, Table] = {}
    for name in STREAMS:
        counts = dict.fromkeys(("records", "received", "accepted"), ROWS)
        times = {"min_event_us": at, "max_event_us": at, "newest_us": at}
        found[layout.ledger(name)] = {"batch": batch, "kind": "files", "files": 1, **counts, **times}
        found[layout.rollup(name)] = _nodes(batch, at)
    found[layout.pairs(QUERY)] = {
        **{"event_us": at, "left_us": at, "right_us": at, "left_row": batch, "right_row": batch},
        **{"found": "online", "wait_us": 0, "batch": batch, "device": "a", "temp": 1.5},
    }
    repeated = np.repeat(at, BUCKETS)
    found[layout.queries(QUERY)] = {
        **{"batch": np.repeat(batch, BUCKETS), "bucket": np.tile(np.arange(BUCKETS), len(batch))},
        **dict.fromkeys(("rows", "pairs", "missed", "refused", "unusable", "held"), 1),
        **dict.fromkeys(("time_us", "left_newest_us", "right_newest_us"), repeated),
    }
    if len(repair):
        counts = dict.fromkeys(("looked_at", "found", "gone"), 1)
        through = repair * BATCHES_A_REPAIR
        told = {"time_us": T0_US + through, "committed_at": T0_US + through}
        found[layout.repairs(QUERY)] = {"repair": repair, "through": through, **counts, **told}
    return found


def _nodes(batch: np.ndarray[Any, Any], at: np.ndarray[Any, Any]) -> Table:
    """Return the folded nodes of some batches, which all fall into one minute and day, and their marker."""
    first, last, rows = int(at[0]), int(at[-1]), ROWS * len(batch)
    day_us = 1_440 * MINUTE_US
    start = np.array([T0_US // MINUTE_US * MINUTE_US, T0_US // day_us * day_us, last])
    times = {"first_us": first, "last_us": last, "temp__first_us": first, "temp__last_us": last}
    values = {"temp__n": rows, "temp__sum": 1.5 * rows, "temp__min": 1.5, "temp__max": 1.5}
    return {
        **{"level": np.array([1, 2, 0]), "grouping": np.array([0, 0, -1]), "start_us": start},
        **{"batch": int(batch[-1]), "device": "a", "rows": rows, **times, **values},
    }


def _arrow(known: Any, columns: Table) -> pa.Table:
    """Return rows with a table's columns; a single value stands in all of them."""
    schema, count = arrow_schema(known), max(len(each) for each in columns.values() if np.ndim(each))
    told = {
        name: pa.array(np.broadcast_to(value, count) if not isinstance(value, str) else [value] * count)
        for name, value in columns.items()
    }
    return fitted(pa.table(told), schema)


def _append(path: Location, columns: Table, batch: int) -> None:
    known = open_table(path)
    append_arrow(known, path, _arrow(known, columns), (f"tidemark-{path.parent.name}-{path.name}", batch))


def _write_history(path: Location, columns: Table, commits: int) -> None:
    """Write rows as the file of a merge of those of so many commits, which are there no more, and a checkpoint."""
    known, log = open_table(path), Path(path) / "_delta_log"
    (merged,) = write_arrow(known, path, _arrow(known, columns))
    added = {"partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}
    for number in range(1, commits + 1):
        stats = json.dumps({"numRecords": 1, "minValues": {"batch": number}, "maxValues": {"batch": number}})
        action = {"add": {"path": f"{number}.parquet", **added, "stats": stats}}
        (log / f"{number:020d}.json").write_text(json.dumps(action) + "\n")
    now = {"deletionTimestamp": int(time.time() * 1000), "dataChange": False, "extendedFileMetadata": False}
    actions = [{"remove": {"path": f"{number}.parquet", **now}} for number in range(1, commits + 1)]
    whole = {**added, "size": merged.size, "stats": json.dumps(merged.statistics), "dataChange": False}
    actions.append({"add": {"path": str(merged.path.relative_to(path)), **whole}})
    text = "".join(json.dumps(action) + "\n" for action in actions)
    (log / f"{commits + 1:020d}.json").write_text(text)
    open_table(path).create_checkpoint()


def _publish_history(settings: Settings, folder: Path) -> None:
    """Publish the history as one version, as a publish that makes all anew does with the nodes that Spark folds."""
    snapshots = []
    for name, stream in settings.streams.items():
        nodes = read_between(settings.layout.rollup(name), ("level", 1, None))
        told = {"nodes": nodes, "ledger": read_between(settings.layout.ledger(name))}
        for part, rows in told.items():
            (folder / name / part).mkdir(parents=True)
            pq.write_table(rows, folder / name / part / "part-0.parquet")
        one = snapshot_of(settings, stream)
        snapshots.append(replace(one, nodes=folder / name / "nodes", ledger=folder / name / "ledger"))
    queries, _ = queries_to_publish(settings.layout, settings.registered, settings.streams, None)
    published_file.publish(settings.layout, snapshots, queries=queries)
