"""Addresses of the reports on quality: all streams, one stream, and one stream on a day."""

from collections.abc import Callable
from datetime import date

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from lakehouse.serving.quality.report import Asked
from lakehouse.serving.table_reader import connected
from lakehouse.web.home_tables import layout_of
from lakehouse.web.problems import Problem
from lakehouse.web.quality.page import POLICY, Page
from lakehouse.web.responses import work_of
from lakehouse.web.security.access import check_stream, token
from lakehouse.web.work import Stop

router = APIRouter(include_in_schema=False)
_HEADERS = {"Cache-Control": "no-store", "Content-Security-Policy": f"{POLICY}; frame-ancestors 'none'"}


@router.get("/quality")
async def overview(request: Request) -> Response:
    """Return the newest reports of all streams and queries that the token sees, as a table of lights."""
    seen = token(request)

    def page(asked: Asked) -> str:
        reports = [asked.report(subject) for subject in asked.subjects() if seen.sees(subject)]
        return Page().overview("Quality", reports)

    return await _drawn(request, page)


@router.get("/quality/{stream}")
@router.get("/quality/{stream}/{day}")
async def report(request: Request, stream: str, day: date | None = None) -> Response:
    """Return the report of a stream or query on a day, the newest one if none is named."""
    check_stream(request, stream)

    def page(asked: Asked) -> str:
        if stream not in asked.subjects():
            raise Problem(404, "Not found", f"no stream or query {stream!r} was ever checked")
        return Page().stream(asked.report(stream, day))

    return await _drawn(request, page)


async def _drawn(request: Request, page: Callable[[Asked], str]) -> Response:
    def work(stop: Stop) -> str:
        home = layout_of(request)
        with connected(home.tables, {"threads": 1, "memory_limit": "512MB"}) as connection:
            stop.by(connection.interrupt)
            options = request.app.state.options
            return page(Asked(home, connection, options.alerts_url, options.units))

    return HTMLResponse(await work_of(request).run(request, work), headers=_HEADERS)
