"""The published file itself, with ranges of bytes: any DuckDB attaches it over HTTP, or fetches it once.

A version is a small file and the segments that it shares with other versions, so a new version is fetched without
fetching those again. ``attach.sql`` has the statements that attach them all.
"""

import re
from contextlib import ExitStack
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import FileResponse, Response
from starlette.types import Receive, Send
from starlette.types import Scope as ScopeOf

from lakehouse.serving.segments.segments import catalog
from lakehouse.serving.versions.downloads import hold_downloaded
from lakehouse.serving.versions.versions import Hold, database_path, segment_path, segments_of
from lakehouse.web.home_tables import layout_of
from lakehouse.web.problems import Problem
from lakehouse.web.responses import Asked, At, etag, headers_of, is_known
from lakehouse.web.security.access import check_all_streams
from lakehouse.web.security.tokens import Scope

_DUCKDB = "application/vnd.duckdb"

router = APIRouter(tags=["file"])


@router.head("/tidemark.duckdb", include_in_schema=False)
@router.get("/tidemark.duckdb", summary="The version's file, in ranges")
async def database(request: Request, at: At = Asked) -> Response:
    """Return the version's own file, or ranges of it."""
    return _file(request, at, None)


@router.head("/segments/{segment}.duckdb", include_in_schema=False)
@router.get("/segments/{segment}.duckdb", summary="A segment, in ranges")
async def segment(request: Request, segment: str, at: At = Asked) -> Response:
    """Return a segment of the version, or ranges of it: the same bytes for every version that names it."""
    return _file(request, at, segment)


@router.get("/attach.sql", summary="Statements that attach the version to a DuckDB, read-only")
async def attach(request: Request, at: At = Asked) -> Response:
    """Return SQL for a DuckDB with the extension httpfs; afterwards it has the version's tables and macros."""
    check_all_streams(request, Scope.FILE)
    with hold_downloaded(layout_of(request), at.version) as held:
        segments = segments_of(held.path)
    base = f"{request.base_url}v/{at.version}"
    if not re.fullmatch(r"[\w:/.\[\]-]+", base):
        raise Problem(400, "Wrong host", "the Host header is no name that can stand in a statement")
    lines = [
        f"ATTACH IF NOT EXISTS '{base}/segments/{one}.duckdb' AS {catalog(one)} (READ_ONLY);"
        for one in segments
    ]
    lines += [f"ATTACH '{base}/tidemark.duckdb' AS tidemark (READ_ONLY);", "USE tidemark;"]
    headers = headers_of(request, at, etag(at, "attach", str(request.base_url)))
    return Response("\n".join(lines) + "\n", headers=headers, media_type="application/sql")


class _HeldFile(FileResponse):
    """A file of a version, which is held until the response has ended in whichever way.

    Starlette runs no background task after a range that it refuses, nor after a client that has gone.
    """

    def __init__(self, held: Hold, path: Path, headers: dict[str, str]) -> None:
        super().__init__(path, headers=headers, media_type=_DUCKDB)
        self._held = held

    async def __call__(self, scope: ScopeOf, receive: Receive, send: Send) -> None:
        with self._held:
            await super().__call__(scope, receive, send)


def _file(request: Request, at: At, segment: str | None) -> Response:
    """Return a file of a version, which stays until the last byte is sent."""
    check_all_streams(request, Scope.FILE)
    home = layout_of(request)
    # A segment is the same in every version that names it.
    validator = etag(at, "file") if segment is None else f'"segment-{segment}"'
    with ExitStack() as held:
        version = held.enter_context(hold_downloaded(home, at.version))
        if segment is not None and (
            not re.fullmatch(r"\d+r?", segment) or segment not in segments_of(version.path)
        ):
            raise Problem(404, "Not found", f"version {at.version} has no such segment")
        headers = headers_of(request, at, validator)
        if is_known(request, validator):
            return Response(status_code=304, headers=headers)
        path = (
            database_path(home.serving, at.version)
            if segment is None
            else segment_path(home.serving, segment)
        )
        response = _HeldFile(version, path, headers)
        held.pop_all()
        return response
