"""Registered queries as they stand: what they took in, found, hold and owe, and what waits for them; no engine.

Reads plans, ledgers and the small tables ``queries`` and ``repairs``. Cost: one row per batch and bucket of each query.

    new       registered, nothing taken in yet
    behind    ingest batches wait that no finished batch of the query holds
    current   none wait
    changed   the query means something else than its tables; it is not run
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from lakehouse.catalog.forgetting import known_queries
from lakehouse.catalog.layout import Home
from lakehouse.catalog.ledger import read_ledger
from lakehouse.catalog.plans import Span, definition_of, read_definition, read_plans
from lakehouse.catalog.queries import JoinQuery
from lakehouse.catalog.query_words import condition_in_words, streams_in_words
from lakehouse.catalog.table_log import read_columns

Facts = dict[str, Any]
_FIGURES = (
    *("batch", "bucket", "rows", "pairs", "missed", "refused", "unusable", "late_after_silence", "held"),
    *("most_held", "bytes", "left_slack_us", "right_slack_us", "time_us", "committed_at"),
)
_REPAIRS = ("repair", "through", "looked_at", "found", "gone", "time_us", "committed_at")


@dataclass(frozen=True)
class QueryState:
    """One query, and what its tables say at the moment they are first read; each is read at most once."""

    layout: Home
    query: JoinQuery
    buckets: int

    @cached_property
    def figures(self) -> list[Facts]:
        """One row per finished batch and bucket, in order; bucket -1 stands for a batch without any."""
        return _read(self.layout.queries(self.query.name), _FIGURES, ("batch", "bucket"))

    @cached_property
    def repairs(self) -> list[Facts]:
        """One row per finished repair, in order."""
        return _read(self.layout.repairs(self.query.name), _REPAIRS, ("repair",))

    @property
    def finished(self) -> int:
        """The last finished batch, 0 for none."""
        return self.figures[-1]["batch"] if self.figures else 0

    @property
    def repaired(self) -> int:
        """Batches up to this one are repaired."""
        return max((repair["through"] for repair in self.repairs), default=0)

    @property
    def last_batch(self) -> list[Facts]:
        """The rows of the last finished batch."""
        return [row for row in self.figures if row["batch"] == self.finished]

    @cached_property
    def meant(self) -> str | None:
        """What the tables belong to, where that is not what the query means now."""
        before = read_definition(self.layout.plans(self.query.name))
        return None if before in (None, definition_of(self.query, self.buckets)) else before

    @cached_property
    def waiting(self) -> dict[str, int]:
        """How many ingest batches of each stream no finished batch of the query holds."""
        waiting: dict[str, int] = {}
        for side, (_, through) in zip(self.query.sides, self._taken(), strict=True):
            entries = read_ledger(self.layout, side.stream)
            waiting[side.stream] = sum(entry.batch > through for entry in entries)
        return waiting

    def _taken(self) -> tuple[Span, ...]:
        plans = read_plans(self.layout.plans(self.query.name), "batch")
        return next((plan.spans for plan in plans if plan.number == self.finished), ((0, 0), (0, 0)))

    @property
    def state(self) -> str:
        """One word; what each means is told above."""
        if self.meant is not None:
            return "changed"
        if not self.finished:
            return "new"
        return "behind" if any(self.waiting.values()) else "current"

    def total(self, name: str, after: int = 0) -> int:
        """Return the sum of a figure over all finished batches after one."""
        return sum(row[name] or 0 for row in self.figures if row["batch"] > after)

    def facts(self) -> Facts:
        """Return what one line tells of the query, as plain values; times in microseconds, None for no time yet."""
        query, last = self.query, self.last_batch
        ended = max((row["committed_at"] for row in last), default=None)
        return {
            **_asked(query),
            "state": self.state,
            "waiting": self.waiting,
            "batches": self.finished,
            "rows": self.total("rows"),
            "pairs_online": self.total("pairs"),
            "pairs_repaired": sum(repair["found"] for repair in self.repairs),
            "open": self.total("missed", after=self.repaired),
            "held": sum(row["held"] or 0 for row in last),
            "state_bytes": sum(row["bytes"] or 0 for row in last),
            "newest_us": newest_time(last),
            "last_batch_at": ended,
            "last_batch_age_s": None
            if ended is None
            else max(0.0, (datetime.now(UTC) - ended).total_seconds()),
        }


def overview(layout: Home, registered: Mapping[str, JoinQuery], buckets: int) -> Facts:
    """Return every registered query, and the names of those that have tables and are registered no longer."""
    gone = [name for name in known_queries(layout) if name not in registered]
    states = [QueryState(layout, query, buckets) for query in registered.values()]
    return {"queries": [state.facts() for state in states], "unregistered": gone}


def newest_time(rows: list[Facts]) -> int | None:
    """Return the newest stream time of some buckets; None before both sides of any have a time."""
    return max((row["time_us"] for row in rows if row["time_us"] is not None), default=None)


def _asked(query: JoinQuery) -> Facts:
    return {
        "query": query.name,
        "description": query.description,
        "streams": [side.stream for side in query.sides],
        "join": streams_in_words(query),
        "window_us": query.window_us,
        "condition": condition_in_words(query),
        "recall": query.recall,
        "period_us": query.period_us,
    }


def _read(table: Any, names: tuple[str, ...], order: tuple[str, ...]) -> list[Facts]:
    rows = [dict(zip(names, row, strict=True)) for row in read_columns(table, names)]
    return sorted(rows, key=lambda row: tuple(row[name] for name in order))
