"""Metrics of a home in Prometheus' form, read from its files when they are asked for; no engine is needed.

What a service shows at its address and what ``tidemark metrics`` prints is the same, so it works with Airflow alone;
then what only a service knows (how long its works take, its failures, freshness) is not there. One scrape costs a few
small files, and what is new of a ledger, or the whole of one that was corrected.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from lakehouse.service.tasks import SECONDS
from lakehouse.storage.control.outcomes import read_all
from lakehouse.storage.heartbeats import service_heartbeat
from lakehouse.storage.layout import Home
from lakehouse.storage.set_aside import read_set_aside
from lakehouse.storage.tables.newest_commits import NO_TABLE, Commits
from lakehouse.storage.tables.table_log import bounds, read_columns

Facts = Mapping[str, Any]
# The newest commits of a ledger and of its corrections.
Seen = tuple[tuple[int, int], ...]
# Open and closed rejected records: stream, reason, open, closed. The published file has them, which others open.
Quarantine = Callable[[], Iterable[tuple[str, str, int, int]]]
OUTCOMES = ("accepted", "quarantined", "duplicates")
ORIGINS = ("received", "requeued")
_COLUMNS = ("batch", *OUTCOMES, *ORIGINS, "reasons", "late", "lateness", "newest_us")


def exposition(layout: Home, quarantine: Quarantine = tuple) -> str:
    """Return all metrics of a home as Prometheus' text."""
    return generate_latest(registry_of(layout, quarantine)).decode("utf-8")


def registry_of(layout: Home, quarantine: Quarantine = tuple) -> CollectorRegistry:
    """Return what collects the metrics of a home whenever it is asked."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(HomeMetrics(layout, quarantine))
    return registry


@dataclass
class StreamTotals:
    """The totals of a stream's ledger, up to its batch ``last``."""

    last: int = 0
    batches: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    late: list[int] = field(default_factory=list)
    newest_us: int | None = None


class HomeMetrics:
    """Collects the metrics of one home, as ``prometheus_client`` asks it to."""

    def __init__(self, layout: Home, quarantine: Quarantine = tuple) -> None:
        self._layout, self._quarantine = layout, quarantine
        self._ledgers: dict[str, tuple[Commits, Seen, StreamTotals]] = {}

    def collect(self) -> Iterator[Metric]:
        """Return every metric as it stands now."""
        streams = {path.name: self._totals(path) for path in _tables(self._layout.ledger(""))}
        outcomes, heartbeat = read_all(self._layout), service_heartbeat(self._layout)
        yield from _of_streams(streams)
        yield _of_quarantine(self._quarantine())
        yield from _of_lateness(streams)
        yield from _of_jobs(outcomes)
        yield from _of_queries(self._layout)
        yield _of_set_aside(self._layout)
        yield from _of_publish(self._layout)
        yield from _of_service(heartbeat)
        yield from _of_tasks((heartbeat or {}).get("tasks", ()))

    def _totals(self, ledger: Path) -> StreamTotals:
        """Return the totals of a ledger; where it has only grown since the last time, only its new rows are read."""
        tables = Commits(ledger, self._layout.corrections(ledger.name))
        look, seen, totals = self._ledgers.get(ledger.name, (tables, (NO_TABLE, NO_TABLE), StreamTotals()))
        shown = look()
        if shown != seen:
            # A correction changes rows that are there.
            has_only_grown = shown[1:] == seen[1:] and shown[0] > seen[0]
            before = totals if has_only_grown else StreamTotals()
            totals = _added_up(before, read_columns(ledger, _COLUMNS, ("batch", before.last + 1, None)))
        self._ledgers[ledger.name] = look, shown, totals
        return totals


def _tables(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _added_up(before: StreamTotals, rows: Iterable[tuple[Any, ...]]) -> StreamTotals:
    totals = deepcopy(before)
    for row in rows:
        batch = dict(zip(_COLUMNS, row, strict=True))
        totals.last = max(totals.last, batch["batch"])
        totals.batches += 1
        totals.rows.update({name: batch[name] or 0 for name in (*OUTCOMES, *ORIGINS)})
        totals.reasons.update(dict(batch["reasons"] or ()))
        bins = batch["lateness"] or []
        totals.late += [0] * (len(bins) - len(totals.late))
        for index, count in enumerate(bins):
            totals.late[index] += count
        totals.newest_us = max(
            (us for us in (totals.newest_us, batch["newest_us"]) if us is not None), default=None
        )
    return totals


def _of_streams(streams: Mapping[str, StreamTotals]) -> Iterator[Metric]:
    rows = CounterMetricFamily(
        "tidemark_rows", "Rows that came in, by what became of them.", labels=["stream", "outcome"]
    )
    came = CounterMetricFamily(
        "tidemark_incoming_rows",
        "Rows that came in or were taken back out of quarantine, as many as tidemark_rows.",
        labels=["stream", "origin"],
    )
    reasons = CounterMetricFamily(
        "tidemark_quarantined_rows",
        "Rows that were ever rejected, by reason; tidemark_quarantine_records are those now open.",
        labels=["stream", "reason"],
    )
    batches = CounterMetricFamily("tidemark_batches", "Finished ingest batches.", labels=["stream"])
    newest = GaugeMetricFamily(
        "tidemark_newest_event_timestamp_seconds",
        "Newest event time accepted, in Unix time.",
        labels=["stream"],
    )
    for name, totals in streams.items():
        batches.add_metric([name], totals.batches)
        for outcome in OUTCOMES:
            rows.add_metric([name, outcome], totals.rows[outcome])
        for origin in ORIGINS:
            came.add_metric([name, origin], totals.rows[origin])
        for reason, count in sorted(totals.reasons.items()):
            reasons.add_metric([name, reason], count)
        if totals.newest_us is not None:
            newest.add_metric([name], totals.newest_us / 1e6)
    yield from (rows, came, reasons, batches, newest)


def _of_quarantine(rows: Iterable[tuple[str, str, int, int]]) -> Metric:
    records = GaugeMetricFamily(
        "tidemark_quarantine_records",
        "Rejected records as of the current version: open, or closed as a requeue has taken them.",
        labels=["stream", "reason", "state"],
    )
    for stream, reason, is_open, is_closed in rows:
        records.add_metric([stream, reason, "open"], is_open)
        records.add_metric([stream, reason, "closed"], is_closed)
    return records


def _of_lateness(streams: Mapping[str, StreamTotals]) -> Iterator[Metric]:
    late = HistogramMetricFamily(
        "tidemark_lateness_seconds",
        "How far late rows were behind the newest before them.",
        labels=["stream"],
    )
    for name, totals in streams.items():
        # Bin i of the ledger ends at 2^(i+1) milliseconds; the sum of latenesses is not kept.
        ends = [str(2 ** (index + 1) / 1000) for index in range(len(totals.late))]
        counts = list(accumulate(totals.late))
        late.add_metric(
            [name], [*zip(ends, counts, strict=True), ("+Inf", counts[-1] if counts else 0)], None
        )
    yield late


def _of_jobs(outcomes: Iterable[Facts]) -> Iterator[Metric]:
    labels = ["job", "stream"]
    is_ok = GaugeMetricFamily("tidemark_job_ok", "Whether the job last ended well.", labels=labels)
    seconds = GaugeMetricFamily("tidemark_job_seconds", "How long the job last took.", labels=labels)
    lag = GaugeMetricFamily(
        "tidemark_lag_messages",
        "Messages that waited on the broker when the ingest last ended.",
        labels=["stream"],
    )
    for outcome in outcomes:
        is_ok.add_metric([outcome["job"], outcome["stream"]], float(outcome["ok"]))
        seconds.add_metric([outcome["job"], outcome["stream"]], outcome["seconds"])
        waiting = outcome["figures"].get("lag") if outcome["job"] == "ingest" else None
        if waiting is not None:
            lag.add_metric([outcome["stream"]], waiting)
    yield from (is_ok, seconds, lag)


def _of_queries(layout: Home) -> Iterator[Metric]:
    state = GaugeMetricFamily("tidemark_state_bytes", "What a registered query holds.", labels=["query"])
    # A selection holds nothing from one batch to the next.
    holding = [table for table in _tables(layout.queries("")) if not layout.selection(table.name).is_dir()]
    for table in holding:
        [(_, last)] = bounds(table, ("batch",))
        sizes = read_columns(table, ("bytes",), ("batch", last or 0, last))
        state.add_metric([table.name], sum(size or 0 for (size,) in sizes))
    yield state


def _of_set_aside(layout: Home) -> Metric:
    aside = GaugeMetricFamily(
        "tidemark_set_aside_batches",
        "Files and messages set aside, as every batch that held them failed.",
        labels=["stream"],
    )
    counts = Counter(batch.stream for batch in read_set_aside(layout))
    for table in _tables(layout.manifests("")):
        aside.add_metric([table.name], counts[table.name])
    return aside


def _of_publish(layout: Home) -> Iterator[Metric]:
    age = GaugeMetricFamily("tidemark_publish_age_seconds", "How long ago the current version was published.")
    version = GaugeMetricFamily("tidemark_published_version", "The number of the current version.")
    pointer = layout.serving / "current"
    if pointer.exists():
        age.add_metric([], max(0.0, time.time() - pointer.stat().st_mtime))
        version.add_metric([], int(pointer.read_text(encoding="ascii")))
    yield from (age, version)


def _of_service(heartbeat: Facts | None) -> Iterator[Metric]:
    up = GaugeMetricFamily("tidemark_service_up", "Whether `tidemark serve` runs on this home.")
    up.add_metric([], float(bool(heartbeat and heartbeat["is_alive"])))
    age = GaugeMetricFamily(
        "tidemark_heartbeat_age_seconds", "How long ago the service wrote its last heartbeat."
    )
    if heartbeat:
        age.add_metric([], heartbeat["age_s"])
    fresh = GaugeMetricFamily(
        "tidemark_freshness_seconds",
        "From the arrival of a batch's newest row to the published answer, over the last batches.",
        labels=["stream", "quantile"],
    )
    for name, freshness in (heartbeat or {}).get("streams", {}).items():
        for quantile, part in (("0.5", "p50_s"), ("0.95", "p95_s")):
            if freshness.get(part) is not None:
                fresh.add_metric([name, quantile], freshness[part])
    yield from (up, age, fresh)


def _of_tasks(tasks: Iterable[Facts]) -> Iterator[Metric]:
    labels = ["job", "stream"]
    seconds = HistogramMetricFamily(
        "tidemark_batch_seconds", "How long a task of the service took.", labels=labels
    )
    failures = CounterMetricFamily(
        "tidemark_task_failures", "How often a task of the service failed.", labels=labels
    )
    of_queries = CounterMetricFamily("tidemark_query_failures", "How often a query failed.", labels=["query"])
    running = GaugeMetricFamily(
        "tidemark_task_running_seconds", "How long a task has been running; 0 while it is not.", labels=labels
    )
    for task in tasks:
        job, tally = [task["job"], task["name"]], task["tally"]
        buckets = zip((*map(str, SECONDS), "+Inf"), accumulate(tally["bins"]), strict=True)
        seconds.add_metric(job, list(buckets), tally["seconds"])
        failures.add_metric(job, tally["failures"])
        running.add_metric(job, task["running_s"] or 0.0)
        if task["job"] == "run_queries":
            of_queries.add_metric([task["name"]], tally["failures"])
    yield from (seconds, failures, of_queries, running)
