"""The state of a registered query of any kind: what it has processed, holds and still has to do; and what explains it.

Reads manifests, ledgers and the small tables ``queries`` and ``repairs``. Cost: one row per batch and bucket, or
side, of each query; an explanation reads the tables as they are now, not a published version, and starts no JVM.

    new       registered, nothing processed yet
    behind    ingest batches wait that no finished batch of the query has read
    current   none wait
    changed   the query means something other than its tables; it is not run
    stopped   one of its conditions, or its kernel, raised an error; it waits until that is corrected
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import groupby
from typing import Any

from lakehouse.algorithms.late_join.margin import judged_share, usual_margin
from lakehouse.config.stream import Stream
from lakehouse.queries.kind import (
    Query,
    Side,
    definition_of,
    kind_of,
    scanned,
    where_of,
    written_as,
)
from lakehouse.queries.language.words import from_in_words
from lakehouse.queries.runtime.batch_manifest import BatchManifest, Scale, doubts_about, read_manifest
from lakehouse.queries.runtime.batch_metrics import BatchMetrics, is_open, read_batch_metrics
from lakehouse.queries.runtime.failure import Failure, read_failure
from lakehouse.queries.runtime.operators import Scans, conditions_of, read_scans
from lakehouse.queries.runtime.reset_query import known_queries
from lakehouse.serving.literals import parquet_of
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import read_ledger
from lakehouse.storage.query_meaning import meanings

Facts = dict[str, Any]
_METRICS = (
    "rows",
    "missed",
    "refused",
    "unusable",
    "held",
    "bytes",
    "time_us",
    "committed_at",
)
LAST = 10


@dataclass(frozen=True)
class QueryState(ABC):
    """One query, and the contents of its tables when they are first read; each is read at most once."""

    layout: Home
    query: Query

    @cached_property
    def metrics(self) -> BatchMetrics:
        """Metrics of finished batches and repairs."""
        kind = kind_of(self.query)
        names = ("batch", kind.partition, *_METRICS, *kind.metrics)
        return read_batch_metrics(self.layout, self.query.name, names)

    @property
    def meant(self) -> str | None:
        """Meaning that the tables were made for, for people, if the query means something else now."""
        return None if self._changed is None else self._changed[0]

    @property
    def means(self) -> str:
        """Present meaning of the query, for people."""
        return written_as(self.query) if self._changed is None else self._changed[1]

    @cached_property
    def _changed(self) -> tuple[str, str] | None:
        folder = self.layout.batch_manifests(self.query.name)
        return meanings(folder, definition_of(self.query), written_as(self.query))

    @cached_property
    def waiting(self) -> dict[str, int]:
        """Number of ingest batches of each stream that no finished batch of the query has read."""
        spans = self._plan.spans if self._plan else tuple((0, 0) for _ in self.query.streams)
        return {
            stream: len(read_ledger(self.layout, stream, through))
            for stream, (_, through) in zip(self.query.streams, spans, strict=True)
        }

    @cached_property
    def stopped(self) -> Failure | None:
        """Reason why the query is stopped, None if it is not."""
        return read_failure(self.layout, self.query.name)

    @cached_property
    def scans(self) -> Scans | None:
        """The measurements of the conditions on its sides; None if none of them calls a predicate."""
        if not scanned(self.query.sides):
            return None
        return read_scans(self.layout, self.query, self.metrics.finished)

    @cached_property
    def scale(self) -> Scale | None:
        """The number of buckets, and from which batch on; None before the first batch."""
        return self._plan.scales[-1] if self._plan and self._plan.scales else None

    @cached_property
    def _plan(self) -> BatchManifest | None:
        """The manifest of the last finished batch."""
        return read_manifest(self.layout.batch_manifests(self.query.name), "batch", self.metrics.finished)

    @property
    def state(self) -> str:
        """One word; the module explains what each means."""
        if self.meant is not None:
            return "changed"
        if self.stopped is not None:
            return "stopped"
        if not self.metrics.finished:
            return "new"
        return "behind" if any(self.waiting.values()) else "current"

    @abstractmethod
    def own_summary(self) -> Facts:
        """Return the part of the summary that only this kind of query has."""

    def summary(self) -> Facts:
        """Return the query's line in the list, as plain values; times in microseconds, None for no time yet."""
        metrics, last = self.metrics, self.metrics.last_batch
        ended = max((row["committed_at"] for row in last), default=None)
        scans: Facts = {}
        if self.scans is not None:
            stopped = None if self.stopped is None else asdict(self.stopped)
            scans = {"stopped": stopped, "operators": self.scans.operators()}
        doubts = doubts_about(self.layout, self.query, None) if metrics.finished else []
        return {
            "query": self.query.name,
            "kind": self.query.kind,
            "description": self.query.description,
            "streams": list(self.query.streams),
            "from_clause": from_in_words(self.query.sides),
            **self.own_summary(),
            **scans,
            "state": self.state,
            "doubts": [doubt.sentence for doubt in doubts],
            "waiting": self.waiting,
            "batches": metrics.finished,
            "rows": metrics.total("rows"),
            "withdrawn": metrics.total_repaired("withdrawn"),
            "open": metrics.total("missed", after=metrics.repaired),
            "held": sum(row.get("held") or 0 for row in last),
            "state_bytes": sum(row.get("bytes") or 0 for row in last),
            "newest_us": newest_time(last),
            "last_batch_at": ended,
            "last_batch_age_s": None
            if ended is None
            else max(0.0, (datetime.now(UTC) - ended).total_seconds()),
        }


def state_of(layout: Home, query: Query) -> QueryState:
    """Return the present state of a query, by its kind."""
    state: QueryState = kind_of(query).file("state").state_of(layout, query)
    return state


def overview(layout: Home, registered: Mapping[str, Query]) -> Facts:
    """Return every registered query, and the names of those that have tables and are no longer registered."""
    gone = [name for name in known_queries(layout) if name not in registered]
    states = [state_of(layout, query) for query in registered.values()]
    return {"queries": [state.summary() for state in states], "unregistered": gone}


def newest_time(rows: Sequence[Facts]) -> int | None:
    """Return the newest stream time of some buckets; None before all sides of any have a time."""
    return max((row["time_us"] for row in rows if row["time_us"] is not None), default=None)


@dataclass(frozen=True)
class Declared:
    """The part of the configuration that an explanation needs: all streams, costs of sites, the published time."""

    streams: Mapping[str, Stream]
    site_costs: Mapping[str, Mapping[str, float]]
    published_us: int | None


def explain(state: QueryState, declared: Declared) -> Facts:
    """Return everything known about a query, as plain values; times in microseconds, None for no time yet."""
    own: Facts = kind_of(state.query).file("state").explain(state, declared)
    if state.scans is not None:
        own |= {"why": list(state.scans.why()), "last_scans": last(state.scans.batches())}
    return {
        **state.summary(),
        "text": state.query.text,
        "meant_before": state.meant,
        "means": state.means,
        **own,
    }


def last(batches: Iterable[Facts]) -> list[Facts]:
    """Return the last of all batches."""
    return list(batches)[-LAST:]


def batch_sums(state: QueryState, names: Sequence[str]) -> Iterator[tuple[list[Facts], Facts]]:
    """Yield the rows of each finished batch with sums over them, when it ended, and its newest stream time."""
    for number, of_batch in groupby(state.metrics.rows, key=lambda row: row["batch"]):
        rows = list(of_batch)
        yield (
            rows,
            {
                "batch": number,
                "committed_at": rows[0]["committed_at"],
                **{name: sum(row[name] or 0 for row in rows) for name in names},
                "time_us": newest_time(rows),
            },
        )


def bucket_sums(state: QueryState, names: Sequence[str]) -> Iterator[tuple[Facts, bool, Facts]]:
    """Yield each bucket's last row, whether it is of the last batch, and sums over its rows of this scale."""
    since = state.scale.since if state.scale else 1
    rows = [row for row in state.metrics.rows if row["batch"] >= since]
    for bucket in sorted({row["bucket"] for row in rows} - {-1}):
        own = [row for row in rows if row["bucket"] == bucket]
        is_now = own[-1]["batch"] == state.metrics.finished
        yield own[-1], is_now, {name: sum(row[name] for row in own) for name in names}


def number_in_words(scale: Scale | None) -> str:
    """Return the number of buckets, and since when if it has changed."""
    if scale is None:
        return "none yet"
    return f"{scale.buckets}" + (f" since batch {scale.since}" if scale.since > 1 else "")


def conditions_on(side: Side) -> Facts:
    """Return the conditions of WHERE on a side; if one of them calls a predicate, also each by itself."""
    asked = {"conditions": conditions_of(side.conjuncts)} if side.conjuncts else {}
    return {"where": where_of(side), **asked}


def target_of(query: Any) -> Facts:
    """Return what a recall that a query states is aimed at, and the rows to spare; nothing of a query without one."""
    if query.recall is None:
        return {}
    margin = usual_margin(query.recall)
    judged = judged_share(query.recall, margin)
    return {
        **{"step_us": query.step_us, "spare_rows": query.spare_rows},
        **{"margin": margin, "judged_recall": judged},
    }


def completeness_of(state: QueryState) -> Facts:
    """Return how complete the results of a query with a recall were at once, by period; nothing of another."""
    if getattr(state.query, "recall", None) is None:
        return {}
    # The list of queries does without DuckDB.
    from lakehouse.queries.runtime.recall.completeness import Completeness

    return {"completeness": Completeness(state.layout, state.query, state.metrics).summary()}


def outputs_of(query: Any) -> list[Facts]:
    """Return the columns that a query shows, and the stream of each."""
    return [
        {"name": each.name, "stream": query.sides[each.side].stream, "column": each.column}
        for each in query.outputs
    ]


def repairs_of(state: QueryState) -> Facts:
    """Return what waits for the repair, and the results of the last repairs."""
    return {"to_repair": _to_repair(state), "last_repairs": state.metrics.repairs[-LAST:]}


def _to_repair(state: QueryState) -> Facts:
    """Return how many logged rows wait for a repair, their batches and times, and whether a repair was begun."""
    metrics = state.metrics
    begun = read_manifest(state.layout.batch_manifests(state.query.name), "repair", metrics.last_repair + 1)
    rows = metrics.total("missed", after=metrics.repaired)
    times: tuple[int | None, int | None] | None = None
    late = parquet_of(state.layout.missed_rows(state.query.name))
    if rows and late:
        # The list of queries does without DuckDB.
        from lakehouse.serving.table_reader import connected

        waiting = is_open(metrics.repaired, metrics.finished)
        with connected(state.layout.tables) as connection:
            found = connection.execute(f"SELECT min(event_us), max(event_us) FROM {late} WHERE {waiting}")
            times = found.fetchone()
    oldest_us, newest_us = times or (None, None)
    batches = [metrics.repaired + 1, metrics.finished] if metrics.finished > metrics.repaired else None
    return {
        "rows": rows,
        "oldest_us": oldest_us,
        "newest_us": newest_us,
        "batches": batches,
        "begun": begun is not None,
    }
