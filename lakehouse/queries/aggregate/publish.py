"""Published tables of a join-aggregate: its answers with every revision, its alarms, its row in ``queries``.

Cost: the answers that came, and those that they replace; one sort of all where none are shared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb

from lakehouse.config.stream import Stream
from lakehouse.queries.aggregate.query import AggregateQuery, Measure, measure_in_words
from lakehouse.queries.aggregate.tables import COUNTED_AS, measure_types
from lakehouse.queries.runtime.batch_metrics import Facts, is_finished
from lakehouse.queries.runtime.published_rows import PeriodicSnapshot
from lakehouse.queries.runtime.snapshot import (
    filled,
    final_before,
    open_rows,
    shared_fields,
    shared_rows,
    shown_columns,
)
from lakehouse.serving.literals import literal, name, row, text
from lakehouse.serving.publish.query_snapshot import (
    ShownColumn,
    comment,
    comment_columns,
    comments_of,
)
from lakehouse.serving.segments.row_store import Appended, RowStore
from lakehouse.serving.segments.shared_rows import SharedRows
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location


@dataclass(frozen=True, kw_only=True)
class AggregateSnapshot(PeriodicSnapshot):
    """A join-aggregate as it is to be published.

    ``groups`` are the columns of GROUP BY, ``outputs`` the aggregates of SELECT, of which ``counts`` count: those are 0
    where nothing joins. ``alarm_table`` is None for a query that raises none.
    """

    statements = ("answers", "answers_view", "alarms", "alarms_view")
    groups: Sequence[ShownColumn]
    outputs: Sequence[ShownColumn]
    counts: Sequence[str]
    answer_table: Location
    alarm_table: Location | None

    @property
    def revisions_table(self) -> SharedRows:
        """Its answers, with every revision."""
        groups = tuple(group.name for group in self.groups)
        key, shown = ("tick_us", *groups, "revision"), "is_newest AND holds"
        return shared_rows(self, f"revisions_{self.name}", key, time="tick_us", key=key, shown=shown)

    @property
    def changes_table(self) -> SharedRows:
        """The changes of its alarms, by name, as new ones look for old ones; those that are raised count as shown."""
        key, shown = ("alarm", "change"), "is_newest AND state = 'raised'"
        table = shared_rows(self, f"alarm_changes_{self.name}", key, key=key, shown=shown)
        if self.published_from_us is None:
            return table
        return replace(
            table, where=_published(self, f"max_by({self._ended}, change) OVER (PARTITION BY alarm)")
        )

    @property
    def _ended(self) -> str:
        since = literal(self.published_from_us)
        return f"CASE state WHEN 'raised' THEN {since} ELSE ifnull(cleared_us, raised_us) END"

    def take(self, store: RowStore) -> None:
        """Take in its answers and alarms."""
        columns = [*self.groups, *self.outputs, *(() if self.periods is None else [_COUNTED_AS])]
        says = f"Every answer of {self.name}, also those that were revised; see queries."
        declared = filled("answers", {"{columns}": _columns(columns)}) + comments_of(says, columns)
        names = _names(columns)
        answers = Appended(self.answer_table, lambda source: _revisions(source, names), is_finished)
        before = store.take(self.revisions_table, declared, answers)
        if self.periods is not None:
            # Rows that are stored again, as others take their place, have been counted.
            known = "false" if before is None else is_finished(before.batches, before.repairs)
            new = f"{store.arrived(self.revisions_table)} WHERE NOT ({known})"
            self.periods.take(store, new, is_shared=before is not None)
        if self.alarm_table is not None:
            self.take_alarms(store, self.alarm_table)

    def take_alarms(self, store: RowStore, alarms: Location) -> None:
        """Take in its alarms alone."""
        says = f"Every change of the alarms of {self.name}; see queries."
        declared = filled("alarms", {"{columns}": _columns(self.groups)}) + comments_of(says, self.groups)
        names = _names(self.groups)
        store.take(
            self.changes_table,
            declared,
            Appended(alarms, lambda source: _changes(source, names), is_finished),
        )

    def write(self, connection: duckdb.DuckDBPyConnection, store: RowStore) -> None:
        """Write the views of what stands, its outputs and its row."""
        final_before_us = final_ticks(connection, self)
        _show(connection, self, "answers", f"revisions_{self.name}", _final(final_before_us, "tick_us"))
        if self.alarm_table is not None:
            show_alarms(connection, self, final_before_us)
        for output in self.outputs:
            values = (self.name, output.name, output.says, output.name in self.counts)
            connection.execute(f"INSERT INTO outputs VALUES {row(values)}")
        own = {
            "final_before_us": final_before_us,
            "groups": [group.name for group in self.groups],
            "published": store.shown(self.revisions_table),
            "alarms": None if self.alarm_table is None else store.shown(self.changes_table),
        }
        self.write_row(connection, f"({_open(self)})", own)
        if self.periods is not None:
            self.periods.write_open(connection, store)

    def values(self) -> Sequence[str]:
        """Return SELECTs of the newest answers, one for each output."""
        # A list, as a map for each row would take most of the time that reading them takes.
        keys = ", ".join(f"CAST({name(group.name)} AS VARCHAR)" for group in self.groups)
        return [
            f"SELECT {text(self.name)} AS query, {text(output.name)} AS output, [{keys}]::VARCHAR[] AS key_values, "
            f"tick_us, CAST({name(output.name)} AS DOUBLE) AS value, holds "
            f"FROM {name(f'revisions_{self.name}')} WHERE is_newest"
            for output in self.outputs
        ]


def snapshot_of(
    layout: Home,
    query: AggregateQuery,
    streams: Mapping[str, Stream],
    published_us: int | None,
    before: Facts | None = None,
) -> AggregateSnapshot:
    """Return what is published of a query; ``published_us`` back from its newest time, None for all.

    ``before``: its row in the version before.
    """
    shown = [measure for measure in query.measures if measure.is_shown]
    return AggregateSnapshot(
        **shared_fields(layout, query, streams, before, published_us),
        groups=shown_columns(query, query.groups, streams),
        outputs=[_output(query, measure) for measure in shown],
        counts=[measure.name for measure in shown if measure.function == "count"],
        answer_table=layout.answers(query.name),
        alarm_table=layout.alarms(query.name) if query.is_alarm else None,
    )


def _output(query: AggregateQuery, measure: Measure) -> ShownColumn:
    kind = measure_types(query)[measure.name].upper()
    says = f"{measure_in_words(query, measure)} over all join results at the tick."
    return ShownColumn(measure.name, kind, says)


def final_ticks(connection: duckdb.DuckDBPyConnection, snapshot: AggregateSnapshot) -> int | None:
    """Return the time before which ticks are final: as late as streams allow, and before all that waits for repair."""
    passed_us = None if snapshot.time_us is None else snapshot.time_us - snapshot.latest_us + 1
    return final_before(connection, snapshot.sure_before(passed_us), _open(snapshot))


def _revisions(source: str, names: str) -> str:
    return (
        f"SELECT make_timestamp(tick_us) AS tick_at, {names}holds, revision, true AS is_newest, found, batch, tick_us "
        f"FROM {source}"
    )


def _changes(source: str, names: str) -> str:
    return (
        f"SELECT alarm, {names}change, state, make_timestamp(raised_us) AS raised_at, "
        "make_timestamp(cleared_us) AS cleared_at, merged_into, true AS is_newest, found, batch, raised_us, cleared_us "
        f"FROM {source}"
    )


_COUNTED_AS = ShownColumn(
    COUNTED_AS,
    "VARCHAR",
    "What it adds to the answers that a recall counts: online: a complete one; late, repair: one given after its "
    "tick was answered, at once or by the repair; revised ...: one is complete no longer; null: nothing.",
)
_STANDS = {
    "answers": "What {} answers now: newest answers that hold; see queries.",
    "alarms": "The alarms of {} as they stand; see queries.",
}


def _show(
    connection: duckdb.DuckDBPyConnection, snapshot: AggregateSnapshot, what: str, table: str, final: str
) -> None:
    view = name(f"{what}_{snapshot.name}")
    columns = [*snapshot.groups, *(snapshot.outputs if what == "answers" else ())]
    places = {"{table}": name(table), f"{{{what}}}": view, "{names}": _names(columns), "{final}": final}
    connection.execute(filled(f"{what}_view", places))
    comment(connection, "VIEW", view, _STANDS[what].format(snapshot.name))
    comment_columns(connection, (view,), columns)


def show_alarms(
    connection: duckdb.DuckDBPyConnection, snapshot: AggregateSnapshot, final_before_us: int | None
) -> None:
    """Write the view of alarms as they stand."""
    # What was withdrawn never comes back under its name.
    final = f"(state = 'withdrawn' OR state = 'cleared' AND {_final(final_before_us, 'cleared_us')})"
    _show(connection, snapshot, "alarms", f"alarm_changes_{snapshot.name}", final)


def _columns(columns: Sequence[ShownColumn]) -> str:
    return "".join(f"{name(column.name)} {column.type}, " for column in columns)


def _open(snapshot: AggregateSnapshot) -> str:
    """Return SQL for the logged rows that no repair has looked at; each counts at the ticks before its horizon."""
    waiting = open_rows(snapshot, "event_us, horizon_us")
    return f"SELECT event_us FROM ({waiting}) WHERE {_published(snapshot, 'horizon_us - 1')}"


def _names(columns: Sequence[ShownColumn]) -> str:
    return "".join(f"{name(column.name)}, " for column in columns)


def _final(before_us: int | None, time: str) -> str:
    return "false" if before_us is None else f"({time} < {before_us})"


def _published(snapshot: AggregateSnapshot, time: str) -> str:
    return "true" if snapshot.published_from_us is None else f"{time} >= {snapshot.published_from_us}"
