"""Parameters of a request and their refusals: words and defaults of ``tidemark ask`` and ``plot``."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Query, Request
from pydantic import AfterValidator

from lakehouse.serving.ask.question import Question, aggregate_named, microseconds
from lakehouse.serving.ask.series import MOST_KEYS, MOST_POINTS
from lakehouse.web.problems import Problem
from lakehouse.web.security.access import check_stream

Aggregate = Annotated[str, AfterValidator(aggregate_named)]
# Wide enough for every event time that a stream may accept; years 1 to 9999.
BEGINNING_US, END_US = microseconds("0001-01-02"), microseconds("9999-12-30")
_NAME = 300
_AGGREGATE = (
    "sum, count, avg, min, max or increase. Default: increase of a counter, sum where declared, else avg."
)


@dataclass(frozen=True)
class Limits:
    """The server's ceilings: most rows and points of one answer, and seconds that it may take."""

    rows: int = 10_000
    points: int = MOST_POINTS
    timeout_s: float = 10.0


@dataclass(frozen=True)
class SeriesQuestion:
    """A question over buckets; its range is the whole stream's where ``start_us`` or ``end_us`` is None."""

    question: Question
    start_us: int | None
    end_us: int | None
    points: int


def limits_of(request: Request) -> Limits:
    """Return the ceilings of the application."""
    found: Limits = request.app.state.limits
    return found


def question(
    request: Request,
    stream: str = Query(max_length=_NAME, description="A published stream."),
    measure: str = Query("*", max_length=_NAME, description="A measure, or * for rows."),
    agg: Aggregate | None = Query(None, description=_AGGREGATE),
    start: str = Query("", alias="from", max_length=40, description="Start: ISO, or 1767225600000000us."),
    end: str = Query("", alias="to", max_length=40, description="End, excluded."),
    where: list[str] = Query([], max_length=50, description="KEY=VALUE; may be repeated."),
    by: list[str] = Query(
        [], max_length=20, description="One answer for each value of this key; may be repeated."
    ),
    limit: int | None = Query(
        None, ge=1, description="The most answers of `by`, in the order of their keys."
    ),
    exact: bool = Query(False, description="Read raw rows, where they are kept."),
) -> Question:
    """Return the question of a request, as ``tidemark ask`` would understand it."""
    check_stream(request, stream)
    most = limits_of(request).rows
    first = min(limit or most, most) if by else None
    between = microseconds_of(start, "from", BEGINNING_US), microseconds_of(end, "to", END_US)
    return Question(stream, measure, agg or "", *between, keys(where), tuple(dict.fromkeys(by)), first, exact)


def series_question(
    request: Request,
    stream: str = Query(max_length=_NAME, description="A published stream."),
    measure: str = Query("*", max_length=_NAME, description="A measure, or * for rows."),
    agg: Aggregate | None = Query(None, description=_AGGREGATE),
    start: str = Query("", alias="from", max_length=40, description="Start; default: the oldest row."),
    end: str = Query(
        "", alias="to", max_length=40, description="End, excluded; default: after the newest row."
    ),
    points: int = Query(100, ge=1, le=MOST_POINTS, description="The most buckets, all of one length."),
    where: list[str] = Query([], max_length=50, description="KEY=VALUE; may be repeated."),
    by: list[str] = Query([], max_length=20, description="One series for each value of this key."),
    limit: int | None = Query(None, ge=1, le=MOST_KEYS, description="The most series of `by`."),
) -> SeriesQuestion:
    """Return the question of a request, as ``tidemark plot`` would understand it."""
    check_stream(request, stream)
    between = microseconds_of(start, "from", BEGINNING_US), microseconds_of(end, "to", END_US)
    found = Question(stream, measure, agg or "", *between, keys(where), tuple(dict.fromkeys(by)), limit)
    start_us, end_us = between[0] if start else None, between[1] if end else None
    return SeriesQuestion(found, start_us, end_us, min(points, limits_of(request).points))


def microseconds_of(given: str, name: str, default: int) -> int:
    """Return microseconds UTC of an ISO time, or of a number of them such as 1767225600000000us.

    Raises Problem: 400 where it is neither, or outside the years 1 to 9999.
    """
    if not given:
        return default
    number = re.fullmatch(r"(-?[0-9]{1,18})us", given)
    found = int(number[1]) if number else microseconds(given)
    if not BEGINNING_US <= found <= END_US:
        raise Problem(400, "Wrong parameter", f"{name}: expected a time from the year 1 to 9999")
    return found


def keys(where: Sequence[str]) -> dict[str, str | None]:
    """Return ``key=value`` texts as a mapping; each key once. Raises Problem: 400 where one is no such text."""
    found: dict[str, str | None] = {}
    for one in where:
        key, equals, value = one.partition("=")
        if not equals or not key or key in found:
            raise Problem(
                400, "Wrong parameter", f"where: found {one[:100]!r}; expected KEY=VALUE, each key once"
            )
        found[key] = value
    return found


def one_more(asked: Question) -> Question:
    """Return the question that also finds out whether there is more than its limit."""
    return asked if asked.limit is None else replace(asked, limit=asked.limit + 1)
