"""The page: files that a browser runs, all from here; the charts' library is served from where it is installed.

Beside it the reports of checks, as they stand in the home, or on the store that has its tables.
"""

import hashlib
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, RedirectResponse, Response

from lakehouse.storage.stores.store_path import Location
from lakehouse.web.assets import FOLDER, LIBRARY, library
from lakehouse.web.problems import Problem
from lakehouse.web.responses import REVALIDATE
from lakehouse.web.security.access import check_all_streams

router = APIRouter(include_in_schema=False)
# Reports are pages of Great Expectations without scripts (quality/pages.py); their own headers hold them to it.
_REPORT_POLICY = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_REPORT_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".gif": "image/gif",
    ".ico": "image/x-icon",
    ".otf": "font/otf",
}
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@router.get("/")
async def start(request: Request) -> Response:
    """Send whoever asks for nothing to the page, with what the address asks of it."""
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"/page/{query}", 302)


@router.get("/page/{name:path}")
async def asset(request: Request, name: str) -> Response:
    """Return a file of the page, or 304 where the browser has it."""
    known = _assets()
    path = known.get(name or "index.html")
    if path is None:
        raise Problem(404, "Not found", "the page has no such file")
    validator = f'"{_digest(path)}"'
    headers = {"Cache-Control": REVALIDATE, "ETag": validator}
    if request.headers.get("if-none-match") == validator:
        return Response(status_code=304, headers=headers)
    return FileResponse(path, headers=headers, media_type=_TYPES[path.suffix])


@router.get("/reports/{name:path}")
async def report(request: Request, name: str) -> Response:
    """Return a file of the report of checks, Great Expectations' pages of verdicts."""
    check_all_streams(request)
    site = request.app.state.layout.report_pages
    content = await run_in_threadpool(_report, site, name or "index.html")
    headers = {"Cache-Control": REVALIDATE, "Content-Security-Policy": _REPORT_POLICY}
    return Response(content, headers=headers, media_type=_REPORT_TYPES[Path(name or "index.html").suffix])


def _report(site: Location, name: str) -> bytes:
    """Return a file of the report: of a folder, or of a store, whose keys lead nowhere else."""
    path = site / name
    try:
        if Path(name).suffix in _REPORT_TYPES and _is_below(path, site):
            return path.read_bytes()
    except OSError:
        # It is gone, or no name of a file.
        pass
    raise Problem(
        404, "Not found", "the reports have no such page; old ones are removed, a check makes new ones"
    )


def _is_below(path: Location, site: Location) -> bool:
    return path.resolve().is_relative_to(site.resolve())


@cache
def _assets() -> dict[str, Path]:
    found = {str(path.relative_to(FOLDER)): path for path in FOLDER.rglob("*.*") if path.suffix in _TYPES}
    return found | {LIBRARY: library()}


@cache
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:20]
