"""Status of a home: versions, quarantine, outcomes of jobs, bridges; reads, never writes."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from lakehouse.config.durations import AHEAD_US
from lakehouse.serving.literals import text
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.serving.table_reader import named_rows
from lakehouse.serving.versions.downloads import kept_versions
from lakehouse.serving.versions.versions import NotPublished, current_version, files_of_version
from lakehouse.storage.control.manifests import Manifests, names_in
from lakehouse.storage.control.outcomes import read_all
from lakehouse.storage.heartbeats import read_heartbeats, service_heartbeat
from lakehouse.storage.layout import Home
from lakehouse.storage.set_aside import read_set_aside

Fields = dict[str, Any]

# Of results of registered queries.
_DOUBTS = "SELECT query, unnest(doubts) AS doubt FROM queries ORDER BY ALL"


def status(home: Path | Home) -> Fields:
    """Return the state of a home as plain values; before the first publish ``published`` is None.

    Cost: one open of the published file, a few small tables; no node is read.
    """
    layout = home if isinstance(home, Home) else Home(home)
    jobs, found = (
        read_all(layout),
        Fields(home=str(layout.root), published=None, streams=[], withheld=[], doubts=[]),
    )
    found |= {"jobs": jobs, "heartbeats": read_heartbeats(layout, datetime.now(UTC))}
    try:
        with open_published(layout) as published:
            found["published"] = _publication(layout, published.connection)
            found["streams"] = _streams(layout, published.connection)
            withheld = named_rows(published.connection, "SELECT * FROM withheld ORDER BY stream")
            found["withheld"] = [row | {"since": _moment(row["since_us"])} for row in withheld]
            found["doubts"] = named_rows(published.connection, _DOUBTS)
    except NotPublished:
        pass
    known = {stream["stream"] for stream in found["streams"]}
    found["streams"] += [
        {"stream": name, "manifests": _manifests(layout, name, 0)}
        for name in _known_streams(layout)
        if name not in known
    ]
    found["service"] = service_heartbeat(layout)
    found["standing"] = standing_of(jobs)
    # Messages that waited on the broker when the last ingest ended well; None for other sources.
    lags = {job["stream"]: job["figures"].get("lag") for job in jobs if job["job"] == "ingest"}
    for stream in found["streams"]:
        stream["lag"] = lags.get(stream["stream"])
        aside = read_set_aside(layout, stream["stream"])
        stream["set_aside"] = [{"batch": a.batch, "place": a.place, "error": a.error} for a in aside]
    return found


@dataclass(frozen=True)
class Contents:
    """The content of a version: the last batch of streams that are not withheld, last batch and repair of queries."""

    published_us: int
    streams: Mapping[str, int]
    queries: Mapping[str, tuple[int, int]]


def published_contents(layout: Home) -> Contents:
    """Return what the current version holds; nothing before the first one."""
    withheld = "(SELECT stream FROM withheld)"
    try:
        with open_published(layout) as published:
            asked = published.connection.execute
            streams = asked(f"SELECT stream, batch FROM streams WHERE stream NOT IN {withheld}").fetchall()
            queries = asked("SELECT query, batches, repairs FROM queries").fetchall()
            ((at_us,),) = asked("SELECT published_us FROM publication").fetchall()
    except NotPublished:
        return Contents(0, {}, {})
    return Contents(at_us, dict(streams), {name: (batch, repair) for name, batch, repair in queries})


def standing_of(jobs: Sequence[Fields]) -> list[Fields]:
    """Return what the last ingest of each stream passed over, a sentence each: files, or a path without any."""
    return [
        {"stream": job["stream"], "what": sentence}
        for job in jobs
        if job["job"] == "ingest"
        for sentence in job["figures"].get("standing", [])
    ]


def _publication(layout: Home, connection: duckdb.DuckDBPyConnection) -> Fields:
    version, published_us = connection.execute("SELECT version, published_us FROM publication").fetchall()[0]
    return {
        "version": version,
        "current": current_version(layout.serving),
        "versions": kept_versions(layout),
        "published_at": _moment(published_us),
        "age_s": round(time.time() - published_us / 1e6, 3),
        "bytes": sum(path.stat().st_size for path in files_of_version(layout.serving, version)),
    }


def _streams(layout: Home, connection: duckdb.DuckDBPyConnection) -> list[Fields]:
    columns = (
        "stream, definition, newest_us, confirmed_us, earliest_us, batch, latest_us, key_names, series_count"
    )
    columns += ", nodes, raw_from_us, retracted, unchecked"
    rows = named_rows(connection, f"SELECT {columns} FROM streams ORDER BY stream")
    return [_stream(layout, connection, row) for row in rows]


def _stream(layout: Home, connection: duckdb.DuckDBPyConnection, fields: Fields) -> Fields:
    name = fields["stream"]
    quarantine = connection.execute(
        f"SELECT reason, records, closed FROM quarantine WHERE stream = {text(name)} ORDER BY records DESC, reason"
    ).fetchall()
    measures = (
        f"SELECT measure, type, decimals, is_counter AS counter, default_agg FROM measures WHERE stream = {text(name)} "
        "AND measure <> '*'"
    )
    return {
        **fields,
        "newest": _moment(fields["newest_us"]),
        "confirmed": _moment(fields["confirmed_us"]),
        "ahead_us": _ahead_us(fields["newest_us"], fields["confirmed_us"]),
        "earliest": _moment(fields["earliest_us"]),
        "raw_from": _moment(fields["raw_from_us"]),
        **_ledger(connection, name, fields["retracted"]),
        "quarantine": {reason: records for reason, records, _ in quarantine if records},
        "open": sum(records for _, records, _ in quarantine),
        "closed": sum(closed for _, _, closed in quarantine),
        "measures": named_rows(connection, measures),
        "levels": _levels(connection, name),
        "schema_changes": _newest(connection, name, "schema_changes", "change"),
        "missing": _missing(connection, name),
        "repeated_files": _newest(connection, name, "repeated_files", "file"),
        "manifests": _manifests(layout, name, fields["batch"]),
    }


def _ahead_us(newest_us: int | None, confirmed_us: int | None) -> int:
    """Return how far the newest row is ahead of what is confirmed; 0 within an ordinary step."""
    ahead = 0 if newest_us is None or confirmed_us is None else newest_us - confirmed_us
    return ahead if ahead > AHEAD_US else 0


def _levels(connection: duckdb.DuckDBPyConnection, stream: str) -> list[Fields]:
    columns = "level, width, keep, width_us, keep_us, horizon_us, nodes, from_us, to_us, entered"
    levels = named_rows(
        connection, f"SELECT {columns} FROM levels WHERE stream = {text(stream)} ORDER BY level"
    )
    times = ("from", "to", "horizon")
    return [level | {name: _moment(level[f"{name}_us"]) for name in times} for level in levels]


def _ledger(connection: duckdb.DuckDBPyConnection, stream: str, retracted: int) -> Fields:
    sums = "received, requeued, accepted, quarantined, duplicates, revised, filtered, late"
    row = connection.execute(
        f"SELECT {', '.join(f'coalesce(sum({name}), 0)::BIGINT' for name in sums.split(', '))}, count(*), "
        "max(max_lateness_us), coalesce(sum(list_sum(map_values(lost))), 0)::BIGINT "
        f"FROM ledger WHERE stream = {text(stream)}"
    ).fetchall()[0]
    fields = dict(zip((*sums.split(", "), "batches", "lateness_max_us", "lost"), row, strict=True))
    bins = connection.execute(
        "SELECT sum(late)::BIGINT FROM (SELECT unnest(lateness) AS late, generate_subscripts(lateness, 1) AS bin "
        f"FROM ledger WHERE stream = {text(stream)}) GROUP BY bin ORDER BY bin"
    ).fetchall()
    histogram = [late for (late,) in bins]
    return fields | {
        "rows": fields["accepted"] - retracted,
        "late_share": fields["late"] / (fields["accepted"] or 1),
        "lateness_p50_us": lateness_quantile(histogram, 0.50, fields["lateness_max_us"]),
        "lateness_p95_us": lateness_quantile(histogram, 0.95, fields["lateness_max_us"]),
    }


def _newest(connection: duckdb.DuckDBPyConnection, stream: str, column: str, shown: str) -> list[Fields]:
    """Return the items of a column of lists of the ledger, newest first."""
    items = f"SELECT batch, unnest({column}) AS {shown} FROM ledger WHERE stream = {text(stream)}"
    return named_rows(connection, f"{items} ORDER BY batch DESC LIMIT 5")


def _missing(connection: duckdb.DuckDBPyConnection, stream: str) -> list[Fields]:
    """Return the columns that lack values: of how many accepted rows how many.

    ``last_with``: the last batch in which a column had values, if it had some once and now has none.
    """
    return named_rows(
        connection,
        f"""
        WITH batches AS (
            SELECT batch, accepted, unnest(map_entries(missing)) AS entry
            FROM ledger WHERE stream = {text(stream)} AND accepted > 0
        ), columns AS (
            SELECT
                entry.key AS "column", sum(entry.value)::BIGINT AS missing, sum(accepted)::BIGINT AS accepted,
                max(batch) AS last, max(batch) FILTER (entry.value < accepted) AS last_with
            FROM batches GROUP BY ALL
        )
        SELECT "column", missing, accepted, CASE WHEN last_with < last THEN last_with END AS last_with
        FROM columns WHERE missing > 0 ORDER BY "column"
        """,
    )


def lateness_quantile(histogram: Sequence[int], share: float, largest_us: int | None) -> int | None:
    """Return how late at most that share of the late rows were: the upper end of the bin where it falls.

    Bin i holds rows late by [2^i, 2^(i+1)) milliseconds, the first one also those below; None without late rows.
    """
    wanted = share * sum(histogram)
    reached = 0
    for index, rows in enumerate(histogram):
        reached += rows
        if rows and reached >= wanted:
            upper: int = 2 ** (index + 1) * 1000
            return upper if largest_us is None else min(upper, largest_us)
    return None


def _manifests(layout: Home, stream: str, batch: int) -> Fields:
    """Return how many batches there are and how many of them are not in the published version yet."""
    last = Manifests(layout.manifests(stream)).last()
    return {"batches": last, "waiting": max(0, last - batch)}


def _known_streams(layout: Home) -> list[str]:
    return names_in(layout, "manifests")


def _moment(time_us: int | None) -> str | None:
    if time_us is None:
        return None
    try:
        return datetime.fromtimestamp(time_us / 1e6, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError):
        return None
