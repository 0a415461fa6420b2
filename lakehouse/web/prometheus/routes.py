"""The addresses of Prometheus' query API, GET and form POST; answers and errors have Prometheus' own form."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from starlette.responses import Response

from lakehouse.config.durations import parse_duration
from lakehouse.serving.ask.question import AskError, microseconds
from lakehouse.serving.sandbox.sandbox import PublishedReader
from lakehouse.web.formats import json_bytes
from lakehouse.web.parameters import BEGINNING_US, END_US
from lakehouse.web.problems import Problem
from lakehouse.web.prometheus.evaluate import MOST_TIMES, Found, Samples, alerts, evaluated
from lakehouse.web.prometheus.metrics import label_sets, matching, metrics_of, seen_only
from lakehouse.web.prometheus.promql import AlertsQuestion, Asked, PromqlRefused, parsed, selected
from lakehouse.web.responses import versions_of, work_of
from lakehouse.web.security.access import MOST_PARAMETERS, check_all_streams, check_stream, note, token
from lakehouse.web.work import Stop

router = APIRouter(tags=["prometheus"])
_MOST_LISTED = 10_000
# The same parameters come in the address and in a form, so they are read by hand and described here.
_PARAMETERS = {
    "query": "PromQL, of which range functions are answered.",
    "time": "Unix seconds or RFC 3339; default: after the newest row of all streams that the token may see.",
    "start": "The first time: Unix seconds or RFC 3339.",
    "end": "The last time.",
    "step": "Seconds, or a duration such as 15s.",
    "match[]": "A selector; may be repeated.",
    "metric": "Only this one.",
    "limit": "Most entries; 0 for all.",
}
Given = Mapping[str, list[str]]
Work = Callable[[PublishedReader], tuple[Any, Sequence[str]]]


def _described(*names: str) -> dict[str, Any]:
    optional = {"in": "query", "required": False, "schema": {"type": "string"}}
    return {"parameters": [{"name": name, "description": _PARAMETERS[name]} | optional for name in names]}


@router.post("/query", include_in_schema=False)
@router.get("/query", summary="A query at one time", openapi_extra=_described("query", "time"))
async def query(request: Request) -> Response:
    """Return a sample per series; without a time, after the newest row of all streams that may be seen."""
    given = await _given(request)

    def work(reader: PublishedReader, asked: Asked) -> tuple[Any, Sequence[str]]:
        if (time_us := _time(given, "time")) is None:
            time_us = _newest(reader, token(request).streams)
        if isinstance(asked, float):
            return {"resultType": "scalar", "result": [time_us / 1e6, _text(asked)]}, []
        found = _found(request, reader, asked, [time_us])
        result = [{"metric": one.labels, "value": _point(one.points[-1])} for one in found.series]
        return {"resultType": "vector", "result": result}, found.warnings

    return await _asking(request, given, work)


@router.post("/query_range", include_in_schema=False)
@router.get(
    "/query_range",
    summary="A query at evenly spaced times",
    openapi_extra=_described("query", "start", "end", "step"),
)
async def query_range(request: Request) -> Response:
    """Return samples per series, from start to end."""
    given = await _given(request)

    def work(reader: PublishedReader, asked: Asked) -> tuple[Any, Sequence[str]]:
        times = _times(given)
        if isinstance(asked, float):
            found = Found([Samples({}, [(time, asked) for time in times])], [])
        else:
            found = _found(request, reader, asked, times)
        result = [{"metric": one.labels, "values": [_point(p) for p in one.points]} for one in found.series]
        return {"resultType": "matrix", "result": result}, found.warnings

    return await _asking(request, given, work)


@router.post("/series", include_in_schema=False)
@router.get(
    "/series", summary="Label sets of the metrics that match", openapi_extra=_described("match[]", "limit")
)
async def series(request: Request) -> Response:
    """Return the labels of every series of a metric, whenever it had rows."""
    given = await _given(request)
    if not given.get("match[]"):
        return _refused(400, "bad_data", "match[]: expected at least one selector")
    return await _answered(request, lambda reader: _limited(given, _label_sets(request, reader, given)))


@router.post("/labels", include_in_schema=False)
@router.get("/labels", summary="Names of labels", openapi_extra=_described("match[]", "limit"))
async def labels(request: Request) -> Response:
    """Return every label, or those of the metrics that match."""
    given = await _given(request)

    def work(reader: PublishedReader) -> tuple[Any, Sequence[str]]:
        if given.get("match[]"):
            found = {name for one in _label_sets(request, reader, given) for name in one}
        else:
            known = metrics_of(reader, token(request).streams)
            found = {"__name__", *(key for one in known.values() for key in one.keys)}
        return _limited(given, sorted({*found, "bound"}))

    return await _answered(request, work)


@router.get(
    "/label/{label}/values", summary="Values of a label", openapi_extra=_described("match[]", "limit")
)
async def label_values(request: Request, label: str) -> Response:
    """Return the values of a label, sorted."""
    given = await _given(request)

    def work(reader: PublishedReader) -> tuple[Any, Sequence[str]]:
        if label == "bound":
            return ["high", "low", "value"], []
        if label == "__name__" and not given.get("match[]"):
            return _limited(given, sorted(metrics_of(reader, token(request).streams)))
        named = () if label == "__name__" else (label,)
        found = {one[label] for one in _label_sets(request, reader, given, *named) if label in one}
        return _limited(given, sorted(found))

    return await _answered(request, work)


@router.get("/metadata", summary="What each metric is", openapi_extra=_described("metric", "limit"))
async def metadata(request: Request) -> Response:
    """Return type and description of each metric, or of one."""
    given = await _given(request)

    def work(reader: PublishedReader) -> tuple[Any, Sequence[str]]:
        known = metrics_of(reader, token(request).streams)
        names, warnings = _limited(given, [name for name in known if name in given.get("metric", known)])
        found = {}
        for name in names:
            one, kind = known[name], "counter" if known[name].is_counter else "gauge"
            says = f"{one.measure} of the stream {one.stream}" if one.measure != "*" else f"rows of {name}"
            found[name] = [{"type": kind, "help": says, "unit": ""}]
        return found, warnings

    return await _answered(request, work)


@router.get("/status/buildinfo", summary="What answers")
async def buildinfo(request: Request) -> Response:
    """Return what clients go by when they choose among Prometheus' addresses."""
    # Clients ask which of Prometheus' addresses there are by its version: from 2.24 on labels may be matched.
    found = {"application": "Tidemark", "version": "2.24.0", "revision": request.app.version, "features": {}}
    return Response(_document(found, []), media_type="application/json")


async def _given(request: Request) -> Given:
    """Return the parameters of a request, of its address and of its form."""
    found = {name: request.query_params.getlist(name) for name in request.query_params}
    if request.method == "POST":
        body = (await request.body()).decode("utf-8", "replace")
        try:
            form = parse_qs(body, keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
        except ValueError:
            raise Problem(400, "bad_data", f"a form may have {MOST_PARAMETERS} fields") from None
        for name, values in form.items():
            found[name] = [*found.get(name, []), *values]
        note(request, {name: ", ".join(values) for name, values in found.items()})
    return found


async def _asking(
    request: Request, given: Given, work: Callable[[PublishedReader, Asked], tuple[Any, Sequence[str]]]
) -> Response:
    try:
        asked = parsed((given.get("query") or [""])[0])
    except PromqlRefused as refused:
        return _told(refused)
    if isinstance(asked, AlertsQuestion):
        check_all_streams(request)
    elif not isinstance(asked, float):
        check_stream(request, asked.metric.partition(":")[0])
    return await _answered(request, lambda reader: work(reader, asked))


async def _answered(request: Request, work: Work) -> Response:
    """Return what the current version answers, or an error in Prometheus' form."""
    token(request)

    def asked(stop: Stop) -> bytes:
        versions = versions_of(request)
        with versions.reader(versions.current()) as reader:
            stop.by(reader.interrupt)
            return _document(*work(reader))

    try:
        content = await work_of(request).run(request, asked)
    except PromqlRefused as refused:
        return _told(refused)
    except AskError as error:
        return _refused(422, "execution", str(error))
    except Problem as problem:
        kinds = {400: "bad_data", 503: "unavailable", 504: "timeout"}
        if problem.status not in kinds:
            raise
        return _refused(
            503 if problem.status == 504 else problem.status, kinds[problem.status], problem.detail
        )
    return Response(content, headers={"Cache-Control": "no-store"}, media_type="application/json")


def _told(refused: PromqlRefused) -> Response:
    return _refused(
        400 if refused.is_syntax else 422, "bad_data" if refused.is_syntax else "execution", str(refused)
    )


def _refused(status: int, kind: str, message: str) -> Response:
    content = json_bytes({"status": "error", "errorType": kind, "error": message})
    return Response(content, status, {"Cache-Control": "no-store"}, "application/json")


def _document(data: Any, warnings: Sequence[str]) -> bytes:
    said = {"warnings": list(warnings)} if warnings else {}
    return json_bytes({"status": "success", "data": data, **said})


def _found(request: Request, reader: PublishedReader, asked: Any, times: Sequence[int]) -> Found:
    if isinstance(asked, AlertsQuestion):
        return alerts(reader, asked, times)
    return evaluated(reader, asked, times, token(request).streams)


def _label_sets(
    request: Request, reader: PublishedReader, given: Given, *labels: str
) -> list[dict[str, str]]:
    known = metrics_of(reader, token(request).streams)
    found: list[dict[str, str]] = []
    for text in given.get("match[]") or [""]:
        metric, matchers = selected(text) if text else (None, ())
        names = [{"__name__": name} for name in known if metric in (None, name)]
        named = tuple(m for m in matchers if m.label == "__name__")
        wanted = tuple(m for m in matchers if m.label not in ("bound", "__name__"))
        for one in [known[each["__name__"]] for each in matching(reader, names, named)]:
            sets = label_sets(reader, one, [*(m.label for m in wanted), *labels], _MOST_LISTED)
            found += matching(reader, sets, wanted)
    return found[:_MOST_LISTED]


def _limited(given: Given, found: list[Any]) -> tuple[list[Any], list[str]]:
    """Return the first of what was found, as many as were asked for; with 0, all; and whether that was cut."""
    text = (given.get("limit") or ["0"])[-1]
    if not re.fullmatch("[0-9]{1,9}", text):
        raise Problem(400, "bad_data", f"limit: expected a number, found {text[:40]!r}")
    limit = int(text) or len(found)
    return found[:limit], ["results truncated due to limit"] if len(found) > limit else []


def _newest(reader: PublishedReader, streams: tuple[str, ...] | None) -> int:
    only = seen_only(streams)
    row = reader.connection.execute(f"SELECT coalesce(max(newest_us), 0) + 1 FROM streams {only}").fetchone()
    return int(row[0]) if row else 0


def _times(given: Given) -> list[int]:
    start, end = _time(given, "start"), _time(given, "end")
    step = _step((given.get("step") or [""])[0])
    if start is None or end is None or end < start:
        raise Problem(400, "bad_data", "expected start and end, start not after end")
    if (end - start) // step >= MOST_TIMES:
        raise Problem(400, "bad_data", f"more than {MOST_TIMES:,} times: take a longer step")
    return list(range(start, end + 1, step))


def _time(given: Given, name: str) -> int | None:
    text = (given.get(name) or [""])[0]
    if not text:
        return None
    try:
        seconds = float(text)
        time_us = round(seconds * 1e6) if math.isfinite(seconds) else END_US + 1
    except ValueError:
        try:
            time_us = microseconds(text)
        except AskError as error:
            raise Problem(400, "bad_data", f"{name}: {error}") from None
    if not BEGINNING_US <= time_us <= END_US:
        raise Problem(400, "bad_data", f"{name}: expected a time from the year 1 to 9999")
    return time_us


def _step(text: str) -> int:
    try:
        step = round(float(text) * 1e6)
    except (ValueError, OverflowError):
        try:
            step = parse_duration(text)
        except ValueError:
            raise Problem(
                400, "bad_data", f"step: expected seconds or a duration such as 15s, found {text[:40]!r}"
            ) from None
    if not 0 < step < 2**55:
        raise Problem(400, "bad_data", "step: expected more than nothing")
    return step


def _point(point: tuple[int, float]) -> list[Any]:
    return [point[0] / 1e6, _text(point[1])]


def _text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value))
