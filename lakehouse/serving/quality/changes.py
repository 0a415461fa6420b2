"""Rules that hold no longer, and those that hold again, by the history of checks: each change once.

A rule that no longer is declared while it fails ends, too. Cost: the runs after the last one whose changes are known,
and two columns of the history of ``MOST_DAYS`` days.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import duckdb

from lakehouse.config.durations import iso_timestamp
from lakehouse.serving.literals import parquet_of, text
from lakehouse.serving.quality.verdicts import DAY_US, MOST_DAYS, WARNINGS, moment
from lakehouse.storage.stores.store_path import Location

# What deliveries of these changes stand under, where those of alarms have the name of their query.
RULES = "rules:"
Fields = dict[str, Any]
_BROKEN = "{'expectation': expectation, 'says': says, 'observed': observed, 'seen': seen}"


def newest_runs(connection: duckdb.DuckDBPyConnection, table: Location) -> Mapping[str, int]:
    """Return when each stream and query was last checked."""
    stored = parquet_of(table)
    if stored is None:
        return {}
    return dict(
        connection.execute(f'SELECT stream, epoch_us(max("at")) FROM {stored} GROUP BY stream').fetchall()
    )


def changes_between(
    connection: duckdb.DuckDBPyConnection,
    table: Location,
    subject: str,
    after_us: int | None,
    through_us: int,
) -> Iterator[Fields]:
    """Yield the changes of a subject's rules after one time, up to and with another, in order.

    Without ``after_us`` the rules that do not hold now: what came before nobody waits for.
    """
    known_us = through_us if after_us is None else after_us
    since = moment(known_us - MOST_DAYS * DAY_US)
    of_subject = f'stream = {text(subject)} AND "at" BETWEEN {since} AND {moment(through_us)}'
    runs = connection.execute(
        f"WITH stored AS (FROM {parquet_of(table)} WHERE {of_subject}), "
        f'newest AS (SELECT "table", max("at") FROM stored WHERE "at" <= {moment(known_us)} GROUP BY "table") '
        f'SELECT "table", epoch_us("at") AS at_us, list({_BROKEN}) FILTER (NOT success) FROM stored '
        f'WHERE "at" > {moment(known_us)} OR ("table", "at") IN (FROM newest) GROUP BY ALL ORDER BY at_us, "table"'
    )
    broken: dict[str, dict[str, Fields]] = {}
    while run := runs.fetchone():
        of_table, at_us, rows = run
        now = {row["expectation"]: row for row in rows or ()}
        before = broken.get(of_table, {})
        broken[of_table] = now
        if after_us is not None and at_us <= after_us:
            continue
        state = "warns" if of_table in WARNINGS else "fails"
        yield from (
            _change(subject, of_table, row, state, at_us) for name, row in now.items() if name not in before
        )
        yield from (
            _change(subject, of_table, row, "holds", at_us) for name, row in before.items() if name not in now
        )


def _change(subject: str, table: str, row: Fields, state: str, at_us: int) -> Fields:
    seen = {"observed": row["observed"], "seen": row["seen"]} if state != "holds" else {}
    named = {"stream": subject, "rule": f"{table}.{row['expectation']}", "says": row["says"], "state": state}
    return named | seen | {"at": iso_timestamp(at_us), "at_us": at_us}
