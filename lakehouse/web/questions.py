"""``ask``, ``series`` and ``sql``: the questions that the command line answers, over HTTP."""

from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Body, Depends, Query, Request
from starlette.responses import Response

from lakehouse.serving.ask.arrivals import arrivals
from lakehouse.serving.ask.ask import answers, unknown_keys
from lakehouse.serving.ask.doubt import doubts
from lakehouse.serving.ask.missing import missing_of
from lakehouse.serving.ask.question import INCREASE, Question, with_default, withheld_of
from lakehouse.serving.ask.series import Series, series, series_by
from lakehouse.serving.sandbox.guard import LONGEST_STATEMENT
from lakehouse.serving.sandbox.sandbox import PublishedReader, run_sql
from lakehouse.web.formats import Format, Rows, written
from lakehouse.web.parameters import SeriesQuestion, limits_of, one_more, question, series_question
from lakehouse.web.responses import Asked, At, answered, respond, versions_of, work_of
from lakehouse.web.security.access import check_all_streams, note
from lakehouse.web.security.tokens import Scope
from lakehouse.web.work import Stop

_VALUE = {
    **dict.fromkeys(("value", "low", "high"), "DOUBLE"),
    **{"exact": "BOOLEAN", "exact_value": "DECIMAL", "final": "BOOLEAN", "rows": "BIGINT"},
}
_ANSWER = {
    **_VALUE,
    "rows_low": "BIGINT",
    "rows_high": "BIGINT",
    "nodes_read": "BIGINT",
    "finest_granularity_us": "BIGINT",
    "as_of_version": "INTEGER",
    "grouping": "VARCHAR[]",
    "key": "MAP(VARCHAR, VARCHAR)",
    "unchecked": "BIGINT",
    "ambiguous": "BIGINT",
}
_BUCKET = {
    "from_us": "BIGINT",
    "to_us": "BIGINT",
    **_VALUE,
    "finest_granularity_us": "BIGINT",
    "key": "MAP(VARCHAR, VARCHAR)",
}
_ARRIVALS = {"from_us": "BIGINT", "to_us": "BIGINT", "rows": "BIGINT", "late": "BIGINT", "expected": "DOUBLE"}

router = APIRouter(tags=["questions"])


@router.get("/ask.{format}", summary="An aggregate over a range, with its interval")
async def ask(
    request: Request, format: Format, asked: Question = Depends(question), at: At = Asked
) -> Response:
    """Return what ``tidemark ask`` says: one row, or one per key of ``by``."""
    return await answered(
        request, at, format, asked, lambda reader: ask_rows(reader, asked), keep=not asked.exact
    )


@router.get("/series.{format}", summary="An aggregate over equal buckets of a range, with intervals")
async def bucket_series(
    request: Request, format: Format, asked: SeriesQuestion = Depends(series_question), at: At = Asked
) -> Response:
    """Return what ``tidemark plot`` draws: a row per bucket, series by series."""
    return await answered(request, at, format, asked, lambda reader: series_rows(reader, asked))


@router.get(
    "/arrivals.{format}", summary="Rows per bucket: held, late, and an estimate of those still to come"
)
async def bucket_arrivals(
    request: Request, format: Format, asked: SeriesQuestion = Depends(series_question), at: At = Asked
) -> Response:
    """Return a row per bucket; ``late`` is counted from raw rows, and null where those are kept no longer.

    Measure, aggregate and ``by`` do not matter.
    """
    return await answered(request, at, format, asked, lambda reader: arrival_rows(reader, asked), keep=False)


@router.get("/sql.{format}", summary="One SELECT in the sandbox; what it says may depend on the time")
async def sql(
    request: Request,
    format: Format,
    q: str = Query(max_length=LONGEST_STATEMENT, description="One SELECT."),
    limit: int | None = Query(None, ge=1, description="Most rows."),
    at: At = Asked,
) -> Response:
    """Return what ``tidemark sql`` says; never kept, as a statement may ask for the time."""
    return await _sql(request, at, format, q, limit)


@router.post("/sql.{format}", summary="The same, with the statement as the body")
async def sql_of_body(
    request: Request,
    format: Format,
    q: str = Body(media_type="text/plain", max_length=LONGEST_STATEMENT),
    limit: int | None = Query(None, ge=1, description="Most rows."),
    at: At = Asked,
) -> Response:
    """Return the same for a statement that is longer than an address may be."""
    note(request, {"q": q})
    return await _sql(request, at, format, q, limit)


async def _sql(request: Request, at: At, form: Format, text: str, limit: int | None) -> Response:
    check_all_streams(request, Scope.SQL)
    limits = limits_of(request)
    most = min(limit or limits.rows, limits.rows)

    def work(stop: Stop) -> Any:
        with versions_of(request).reader(at.version) as reader:
            found = run_sql(reader, text, most, _statement_s(limits.timeout_s), stop.by)
        about = {"version": at.version, "truncated": found.truncated}
        return written(Rows(found.columns, found.types, found.rows, about), form)

    content = await work_of(request).run(request, work, is_statement=True)
    return respond(content, form, {"Cache-Control": "no-store", "Tidemark-Version": str(at.version)})


def _statement_s(timeout_s: float) -> float:
    """Return the seconds of a statement where an answer has so many: its sandbox ends it first, and says more.

    >>> _statement_s(10.0), _statement_s(1.0)
    (9.0, 0.5)
    """
    return max(timeout_s - 1, timeout_s / 2)


def ask_rows(reader: PublishedReader, asked: Question) -> Rows:
    """Return the answers to a question, a row for each, in the order of their keys."""
    asked = with_default(reader.connection, asked)
    found = answers(reader, one_more(asked))
    is_more = asked.limit is not None and len(found) > asked.limit
    rows = [[getattr(one, name) for name in _ANSWER] for one in found[: asked.limit]]
    about = {"version": reader.version, "question": question_document(asked), "truncated": is_more}
    # Of answers that are cut off, the rows behind them cannot be told from those of the others.
    missing = None if is_more else missing_of(reader.connection, replace(asked, limit=None), found)
    about["missing"] = missing.missing if missing else None if is_more else 0
    about["withheld"] = withheld_of(reader.connection, asked.stream)
    about["doubts"] = doubts(reader.connection, asked, found)
    notes = [missing.sentence] if missing else []
    if asked.where and not any(one.rows for one in found):
        notes += unknown_keys(reader, asked.stream, asked.measure, asked.where, timeout_s=None)
    if notes:
        about["notes"] = notes
    return Rows(list(_ANSWER), list(_ANSWER.values()), rows, about)


def series_rows(reader: PublishedReader, asked: SeriesQuestion) -> Rows:
    """Return the buckets of all series, a row for each, series by series."""
    found = series_of(reader, asked)
    rows = [
        [getattr(bucket, name) if name != "key" else one.key for name in _BUCKET]
        for one in found
        for bucket in one.buckets
    ]
    about = {
        "version": reader.version,
        "question": question_document(
            found[0].question if found else with_default(reader.connection, asked.question)
        ),
        "points": asked.points,
        "grouping": found[0].grouping if found else [],
        "nodes_read": found[0].nodes_read if found else 0,
        "truncated": len(found) == asked.question.limit and _has_more(reader, found[0].question),
        "withheld": withheld_of(reader.connection, asked.question.stream),
    }
    return Rows(list(_BUCKET), list(_BUCKET.values()), rows, about)


def _has_more(reader: PublishedReader, asked: Question) -> bool:
    """True if more keys have rows in the range than the limit lets through."""
    counted = replace(asked, aggregate="count", limit=None) if asked.aggregate != INCREASE else asked
    return len(answers(reader, one_more(replace(counted, limit=asked.limit)))) > (asked.limit or 0)


def arrival_rows(reader: PublishedReader, asked: SeriesQuestion) -> Rows:
    """Return the rows that came in, a row for each bucket; the server watches the time."""
    one, between = asked.question, (asked.start_us, asked.end_us, asked.points)
    found = arrivals(reader, one.stream, *between, one.where, timeout_s=None)
    rows = [[getattr(bucket, name) for name in _ARRIVALS] for bucket in found]
    withheld = withheld_of(reader.connection, one.stream)
    about = {"version": reader.version, "truncated": False, "withheld": withheld}
    return Rows(list(_ARRIVALS), list(_ARRIVALS.values()), rows, about)


def series_of(reader: PublishedReader, asked: SeriesQuestion) -> list[Series]:
    """Return the series of a question; one without ``by``. The server watches the time."""
    one = asked.question
    between = (asked.start_us, asked.end_us, asked.points, one.where)
    if one.by:
        what = (one.stream, one.measure, one.aggregate, one.by)
        return series_by(reader, *what, *between, one.limit, timeout_s=None)
    return [series(reader, one.stream, one.measure, one.aggregate, *between, timeout_s=None)]


def question_document(asked: Question) -> dict[str, Any]:
    """Return a question as it was understood."""
    return {
        "stream": asked.stream,
        "measure": asked.measure,
        "agg": asked.aggregate,
        "from_us": asked.start_us,
        "to_us": asked.end_us,
        "where": asked.where,
        "by": list(asked.by),
        "exact": asked.exact,
    }
