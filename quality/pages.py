"""The pages of results as they are written: without scripts, and with nothing that a browser would load from elsewhere.

Great Expectations' own pages take scripts, styles, fonts and a picture with the project's number from six addresses,
and draw their index by script. Here what is foreign is taken out of each page before it is written, a policy tells
browsers to load nothing else, and the index is plain HTML. The classes are named in the configuration of the site
(``checkpoint.py``) and made by Great Expectations.
"""

import re
from collections.abc import Mapping
from html import escape
from typing import Any

from great_expectations.data_context.store.tuple_store_backend import TupleFilesystemStoreBackend

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; form-action 'none'; base-uri 'none'"
)
_HEAD = f"""<head>
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<style>
  body {{ font-family: sans-serif; margin: 1em 2em }}
  table {{ border-collapse: collapse }}
  th, td {{ border: 1px solid #ccc; padding: 4px 8px; text-align: left }}
  .ge-success-icon::before {{ content: "\\2713"; color: #080 }}
  .ge-failed-icon::before {{ content: "\\2717"; color: #c00 }}
</style>"""
_SCRIPT = re.compile(r"<script\b.*?(?:</script\s*>|\Z)", re.DOTALL | re.IGNORECASE)
_LOADING = re.compile(r"<(?:link|img|iframe|object|embed|source|base)\b[^>]*>", re.IGNORECASE)
_FOREIGN = re.compile(r"""(?:src|href|data)\s*=\s*["']?\s*(?:[a-z][a-z0-9+.-]*:)?//""", re.IGNORECASE)

_STYLE = re.compile(rb"""(?:@import\s+)?url\(\s*["']?(?:[a-z][a-z0-9+.-]*:)?//[^)]*\)""", re.IGNORECASE)


def with_nothing_foreign(page: str) -> str:
    """Return a page without scripts and without what is loaded from elsewhere, and with a policy that says so."""
    page = _SCRIPT.sub("", page)
    page = _LOADING.sub(lambda tag: "" if _FOREIGN.search(tag[0]) else tag[0], page)
    return style_with_nothing_foreign(page.encode()).decode().replace("<head>", _HEAD, 1)


def style_with_nothing_foreign(style: bytes) -> bytes:
    """Return styles that name no picture, font or style from elsewhere."""
    return _STYLE.sub(b"none", style)


class LocalFiles(TupleFilesystemStoreBackend):
    """The folder of pages."""

    def _set(self, key: Any, value: Any, **kwargs: Any) -> Any:
        if isinstance(value, str):
            value = with_nothing_foreign(value)
        elif str(key[-1]).endswith(".css"):
            value = style_with_nothing_foreign(value)
        return super()._set(key, value, **kwargs)  # type: ignore[no-untyped-call]


class IndexRenderer:
    """Renderer of the page of links to all results."""

    def render(self, links: Mapping[str, Any]) -> str:
        """Return the page, newest results first."""
        rows = "".join(map(_row, links.get("validations_links", ())))
        suites = "".join(
            f'<li><a href="{escape(link["filepath"])}">{escape(link["expectation_suite_name"])}</a></li>'
            for link in links.get("expectations_links", ())
        )
        names = "".join(f"<th>{name}</th>" for name in ("state", "time", "stream and table", "rules"))
        return (
            '<!DOCTYPE html><html><head><meta charset="utf-8"><title>Checks of quality</title></head><body>'
            f"<h1>Checks of quality</h1><table><tr>{names}</tr>{rows}</table><h2>Rules</h2><ul>{suites}</ul>"
            "</body></html>"
        )


class IndexView:
    """View of the index, which is written already."""

    def render(self, page: str, **_: Any) -> str:
        """Return the page."""
        return page


def _row(link: Mapping[str, Any]) -> str:
    icon = "ge-success-icon" if link["validation_success"] else "ge-failed-icon"
    state = "passed" if link["validation_success"] else "failed"
    time = f"{link['run_time']:%Y-%m-%d %H:%M:%S %Z}"
    table = f'<a href="{escape(link["filepath"])}">{escape(str(link["batch_identifier"]))}</a>'
    return (
        f'<tr><td><i class="{icon}"></i> {state}</td><td>{time}</td><td>{table}</td>'
        f"<td>{escape(link['expectation_suite_name'])}</td></tr>"
    )
