"""Metrics of a home in Prometheus' form, read from its files when they are asked for; no engine is needed.

What a service shows at its address and what ``tidemark metrics`` prints is the same, so it works with Airflow alone;
then what only a service knows (how long its works take, its failures, freshness) is not there. One scrape costs a few
small files, and what is new of a ledger, or the whole of one that was corrected.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from lakehouse.service.tasks import SECONDS
from lakehouse.storage.control.manifests import names_in
from lakehouse.storage.control.outcomes import read_all
from lakehouse.storage.heartbeats import service_heartbeat
from lakehouse.storage.layout import Home
from lakehouse.storage.set_aside import read_set_aside
from lakehouse.storage.stores.store_path import Location
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
        yield _of_lateness(streams)
        yield from _of_jobs(outcomes)
        yield _of_queries(self._layout)
        yield _of_set_aside(self._layout)
        yield from _of_publish(self._layout)
        yield from _of_service(heartbeat)
        yield from _of_tasks((heartbeat or {}).get("tasks", ()))

    def _totals(self, ledger: Location) -> StreamTotals:
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


def _tables(folder: Location) -> list[Location]:
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


def _family(
    kind: type[CounterMetricFamily | GaugeMetricFamily],
    name: str,
    says: str,
    labels: Sequence[str],
    samples: Iterable[tuple[Sequence[str], float]],
) -> Metric:
    """Return a family of metrics; a sample is the values of its labels, and its own."""
    family = kind(name, says, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


_counter, _gauge = partial(_family, CounterMetricFamily), partial(_family, GaugeMetricFamily)


def _of_streams(streams: Mapping[str, StreamTotals]) -> Iterator[Metric]:
    known, of = streams.items(), ("stream",)
    outcomes = (((name, one), totals.rows[one]) for name, totals in known for one in OUTCOMES)
    yield _counter(
        "tidemark_rows", "Rows that came in, by what became of them.", ("stream", "outcome"), outcomes
    )
    says = "Rows that came in or were taken back out of quarantine, as many as tidemark_rows."
    origins = (((name, one), totals.rows[one]) for name, totals in known for one in ORIGINS)
    yield _counter("tidemark_incoming_rows", says, ("stream", "origin"), origins)
    says = "Rows that were ever rejected, by reason; tidemark_quarantine_records are those now open."
    reasons = (((name, one), n) for name, totals in known for one, n in sorted(totals.reasons.items()))
    yield _counter("tidemark_quarantined_rows", says, ("stream", "reason"), reasons)
    batches = (((name,), totals.batches) for name, totals in known)
    yield _counter("tidemark_batches", "Finished ingest batches.", of, batches)
    newest = (((name,), one.newest_us / 1e6) for name, one in known if one.newest_us is not None)
    says = "Newest event time accepted, in Unix time."
    yield _gauge("tidemark_newest_event_timestamp_seconds", says, of, newest)


def _of_quarantine(rows: Iterable[tuple[str, str, int, int]]) -> Metric:
    says = "Rejected records as of the current version: open, or closed as a requeue has taken them."
    samples = (
        ((stream, reason, state), count)
        for stream, reason, *counts in rows
        for state, count in zip(("open", "closed"), counts, strict=True)
    )
    return _gauge("tidemark_quarantine_records", says, ("stream", "reason", "state"), samples)


def _of_lateness(streams: Mapping[str, StreamTotals]) -> Metric:
    says = "How far late rows were behind the newest before them."
    late = HistogramMetricFamily("tidemark_lateness_seconds", says, labels=["stream"])
    for name, totals in streams.items():
        # Bin i of the ledger ends at 2^(i+1) milliseconds; the sum of latenesses is not kept.
        ends = [str(2 ** (index + 1) / 1000) for index in range(len(totals.late))]
        counts = list(accumulate(totals.late))
        bins = [*zip(ends, counts, strict=True), ("+Inf", counts[-1] if counts else 0)]
        late.add_metric([name], bins, None)
    return late


def _of_jobs(outcomes: Sequence[Facts]) -> Iterator[Metric]:
    jobs, labels = [((one["job"], one["stream"]), one) for one in outcomes], ("job", "stream")
    is_ok = ((job, float(one["ok"])) for job, one in jobs)
    yield _gauge("tidemark_job_ok", "Whether the job last ended well.", labels, is_ok)
    seconds = ((job, one["seconds"]) for job, one in jobs)
    yield _gauge("tidemark_job_seconds", "How long the job last took.", labels, seconds)
    lags = ((job[1:], one["figures"].get("lag")) for job, one in jobs if one["job"] == "ingest")
    says = "Messages that waited on the broker when the ingest last ended."
    waiting = ((of, lag) for of, lag in lags if lag is not None)
    yield _gauge("tidemark_lag_messages", says, ("stream",), waiting)


def _of_queries(layout: Home) -> Metric:
    samples = []
    for table in _tables(layout.queries("")):
        # A selection holds nothing from one batch to the next.
        if not layout.selection(table.name).is_dir():
            [(_, last)] = bounds(table, ("batch",))
            sizes = read_columns(table, ("bytes",), ("batch", last or 0, last))
            samples.append(((table.name,), sum(size or 0 for (size,) in sizes)))
    return _gauge("tidemark_state_bytes", "What a registered query holds.", ("query",), samples)


def _of_set_aside(layout: Home) -> Metric:
    says = "Files and messages set aside, as every batch that held them failed."
    counts = Counter(batch.stream for batch in read_set_aside(layout))
    streams = names_in(layout, "manifests")
    return _gauge("tidemark_set_aside_batches", says, ("stream",), (((n,), counts[n]) for n in streams))


def _of_publish(layout: Home) -> Iterator[Metric]:
    pointer = layout.serving / "current"
    there = [pointer] if pointer.exists() else []
    ages = (((), max(0.0, time.time() - one.stat().st_mtime)) for one in there)
    yield _gauge("tidemark_publish_age_seconds", "How long ago the current version was published.", (), ages)
    versions = (((), int(one.read_text(encoding="ascii"))) for one in there)
    yield _gauge("tidemark_published_version", "The number of the current version.", (), versions)


def _of_service(heartbeat: Facts | None) -> Iterator[Metric]:
    is_up = float(bool(heartbeat and heartbeat["is_alive"]))
    yield _gauge("tidemark_service_up", "Whether `tidemark serve` runs on this home.", (), [((), is_up)])
    ages = [((), heartbeat["age_s"])] if heartbeat else []
    says = "How long ago the service wrote its last heartbeat."
    yield _gauge("tidemark_heartbeat_age_seconds", says, (), ages)
    says = "From the arrival of a batch's newest row to the published answer, over the last batches."
    samples = (
        ((name, quantile), freshness[part])
        for name, freshness in (heartbeat or {}).get("streams", {}).items()
        for quantile, part in (("0.5", "p50_s"), ("0.95", "p95_s"))
        if freshness.get(part) is not None
    )
    yield _gauge("tidemark_freshness_seconds", says, ("stream", "quantile"), samples)


def _of_tasks(tasks: Sequence[Facts]) -> Iterator[Metric]:
    labels, jobs = ("job", "stream"), [((task["job"], task["name"]), task) for task in tasks]
    says = "How long a task of the service took."
    seconds = HistogramMetricFamily("tidemark_batch_seconds", says, labels=labels)
    for job, task in jobs:
        counts = accumulate(task["tally"]["bins"])
        buckets = list(zip((*map(str, SECONDS), "+Inf"), counts, strict=True))
        seconds.add_metric(job, buckets, task["tally"]["seconds"])
    yield seconds
    failures = [(job, task["tally"]["failures"]) for job, task in jobs]
    yield _counter("tidemark_task_failures", "How often a task of the service failed.", labels, failures)
    of_queries = ((job[1:], count) for job, count in failures if job[0] == "run_queries")
    yield _counter("tidemark_query_failures", "How often a query failed.", ("query",), of_queries)
    says = "How long a task has been running; 0 while it is not."
    running = ((job, task["running_s"] or 0.0) for job, task in jobs)
    yield _gauge("tidemark_task_running_seconds", says, labels, running)
