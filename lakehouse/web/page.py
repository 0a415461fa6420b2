"""The page: files that a browser runs, all from here; the charts' library is served from where it is installed."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import FileResponse, RedirectResponse, Response

from lakehouse.web.assets import FOLDER, LIBRARY, library
from lakehouse.web.problems import Problem
from lakehouse.web.responses import REVALIDATE

router = APIRouter(include_in_schema=False)
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@router.get("/")
async def start(request: Request) -> Response:
    """Send whoever asks for nothing to the page."""
    return RedirectResponse("/page/", 302)


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


@cache
def _assets() -> dict[str, Path]:
    found = {str(path.relative_to(FOLDER)): path for path in FOLDER.rglob("*.*") if path.suffix in _TYPES}
    return found | {LIBRARY: library()}


@cache
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:20]
