"""The files of the page, and where the charts' library is installed: for the server, and for pages that are files."""

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

FOLDER = Path(__file__).with_name("static")
LIBRARY = "bokeh.min.js"
# A module stands behind those that it imports.
_OF_CHARTS = ("dom.js", "charts.js", "parts.js", "sheet.js")
_MODULE_WORDS = re.compile(r"^import .*;$|^export (?=const|function|async function|class)", re.MULTILINE)


def library() -> Path:
    """Return where the charts' library is installed: found without importing its Python half, which takes a second."""
    spec = find_spec("bokeh")
    folder = Path((spec.submodule_search_locations or [""])[0]) if spec else Path()
    return folder / "server" / "static" / "js" / LIBRARY


def style() -> str:
    """Return the style of the page."""
    return _text(FOLDER / "style.css")


@cache
def header(current: str) -> str:
    """Return the links to all views, for pages beside the page; ``current``: the address of the one that it is."""
    page = _text(FOLDER / "index.html")
    links = page[page.index("<header>") : page.index("</header>")] + "</header>"
    return links.replace('href="?', 'href="/page/?').replace(
        f'href="{current}"', f'href="{current}" aria-current="page"'
    )


@cache
def chart_script() -> str:
    """Return the page's charts as one script that imports nothing: a browser imports no modules from a file."""
    return "\n".join(_MODULE_WORDS.sub("", _text(FOLDER / name)) for name in _OF_CHARTS)


def library_script() -> str:
    """Return the charts' library, 1.3 MB."""
    return _text(library())


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
