"""Snapshots of queries that find rows: the rows, their row in ``queries``, and with a recall results by period.

Cost: the rows that came, and those that wait for a repair; one sort of all rows where none are shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from lakehouse.queries.kind import kind_of
from lakehouse.queries.runtime.batch_metrics import is_finished
from lakehouse.queries.runtime.recall.publish import Periods
from lakehouse.queries.runtime.snapshot import (
    filled,
    final_before,
    open_rows,
    shared_fields,
    shared_rows,
    shown_columns,
)
from lakehouse.serving.literals import name
from lakehouse.serving.publish.query_snapshot import QuerySnapshot, ShownColumn, comments_of
from lakehouse.serving.segments.row_store import Appended
from lakehouse.serving.segments.shared_rows import SharedRows

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

    from lakehouse.config.stream import Stream
    from lakehouse.queries.kind import Query
    from lakehouse.queries.runtime.batch_metrics import Facts
    from lakehouse.serving.segments.row_store import RowStore
    from lakehouse.storage.layout import Home


@dataclass(frozen=True, kw_only=True)
class PeriodicSnapshot(QuerySnapshot):
    """A query as it is to be published, with its results by period if it states a recall."""

    @property
    def basis(self) -> str:
        """Basis of its published rows."""
        return self.definition if self.periods is None else self.periods.basis

    @property
    def periods(self) -> Periods | None:
        """Its periods, with a recall."""
        if self.settings.get("recall") is None:
            return None
        return Periods(self, self.settings["period_us"], self.settings["step_us"], self.reach_us)

    def by_time(self, store: RowStore) -> tuple[str, str]:
        """Return SELECTs of its results by step, and by period; empty without a recall."""
        return ("", "") if self.periods is None else self.periods.by_time(store)


@dataclass(frozen=True, kw_only=True)
class RowsSnapshot(PeriodicSnapshot):
    """A query that finds rows, published as ``<kind>_<query>``; the rows are in the Delta table ``row_table``."""

    columns: Sequence[ShownColumn]
    row_table: Path

    @classmethod
    def of(
        cls,
        layout: Home,
        query: Any,
        streams: Mapping[str, Stream],
        published_us: int | None,
        before: Facts | None = None,
    ) -> Self:
        """Return what is published of a query; ``published_us`` back from its newest time, None for all.

        ``before``: its row in the version before.
        """
        return cls(
            **shared_fields(layout, query, streams, before, published_us),
            columns=shown_columns(query, query.outputs, streams),
            row_table=getattr(layout, kind_of(query).results)(query.name),
        )

    @property
    def statements(self) -> tuple[str, ...]:
        """The table of the rows."""
        return (kind_of(self).results,)

    def finished(self, batches: int, repairs: int) -> str:
        """Return SQL that says whether a row is of a finished batch or repair."""
        return is_finished(batches, repairs) if kind_of(self).has("repair") else f"batch <= {batches}"

    @property
    def rows_table(self) -> SharedRows:
        """The published table."""
        return shared_rows(self, f"{self.kind}_{self.name}", ("event_us",), time="event_us", shown="true")

    def take(self, store: RowStore) -> None:
        """Add the rows that are to be published, and with a recall how many each step and period has."""
        own = "".join(f"{name(column.name)} {column.type}, " for column in self.columns)
        says = f"{kind_of(self).rows_are} {self.name}; see queries."
        declared = filled(self.statements[0], {"{columns}": own}) + comments_of(says, self.columns)
        rows_at = partial(
            _rows_at, but=[column for _, *places in kind_of(self).rests_on for column in places]
        )
        store.take(self.rows_table, declared, Appended(self.row_table, rows_at, self.finished))
        if self.periods is not None:
            rows = store.arrived(self.rows_table)
            self.periods.take(store, rows, is_shared=store.is_shared(self.rows_table))

    def write(self, connection: duckdb.DuckDBPyConnection, store: RowStore) -> None:
        """Write the row of the query, and with a recall where rows still wait for a repair."""
        # The time before which no row that is as late as its stream allows can change anything.
        passed_us = self.sure_before(None if self.time_us is None else self.time_us - self.latest_us)
        if self.periods is None:
            logged = f"({open_rows(self)})"
            final_us, waiting = final_before(connection, passed_us, logged), logged
        else:
            final_us, waiting = passed_us, f"range({self.periods.write_open(connection, store)})"
        own = {"final_before_us": final_us, "published": store.shown(self.rows_table)}
        self.write_row(connection, waiting, own)


def snapshot_of(
    layout: Home,
    query: Query,
    streams: Mapping[str, Stream],
    published_us: int | None,
    before: Facts | None = None,
) -> QuerySnapshot:
    """Return what is published of a query by its kind.

    ``before``: its row in the version before.
    """
    of_kind = kind_of(query).part("publish", "snapshot_of", RowsSnapshot.of)
    snapshot: QuerySnapshot = of_kind(layout, query, streams, published_us, before)
    return snapshot


def _rows_at(source: str, but: Sequence[str]) -> str:
    """Return SQL for rows of a source without some columns, with their event time as a timestamp."""
    kept = f"COLUMNS(lambda each: each NOT IN {(*but, '')})"
    return f"SELECT {kept}, make_timestamp(event_us) AS event_at FROM {source}"
