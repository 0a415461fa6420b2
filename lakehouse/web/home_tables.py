"""Tables beside the versions: the state of the home, verdicts of checks, quarantined records.

These change while a version stays, so none of it is kept. Delta tables are read by their files, without Spark, on a
connection that sees no statement of other people.
"""

import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

import duckdb
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from lakehouse.serving.literals import parquet_of, text
from lakehouse.serving.status import status
from lakehouse.serving.table_reader import connected
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.web.formats import Format, Rows, json_bytes, json_value, written
from lakehouse.web.parameters import limits_of
from lakehouse.web.problems import Problem
from lakehouse.web.responses import respond, work_of
from lakehouse.web.security.access import check_all_streams, check_stream, token
from lakehouse.web.security.tokens import Scope
from lakehouse.web.tables import fetched
from lakehouse.web.work import Stop

router = APIRouter(tags=["home"])
_FRESH = {"Cache-Control": "no-store"}
# How many values of a facet are listed.
_FACET = 50
# The folders of an absolute path, which no URL is.
_FOLDERS = re.compile(r"(?<![\w:/.*])/(?:[^\s/'\"`;,]+/)+")


@router.get("/status.json", summary="Streams, lateness, jobs, bridges and the service, as they are now")
async def state(request: Request) -> Response:
    """Return what ``tidemark status --json`` says, without paths."""
    layout, seen = layout_of(request), token(request)

    def work(_: Stop) -> bytes:
        found = status(layout)
        found.pop("home")
        for part in ("streams", "withheld", "jobs", "standing", "heartbeats"):
            found[part] = [one for one in found[part] if seen.sees(one["stream"])]
        if seen.streams is not None:
            # The service names every stream that it works on; a version has the bytes of all.
            found["service"] = None
            found["published"] = found["published"] and found["published"] | {"bytes": None}
        return json_bytes(without_paths(json_value(found)))

    return Response(await work_of(request).run(request, work), headers=_FRESH, media_type="application/json")


def without_paths(value: Any) -> Any:
    """Return a document whose texts hold of each absolute path the last name only.

    >>> without_paths({"error": "/srv/in/a.csv: gone; see s3://bucket/a/b", "n": 1})
    {'error': '…/a.csv: gone; see s3://bucket/a/b', 'n': 1}
    """
    if isinstance(value, dict):
        return {name: without_paths(one) for name, one in value.items()}
    if isinstance(value, list):
        return [without_paths(one) for one in value]
    return _FOLDERS.sub("…/", value) if isinstance(value, str) else value


@router.get("/quality.{format}", summary="Verdicts of the checks, newest first")
async def quality(
    request: Request,
    format: Format,
    stream: str | None = Query(None, max_length=300, description="A stream, or query-NAME."),
    failed: bool = Query(False, description="Only rules that failed."),
    runs: int | None = Query(
        None, ge=1, le=2**31 - 1, description="Only this many newest verdicts of each rule."
    ),
    limit: int = Query(1000, ge=1, description="Most rows."),
) -> Response:
    """Return verdicts, each with its limit and what was observed."""
    if stream is None:
        check_all_streams(request)
    else:
        check_stream(request, stream)
    conditions = [f"stream = {text(stream)}"] if stream else []
    conditions += ["NOT success"] if failed else []
    where = _where(conditions)
    of_rule = 'row_number() OVER (PARTITION BY stream, "table", expectation ORDER BY "at" DESC)'
    where += f" QUALIFY {of_rule} <= {runs}" if runs else ""
    most = min(limit, limits_of(request).rows)
    table = layout_of(request).quality
    return await _answered(
        request,
        format,
        lambda c: _read(c, table, "*", f'{where} ORDER BY "at" DESC, stream, expectation', most),
    )


def _rejected(
    request: Request,
    stream: str,
    reason: str | None = Query(None, max_length=100, description="Only this reason."),
    source_file: str | None = Query(None, max_length=4096, description="Only records of this file."),
    batch: int | None = Query(None, ge=0, le=2**62, description="Only records of this batch."),
    day: date | None = Query(None, description="Only records rejected on this day, UTC."),
) -> list[str]:
    """Return the conditions on a stream's rejected records that a request names."""
    asked = {"reason": reason, "source_file": source_file}
    conditions = [f"{name} = {text(value)}" for name, value in asked.items() if value is not None]
    conditions += [] if batch is None else [f"batch = {batch}"]
    if day is not None:
        check_stream(request, stream, Scope.QUARANTINE)
        ledger = parquet_of(layout_of(request).ledger(_one_folder(stream)))
        of_day = (
            f"SELECT batch FROM {ledger} WHERE committed_at::DATE = DATE '{day}'"
            if ledger
            else "SELECT 0 LIMIT 0"
        )
        conditions.append(f"batch IN ({of_day})")
    return conditions


@router.get("/quarantine/{stream}/facets.json", summary="Rejected records by reason, file, day and batch")
async def facets(request: Request, stream: str, conditions: list[str] = Depends(_rejected)) -> Response:
    """Return how many records were ever rejected, by each of the commonest values of four facets."""
    table = _quarantine(request, stream)
    where = _where(conditions)
    ledger = parquet_of(layout_of(request).ledger(stream))
    # The day on which a record was rejected is that of its batch.
    rows = "FROM stored" if ledger is None else f"FROM stored LEFT JOIN {ledger} AS ledger USING (batch)"
    named = {"reason": "reason", "source_file": "source_file", "batch": "batch"}
    named |= {} if ledger is None else {"day": "committed_at::DATE"}
    union = " UNION ALL ".join(
        f"(SELECT '{name}' AS facet, ({value})::VARCHAR AS value, count(*) AS records {rows} {where} "
        f"GROUP BY ALL ORDER BY records DESC, value LIMIT {_FACET})"
        for name, value in named.items()
    )
    return await _answered(request, Format.JSON, lambda c: _over(c, table, union))


@router.get("/queries/{query}/batches.{format}", summary="Metrics of each batch of a query, newest first")
async def batches(
    request: Request, query: str, format: Format, limit: int = Query(200, ge=1, description="Most batches.")
) -> Response:
    """Return a row per batch: sums over its buckets, the longest of slacks; which columns depends on the kind."""
    check_all_streams(request)
    most, table = min(limit, limits_of(request).rows), layout_of(request).queries(_one_folder(query))
    added = (
        "batch, max(committed_at) AS committed_at, "
        "max(COLUMNS(c -> c IN ('left_slack_us', 'right_slack_us', 'time_us'))), "
        "sum(COLUMNS(c -> c IN ('rows', 'missed', 'held', 'most_held', 'bytes', 'pairs', 'answered', 'revised', "
        "'late', 'selected')))::BIGINT"
    )
    return await _answered(
        request, format, lambda c: _read(c, table, added, "GROUP BY batch ORDER BY batch DESC", most)
    )


@router.get(
    "/queries/{query}/operators.{format}", summary="Conditions and kernels of a query, as last measured"
)
async def operators(request: Request, query: str, format: Format) -> Response:
    """Return a row per operator of the newest batch, in the order in which the next batch runs them."""
    check_all_streams(request)
    layout, name = layout_of(request), _one_folder(query)
    is_selection = layout.selection(name).is_dir()
    table = layout.queries(name) if is_selection else layout.operators(name)
    newest = (
        "WHERE batch = (SELECT max(batch) FROM stored) AND operator >= 0 ORDER BY side NULLS LAST, position"
    )
    shown = "side, operator, name, position, taken, passed, busy_us, selectivity, waited"

    def read(connection: duckdb.DuckDBPyConnection) -> Rows:
        # A query that calls no predicate has batches, and no operators of its own.
        if parquet_of(table) is None and parquet_of(layout.queries(name)) is not None:
            names = shown.split(", ")
            return Rows(names, ["VARCHAR"] * len(names), [], {"truncated": False})
        return _read(connection, table, shown, newest, _FACET)

    return await _answered(request, format, read)


@router.get("/quarantine/{stream}.{format}", summary="Rejected records with their bytes, newest batch first")
async def quarantine(
    request: Request,
    stream: str,
    format: Format,
    conditions: list[str] = Depends(_rejected),
    before: int | None = Query(None, le=2**62, description="Only batches before this one."),
    limit: int = Query(100, ge=1, description="Most records."),
) -> Response:
    """Return rejected records, the first 4,096 bytes of each escaped; those that were requeued since too."""
    table = _quarantine(request, stream)
    conditions += [] if before is None else [f"batch < {before}"]
    where = _where(conditions)
    place = "source_file, source_line, source_item"
    shown = f"batch, reason, detail, record[1:4096] AS record, octet_length(record) AS bytes, {place}"
    order = f"{where} ORDER BY batch DESC, {place}"
    most = min(limit, limits_of(request).rows)
    return await _answered(request, format, lambda c: _escaped(_read(c, table, shown, order, most)))


def _where(conditions: Sequence[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def _escaped(found: Rows) -> Rows:
    """Return rejected records with their bytes as text: what nobody could read, or would obey, as an escape."""
    place = list(found.columns).index("record")
    rows = [[*row[:place], escaped(row[place]), *row[place + 1 :]] for row in found.rows]
    types = [*found.types[:place], "VARCHAR", *found.types[place + 1 :]]
    return Rows(found.columns, types, rows, found.about)


def escaped(record: bytes | None) -> str | None:
    r"""Return bytes as printable text; other bytes and characters are escaped.

    >>> escaped(b'{"a": "\xc3\xa9\xff\x1b[0m"}')
    '{"a": "é\\xff\\x1b[0m"}'
    """
    if record is None:
        return None
    text = record.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def _quarantine(request: Request, stream: str) -> Location:
    """Return the table of a stream's rejected records."""
    check_stream(request, stream, Scope.QUARANTINE)
    return layout_of(request).quarantine(_one_folder(stream))


def _one_folder(name: str) -> str:
    """Return the name of a stream or query, which is one folder and not a way to others.

    Raises Problem: 404 where it is.
    """
    if "/" in name or name in ("", ".", ".."):
        raise Problem(404, "Not found", "no stream or query has such a name")
    return name


def layout_of(request: Request) -> Home:
    """Return the home that the application shows."""
    found: Home = request.app.state.layout
    return found


async def _answered(
    request: Request, form: Format, read: Callable[[duckdb.DuckDBPyConnection], Rows]
) -> Response:
    def work(stop: Stop) -> Any:
        with connected(layout_of(request).tables, {"threads": 1, "memory_limit": "512MB"}) as connection:
            stop.by(connection.interrupt)
            return written(read(connection), form)

    return respond(await work_of(request).run(request, work), form, _FRESH)


def _read(
    connection: duckdb.DuckDBPyConnection, table: Location, columns: str, rest: str, limit: int
) -> Rows:
    found = _over(connection, table, f"SELECT {columns} FROM stored {rest} LIMIT {limit + 1}")
    about = {**found.about, "truncated": len(found.rows) > limit}
    return Rows(found.columns, found.types, found.rows[:limit], about)


def _over(connection: duckdb.DuckDBPyConnection, table: Location, statement: str) -> Rows:
    """Return what a statement finds in a Delta table, which it calls ``stored``."""
    files = parquet_of(table)
    if files is None:
        raise Problem(404, "Not found", f"there is no table {table.name!r} here yet, or it has no rows")
    return fetched(connection, f"WITH stored AS (FROM {files}) {statement}")
