"""Changes of an answer from version to version, and their reasons: late rows, requeues, retractions, rebuilds.

The versions that are kept are asked the same question; between two of them the ledger says which batches came, and the
streams' facts which corrections were made.
"""

from typing import Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from lakehouse.serving.ask.ask import answers
from lakehouse.serving.ask.question import Question, UnknownName, with_default
from lakehouse.serving.literals import text
from lakehouse.serving.sandbox.sandbox import PublishedReader
from lakehouse.serving.versions.downloads import kept_versions
from lakehouse.serving.versions.versions import VersionGone
from lakehouse.web.formats import Format, Rows, written
from lakehouse.web.home_tables import layout_of
from lakehouse.web.parameters import question
from lakehouse.web.problems import Problem
from lakehouse.web.questions import question_document
from lakehouse.web.responses import respond, versions_of, work_of
from lakehouse.web.security.access import token
from lakehouse.web.work import Stop

router = APIRouter(tags=["versions"])
_FRESH = {"Cache-Control": "no-store"}
_SINCE = {
    "batches": "BIGINT",
    "received": "BIGINT",
    "late": "BIGINT",
    "requeued": "BIGINT",
    "retracted": "BIGINT",
    "rebuilt": "BOOLEAN",
}
_VERSION = {"version": "INTEGER", "published_us": "BIGINT", "stream": "VARCHAR", "batch": "BIGINT", **_SINCE}
_ANSWER = {
    "version": "INTEGER",
    "published_us": "BIGINT",
    "value": "DOUBLE",
    "low": "DOUBLE",
    "high": "DOUBLE",
    "exact": "BOOLEAN",
    "final": "BOOLEAN",
    "rows": "BIGINT",
    "withheld": "VARCHAR",
    **_SINCE,
}


@router.get("/versions.{format}", summary="Kept versions, and what came with each, stream by stream")
async def kept(request: Request, format: Format) -> Response:
    """Return a row per kept version and stream; what came since the version before is null for the oldest."""
    seen = token(request)

    def work(stop: Stop) -> Any:
        before: dict[str, dict[str, Any]] = {}
        rows = []
        for version in kept_versions(layout_of(request)):
            now = _facts_at(request, version, stop)
            for stream, facts in now.items():
                since = _since(before.get(stream), facts)
                if seen.sees(stream):
                    rows.append([version, facts["published_us"], stream, facts["batch"], *since])
            before = now or before
        return written(Rows(list(_VERSION), list(_VERSION.values()), rows, {"truncated": False}), format)

    return respond(await work_of(request).run(request, work), format, _FRESH)


@router.get("/changes.{format}", summary="One question in every kept version, and why its answer changed")
async def changes(request: Request, format: Format, asked: Question = Depends(question)) -> Response:
    """Return a row per kept version, oldest first: its answer, and what came in the range since the one before."""

    def work(stop: Stop) -> Any:
        before: dict[str, Any] | None = None
        rows: list[list[Any]] = []
        unknown: UnknownName | None = None
        with versions_of(request).reader(versions_of(request).current()) as reader:
            stop.by(reader.interrupt)
            # Its measure's own aggregate in the current version, for all versions alike.
            question = with_default(reader.connection, asked)
        for version in kept_versions(layout_of(request)):
            try:
                with versions_of(request).reader(version) as reader:
                    stop.by(reader.interrupt)
                    (found,) = answers(reader, question)
                    facts = _facts(reader, asked)[asked.stream]
            except VersionGone:
                continue
            except UnknownName as error:
                # What is asked for came with a later version; or it is in none.
                unknown = error
                continue
            told = (found.value, found.low, found.high, found.exact, found.final, found.rows, found.withheld)
            rows.append([version, facts["published_us"], *told, *_since(before, facts)])
            before = facts
        if unknown and not rows:
            raise unknown
        about = {"question": question_document(question), "truncated": False}
        return written(Rows(list(_ANSWER), list(_ANSWER.values()), rows, about), format)

    if asked.by:
        raise Problem(400, "Wrong parameter", "by: how an answer changed is shown for one answer at a time")
    return respond(await work_of(request).run(request, work), format, _FRESH)


def _facts_at(request: Request, version: int, stop: Stop) -> dict[str, dict[str, Any]]:
    try:
        with versions_of(request).reader(version) as reader:
            stop.by(reader.interrupt)
            return _facts(reader)
    except VersionGone:
        return {}


def _facts(reader: PublishedReader, asked: Question | None = None) -> dict[str, dict[str, Any]]:
    """Return what a version contains of each stream; of a question's, only what came in its range."""
    inside = "true"
    if asked is not None:
        inside = f"stream = {text(asked.stream)} AND min_event_us < {asked.end_us} AND max_event_us >= {asked.start_us}"
    done = reader.connection.execute(
        f"""
        SELECT stream, published_us, batch, retracted, basis, coalesce(batches, 0), coalesce(received, 0)::BIGINT,
            coalesce(late, 0)::BIGINT, coalesce(requeued, 0)::BIGINT
        FROM publication, streams LEFT JOIN (
            SELECT stream, count(*) AS batches, sum(received) AS received, sum(late) AS late, sum(requeued) AS requeued
            FROM ledger WHERE {inside} GROUP BY stream
        ) USING (stream)
        """
    )
    names = ("published_us", "batch", "retracted", "basis", "batches", "received", "late", "requeued")
    return {row[0]: dict(zip(names, row[1:], strict=True)) for row in done.fetchall()}


def _since(before: dict[str, Any] | None, now: dict[str, Any]) -> list[Any]:
    """Return what came since the version before, in the order of ``_SINCE``; null where none is kept."""
    if before is None:
        return [None] * len(_SINCE)
    counted = [now[name] - before[name] for name in list(_SINCE)[:-1]]
    return [*counted, now["basis"] != before["basis"]]
