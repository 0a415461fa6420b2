"""The page: files that a browser runs, all from here; the charts' library is served from where it is installed."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import FileResponse, RedirectResponse, Response

from lakehouse.web.problems import Problem
from lakehouse.web.responses import REVALIDATE

router = APIRouter(include_in_schema=False)
_FOLDER = Path(__file__).with_name("static")
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_LIBRARY = "bokeh.min.js"


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
    found = {str(path.relative_to(_FOLDER)): path for path in _FOLDER.rglob("*.*") if path.suffix in _TYPES}
    return found | {_LIBRARY: library()}


@cache
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:20]


def library() -> Path:
    """Return where the charts' library is installed: found without importing its Python half, which takes a second."""
    spec = find_spec("bokeh")
    folder = Path((spec.submodule_search_locations or [""])[0]) if spec else Path()
    return folder / "server" / "static" / "js" / _LIBRARY
