"""Tables of a version beside answers: streams, keys, the ledger, queries and their results, page by page.

Pages are cut by key, not by number: ``next`` says where the following page begins, in whichever version.
"""

from typing import Any

import duckdb
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from lakehouse.serving.ask.question import unknown
from lakehouse.serving.ask.waits import WAITS, waits_over_time
from lakehouse.serving.literals import name as quoted
from lakehouse.serving.literals import text
from lakehouse.serving.sandbox.sandbox import PublishedReader
from lakehouse.web.formats import Format, Rows
from lakehouse.web.parameters import BEGINNING_US, END_US, limits_of, microseconds_of
from lakehouse.web.problems import Problem
from lakehouse.web.responses import Asked, At, answered
from lakehouse.web.security.access import check_all_streams, check_stream, token

# What can be read of a query, and the column that its rows are sorted by.
_FOUND = {
    "pairs": "event_us",
    "multiway": "event_us",
    "selection": "event_us",
    "answers": "tick_us",
    "revisions": "tick_us",
    "alarms": "raised_us",
    "alarm_changes": "raised_us",
}
# More stretches of event time than this say nothing more.
_STRETCHES = 240

router = APIRouter(tags=["tables"])


@router.get("/streams.{format}", summary="Streams with keys, measures, levels and counts")
async def streams(request: Request, format: Format, at: At = Asked) -> Response:
    """Return a row per stream that the token may see."""
    seen = token(request).streams
    return await answered(request, at, format, seen, lambda reader: _streams(reader, seen))


@router.get("/streams/{stream}/keys/{key}.{format}", summary="Values of a key, sorted")
async def key_values(
    request: Request,
    stream: str,
    key: str,
    format: Format,
    after: str | None = Query(None, description="Only values after this one."),
    limit: int = Query(1000, ge=1, description="Most values."),
    at: At = Asked,
) -> Response:
    """Return the values of one key, page by page."""
    check_stream(request, stream)
    most = min(limit, limits_of(request).rows)
    return await answered(
        request,
        at,
        format,
        (stream, key, after, most),
        lambda reader: key_rows(reader, stream, key, after, most),
    )


@router.get("/ledger.{format}", summary="Ingest batches of a stream, newest first")
async def ledger(
    request: Request,
    format: Format,
    stream: str = Query(description="A published stream."),
    before: int | None = Query(None, le=2**62, description="Only batches before this one."),
    limit: int = Query(1000, ge=1, description="Most batches."),
    at: At = Asked,
) -> Response:
    """Return a row per ingest batch: in = accepted + quarantined + duplicates."""
    check_stream(request, stream)
    most = min(limit, limits_of(request).rows)
    return await answered(
        request, at, format, (stream, before, most), lambda reader: _ledger(reader, stream, before, most)
    )


@router.get("/queries.{format}", summary="Registered queries, how far they and their repairs have come")
async def queries(request: Request, format: Format, at: At = Asked) -> Response:
    """Return a row per registered query that has run."""
    check_all_streams(request)
    return await answered(
        request, at, format, None, lambda reader: rows_of(reader, "FROM queries ORDER BY query")
    )


@router.get("/queries/{query}/{found}.{format}", summary="What a query found, page by page")
async def found_rows(
    request: Request,
    query: str,
    found: str,
    format: Format,
    start: str = Query("", alias="from", max_length=40, description="Start: ISO, or 1767225600000000us."),
    end: str = Query("", alias="to", max_length=40, description="End, excluded."),
    after: str = Query("", max_length=60, description="`next` of the previous page."),
    limit: int = Query(1000, ge=1, description="Most rows."),
    at: At = Asked,
) -> Response:
    """Return rows of one table of a query, in order of time, page by page."""
    check_all_streams(request)
    between = microseconds_of(start, "from", BEGINNING_US), microseconds_of(end, "to", END_US)
    most, place = min(limit, limits_of(request).rows), _place(after)
    return await answered(
        request,
        at,
        format,
        (query, found, between, place, most),
        lambda reader: _found(reader, query, found, between, place, most),
    )


def rows_of(reader: PublishedReader, statement: str, **about: Any) -> Rows:
    """Return what a statement of ours finds in a version."""
    return fetched(reader.connection, statement, version=reader.version, **about)


def fetched(connection: duckdb.DuckDBPyConnection, statement: str, **about: Any) -> Rows:
    """Return what a statement of ours finds."""
    done = connection.execute(statement)
    columns = done.description or []
    types = [str(column[1]) for column in columns]
    return Rows([column[0] for column in columns], types, done.fetchall(), {"truncated": False, **about})


def _streams(reader: PublishedReader, seen: tuple[str, ...] | None) -> Rows:
    ((published_us,),) = reader.connection.execute("SELECT published_us FROM publication").fetchall()
    only = "" if seen is None else f"WHERE stream IN ({', '.join(map(text, seen)) or 'NULL'})"
    return rows_of(
        reader,
        f"""
        SELECT stream, earliest_us, newest_us, confirmed_us - latest_us AS final_before_us, key_names,
            (SELECT list(measure ORDER BY measure) FROM measures WHERE stream = s.stream AND measure <> '*')
                AS measures,
            (SELECT list(default_agg ORDER BY measure) FROM measures WHERE stream = s.stream AND measure <> '*')
                AS default_aggs,
            (SELECT list(measure ORDER BY measure) FROM measures WHERE stream = s.stream AND is_counter) AS counters,
            (SELECT list(width_us ORDER BY level) FROM levels WHERE stream = s.stream) AS widths_us,
            (SELECT list(coalesce(horizon_us, {-(2**62)}) ORDER BY level) FROM levels WHERE stream = s.stream)
                AS horizons_us,
            batch, series_count, nodes, raw_from_us, retracted, unchecked, counts.* EXCLUDE (stream)
        FROM streams s LEFT JOIN (
            SELECT stream, sum(received)::BIGINT AS received, sum(requeued)::BIGINT AS requeued,
                sum(accepted)::BIGINT AS accepted, sum(quarantined)::BIGINT AS quarantined,
                sum(duplicates)::BIGINT AS duplicates, sum(revised)::BIGINT AS revised, sum(late)::BIGINT AS late
            FROM ledger GROUP BY ALL
        ) counts USING (stream) {only} ORDER BY stream
        """,
        published_us=published_us,
    )


def key_rows(reader: PublishedReader, stream: str, key: str, after: str | None, limit: int) -> Rows:
    """Return the values of a key in their order, from the grouping with the fewest keys that has it."""
    found = reader.connection.execute(
        f"SELECT groupings FROM ladder WHERE stream = {text(stream)} LIMIT 1"
    ).fetchone()
    groupings = [one for one in (found[0] if found else []) if key in one["key_names"]]
    if not groupings:
        known = reader.connection.execute(
            f"SELECT key_names FROM streams WHERE stream = {text(stream)}"
        ).fetchone()
        what, among = ("stream", []) if known is None else (f"key of {stream}", known[0])
        raise Problem(404, "Not found", unknown(what, f"{stream}.{key}" if known is None else key, among))
    place = groupings[0]["key_names"].index(key) + 1
    later = (
        "" if after is None else f"AND (key_values[{place}] > {text(after)} OR key_values[{place}] IS NULL)"
    )
    rows = rows_of(
        reader,
        f"SELECT DISTINCT key_values[{place}] AS value FROM series WHERE grouping_id = {groupings[0]['id']} {later} "
        f"ORDER BY value NULLS LAST LIMIT {limit + 1}",
    )
    return _page(rows, limit, lambda last: last[0])


def _ledger(reader: PublishedReader, stream: str, before: int | None, limit: int) -> Rows:
    earlier = "" if before is None else f"AND batch < {before}"
    rows = rows_of(
        reader, f"FROM ledger WHERE stream = {text(stream)} {earlier} ORDER BY batch DESC LIMIT {limit + 1}"
    )
    return _page(rows, limit, lambda last: last[1])


def _page(found: Rows, limit: int, place: Any) -> Rows:
    """Return the first rows of one more than a page, and where the next page begins."""
    rows, is_more = found.rows[:limit], len(found.rows) > limit
    about = {**found.about, "truncated": is_more, "next": place(rows[-1]) if is_more else None}
    return Rows(found.columns, found.types, rows, about)


def _place(after: str) -> tuple[int, int] | None:
    """Return time and number of rows at that time that were shown already."""
    if not after:
        return None
    time, _, seen = after.partition(".")
    if not (time.removeprefix("-").isdigit() and seen.isdigit() and len(after) < 40):
        raise Problem(400, "Wrong parameter", "after: expected `next` of the page before")
    return int(time), int(seen)


def _found(
    reader: PublishedReader,
    query: str,
    found: str,
    between: tuple[int, int],
    place: tuple[int, int] | None,
    limit: int,
) -> Rows:
    if found == "completeness":
        check_query(reader, query)
        return rows_of(reader, f"FROM completeness_of({text(query)}) LIMIT {limit}")
    if found == "waits":
        return _waits(reader, query, limit)
    table, by = _table(reader, query, found), _FOUND[found]
    first_us, seen = place or (between[0], 0)
    rows = rows_of(
        reader,
        f"SELECT {by} AS page_us, * FROM {quoted(table)} WHERE {by} >= {max(first_us, between[0])} "
        f"AND {by} < {between[1]} ORDER BY ALL LIMIT {limit + 1} OFFSET {seen}",
    )
    shown = [row[1:] for row in rows.rows[:limit]]
    about = {**rows.about, "truncated": len(rows.rows) > limit, "next": None}
    if len(rows.rows) > limit:
        last = rows.rows[limit - 1][0]
        same = sum(row[0] == last for row in rows.rows[:limit])
        about["next"] = f"{last}.{same + (seen if place and last == place[0] else 0)}"
    return Rows(rows.columns[1:], rows.types[1:], shown, about)


def _waits(reader: PublishedReader, query: str, limit: int) -> Rows:
    """Return how long repaired pairs waited, in at most ``limit`` stretches of event time."""
    pairs = quoted(_table(reader, query, "pairs"))
    rows = waits_over_time(reader.connection, pairs, min(limit, _STRETCHES))
    types = {"from_us": "BIGINT", "to_us": "BIGINT", "pairs": "BIGINT", "repaired": "BIGINT"}
    types |= dict.fromkeys(WAITS, "DOUBLE")
    shown = [[row[name] for name in types] for row in rows]
    return Rows(list(types), list(types.values()), shown, {"version": reader.version, "truncated": False})


def _table(reader: PublishedReader, query: str, found: str) -> str:
    """Return the table of what a query found. Raises Problem: 404, naming what there is."""
    check_query(reader, query)
    if found not in _FOUND:
        raise Problem(
            404, "Not found", unknown("table of a query", found, (*_FOUND, "completeness", "waits"))
        )
    tables = {f"{kind}_{query}": kind for kind in _FOUND}
    listed = ", ".join(map(text, tables))
    there = reader.connection.execute(
        f"SELECT table_name FROM information_schema.tables WHERE table_name IN ({listed})"
    ).fetchall()
    kinds = sorted(tables[one] for (one,) in there)
    if found not in kinds:
        raise Problem(404, "Not found", unknown(f"table of {query}", found, kinds))
    return f"{found}_{query}"


def check_query(reader: PublishedReader, query: str) -> None:
    """Refuse a query that is not published. Raises Problem: 404, naming those that are."""
    names = [row[0] for row in reader.connection.execute("SELECT query FROM queries ORDER BY 1").fetchall()]
    if query not in names:
        raise Problem(404, "Not found", unknown("published query", query, names))
