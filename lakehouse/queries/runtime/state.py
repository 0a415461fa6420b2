"""The present state of a registered query of any kind: what it has processed, holds and still has to do; no engine.

Reads manifests, ledgers and the small tables ``queries`` and ``repairs``. Cost: one row per batch and bucket, or
side, of each query.

    new       registered, nothing processed yet
    behind    ingest batches wait that no finished batch of the query has read
    current   none wait
    changed   the query means something other than its tables; it is not run
    stopped   one of its conditions, or its kernel, raised an error; it waits until that is corrected
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, ClassVar

from lakehouse.home.layout import Home
from lakehouse.home.ledger import read_ledger
from lakehouse.queries.kind import Query, from_in_words, kind_of, scanned
from lakehouse.queries.runtime.batch_manifest import (
    BatchManifest,
    Scale,
    Span,
    definition_of,
    meanings,
    read_manifest,
    written_as,
)
from lakehouse.queries.runtime.batch_metrics import BatchMetrics, read_batch_metrics
from lakehouse.queries.runtime.failure import Failure, read_failure
from lakehouse.queries.runtime.operators import Scans, read_scans
from lakehouse.queries.runtime.reset_query import known_queries

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


@dataclass(frozen=True)
class QueryState(ABC):
    """One query, and the contents of its tables when they are first read; each is read at most once."""

    layout: Home
    query: Query
    # The column by which a batch has rows of metrics.
    partition_column: ClassVar[str] = "bucket"
    own_metrics: ClassVar[tuple[str, ...]]
    # The common metrics that this kind has.
    shared_metrics: ClassVar[tuple[str, ...]] = _METRICS

    @cached_property
    def metrics(self) -> BatchMetrics:
        """What is finished: batches and repairs."""
        return read_batch_metrics(
            self.layout,
            self.query.name,
            ("batch", self.partition_column, *self.shared_metrics, *self.own_metrics),
        )

    @property
    def meant(self) -> str | None:
        """What the tables were made for, for people, if that is not what the query means now."""
        return None if self._changed is None else self._changed[0]

    @property
    def means(self) -> str:
        """What the query means now, for people."""
        return written_as(self.query) if self._changed is None else self._changed[1]

    @cached_property
    def _changed(self) -> tuple[str, str] | None:
        folder = self.layout.batch_manifests(self.query.name)
        return meanings(folder, definition_of(self.query), written_as(self.query))

    @cached_property
    def waiting(self) -> dict[str, int]:
        """How many ingest batches of each stream no finished batch of the query has read."""
        waiting: dict[str, int] = {}
        for stream, (_, through) in zip(self.query.streams, self._taken(), strict=True):
            waiting[stream] = len(read_ledger(self.layout, stream, through))
        return waiting

    @cached_property
    def stopped(self) -> Failure | None:
        """Why the query is stopped, None if it is not."""
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

    def _taken(self) -> tuple[Span, ...]:
        return self._plan.spans if self._plan else tuple((0, 0) for _ in self.query.streams)

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

    def _scan_summary(self) -> Facts:
        if self.scans is None:
            return {}
        stopped = None if self.stopped is None else asdict(self.stopped)
        return {"stopped": stopped, "operators": self.scans.operators()}

    @abstractmethod
    def own_summary(self) -> Facts:
        """Return the part of the summary that only this kind of query has."""

    def summary(self) -> Facts:
        """Return the query's line in the list, as plain values; times in microseconds, None for no time yet."""
        metrics, last = self.metrics, self.metrics.last_batch
        ended = max((row["committed_at"] for row in last), default=None)
        return {
            "query": self.query.name,
            "kind": self.query.kind,
            "description": self.query.description,
            "streams": list(self.query.streams),
            "from_clause": from_in_words(self.query.sides),
            **self.own_summary(),
            **self._scan_summary(),
            "state": self.state,
            "waiting": self.waiting,
            "batches": metrics.finished,
            "rows": metrics.total("rows"),
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
