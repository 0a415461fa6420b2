"""What is published of a join-aggregate: its answers with every revision, its alarms, its row in ``queries``.

Cost: one sort of its answers; memory as DuckDB needs, it spills.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.queries.aggregate.describe import measure_in_words
from lakehouse.queries.aggregate.query import AggregateQuery, Measure
from lakehouse.queries.runtime.batch_metrics import is_finished, read_batch_metrics
from lakehouse.queries.runtime.snapshot import (
    files_of,
    filled,
    final_before,
    open_rows,
    shared_fields,
    shown_columns,
)
from lakehouse.serving.file.comments import comment, comment_columns
from lakehouse.serving.file.query_snapshot import QuerySnapshot, ShownColumn
from lakehouse.serving.literals import literal, name, parquet, row, text

if TYPE_CHECKING:
    import duckdb

_COUNTS = ("rows", "answered", "revised", "late", "missed", "refused", "unusable")
_METRICS = ("batch", "bucket", *_COUNTS, "time_us", "newest_us")


@dataclass(frozen=True, kw_only=True)
class AggregateSnapshot(QuerySnapshot):
    """A join-aggregate as it is to be published.

    ``groups`` are the columns of GROUP BY, ``outputs`` the aggregates of SELECT, of which ``counts`` count: those are 0
    where nothing joins. ``alarm_files`` is None for a query that raises none.
    """

    statements = ("answers", "alarms")
    every_us: int
    slack_us: int
    method: str
    groups: Sequence[ShownColumn]
    outputs: Sequence[ShownColumn]
    counts: Sequence[str]
    answered: int
    revised: int
    late: int
    answer_files: Sequence[Path]
    alarm_files: Sequence[Path] | None

    def write(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Write everything of the query."""
        final_before_us = final_ticks(connection, self)
        _write_revisions(connection, self, final_before_us)
        if self.alarm_files is not None:
            write_alarms(connection, self, final_before_us)
        for output in self.outputs:
            values = (self.name, output.name, output.says, output.name in self.counts)
            connection.execute(f"INSERT INTO outputs VALUES {row(values)}")
        same = ("answered", "revised", "late", "every_us", "slack_us", "method")
        own = {column: getattr(self, column) for column in same} | {"final_before_us": final_before_us}
        own["groups"] = [group.name for group in self.groups]
        counted = {"published": f"FROM {name(f'answers_{self.name}')}", "open": f"FROM ({_open(self)})"}
        if self.alarm_files is not None:
            counted["alarms"] = f"FROM {name(f'alarms_{self.name}')} WHERE state = 'raised'"
        self.write_row(connection, own, counted)

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
    layout: Home, query: AggregateQuery, streams: Mapping[str, Stream], published_us: int | None
) -> AggregateSnapshot:
    """Return what is published of a query; ``published_us`` back from its newest time, None for all."""
    # Before the files, so that these have all that the metrics speak of.
    metrics = read_batch_metrics(layout, query.name, _METRICS)
    newest = [time for row in metrics.rows for time in row["newest_us"]]
    fields = shared_fields(layout, query, streams, metrics, newest, published_us, query.every_us)
    rows = [f"{side.stream}: one of GROUP BY" for side in query.sides]
    shown = [measure for measure in query.measures if measure.is_shown]
    return AggregateSnapshot(
        **fields,
        every_us=query.every_us,
        slack_us=query.slack_us,
        method=query.method,
        groups=shown_columns(query, query.groups, streams, rows),
        outputs=[_output(query, measure) for measure in shown],
        counts=[measure.name for measure in shown if measure.function == "count"],
        answered=metrics.total("answered"),
        revised=metrics.total("revised"),
        late=metrics.total("late"),
        answer_files=files_of(layout.answers(query.name)),
        alarm_files=files_of(layout.alarms(query.name)) if query.is_alarm else None,
    )


def _output(query: AggregateQuery, measure: Measure) -> ShownColumn:
    kind = "BIGINT" if measure.function == "count" else "DOUBLE"
    says = f"{measure_in_words(query, measure)} over all join results at the tick."
    return ShownColumn(measure.name, kind, says)


def final_ticks(connection: duckdb.DuckDBPyConnection, snapshot: AggregateSnapshot) -> int | None:
    """Return the time before which ticks are final: as late as streams allow, and before all that waits for repair."""
    passed_us = None if snapshot.time_us is None else snapshot.time_us - snapshot.latest_us + 1
    return final_before(connection, passed_us, _open(snapshot))


def revisions(snapshot: AggregateSnapshot) -> str:
    """Return SQL for all finished answers that are published, each with whether it is the newest; there are files."""
    return f"""
        SELECT make_timestamp(tick_us) AS tick_at, {_names([*snapshot.groups, *snapshot.outputs])}holds, revision,
            revision = max(revision) OVER (PARTITION BY {_names(snapshot.groups)}tick_us) AS is_newest,
            found, batch, tick_us
        FROM {parquet(snapshot.answer_files)}
        WHERE {is_finished(snapshot.batches, snapshot.repairs)} AND {_published(snapshot, "tick_us")}
    """


def changes(snapshot: AggregateSnapshot) -> str:
    """Return SQL for all finished changes of published alarms, each with whether it is the newest; there are files."""
    since = literal(snapshot.published_from_us)
    ended = f"CASE state WHEN 'raised' THEN {since} ELSE ifnull(cleared_us, raised_us) END"
    return f"""
        SELECT alarm, {_names(snapshot.groups)}change, state, make_timestamp(raised_us) AS raised_at,
            make_timestamp(cleared_us) AS cleared_at, merged_into,
            change = max(change) OVER (PARTITION BY alarm) AS is_newest, found, batch, raised_us, cleared_us
        FROM {parquet(snapshot.alarm_files or ())} WHERE {is_finished(snapshot.batches, snapshot.repairs)}
        QUALIFY {_published(snapshot, f"max_by({ended}, change) OVER (PARTITION BY alarm)")}
    """


def _write_revisions(
    connection: duckdb.DuckDBPyConnection, snapshot: AggregateSnapshot, final_before_us: int | None
) -> None:
    table, view = name(f"revisions_{snapshot.name}"), name(f"answers_{snapshot.name}")
    columns = [*snapshot.groups, *snapshot.outputs]
    places = {
        "{revisions}": table,
        "{answers}": view,
        "{columns}": "".join(f"{name(column.name)} {column.type}, " for column in columns),
        "{names}": _names(columns),
        "{final}": _final(final_before_us, "tick_us"),
    }
    connection.execute(filled("answers", places))
    comment(
        connection,
        "TABLE",
        table,
        f"Every answer of {snapshot.name}, also those that were revised; see queries.",
    )
    says = f"What {snapshot.name} answers now: newest answers that hold; see queries."
    comment(connection, "VIEW", view, says)
    comment_columns(connection, (table, view), columns)
    if snapshot.answer_files:
        order = f"tick_us, {_names(snapshot.groups)}revision"
        connection.execute(f"INSERT INTO {table} BY NAME {revisions(snapshot)} ORDER BY {order}")


def write_alarms(
    connection: duckdb.DuckDBPyConnection, snapshot: AggregateSnapshot, final_before_us: int | None
) -> None:
    """Write the alarms of one query, with every change."""
    table, view = name(f"alarm_changes_{snapshot.name}"), name(f"alarms_{snapshot.name}")
    over = _final(final_before_us, "cleared_us")
    places = {
        "{changes}": table,
        "{alarms}": view,
        "{columns}": "".join(f"{name(group.name)} {group.type}, " for group in snapshot.groups),
        "{names}": _names(snapshot.groups),
        # What was withdrawn never comes back under its name.
        "{final}": f"(state = 'withdrawn' OR state = 'cleared' AND {over})",
    }
    connection.execute(filled("alarms", places))
    comment(connection, "TABLE", table, f"Every change of the alarms of {snapshot.name}; see queries.")
    comment(connection, "VIEW", view, f"The alarms of {snapshot.name} as they stand; see queries.")
    comment_columns(connection, (table, view), snapshot.groups)
    if snapshot.alarm_files:
        connection.execute(
            f"INSERT INTO {table} BY NAME {changes(snapshot)} ORDER BY raised_us, alarm, change"
        )


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
