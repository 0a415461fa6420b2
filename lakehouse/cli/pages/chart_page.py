"""Charts as one page that is a file: the parts of the page of ``tidemark web`` with the numbers inside; works offline.

Names of streams and keys come from data: in markup they are escaped, the script's data holds no `<`,
and the script puts text only where it cannot become markup. Nothing can be loaded or sent: the page forbids it itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from lakehouse.web.assets import chart_script, library_script, style

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def chart(kind: str, **facts: Any) -> Mapping[str, Any]:
    """Return one chart; ``kind`` is its name in the page's ``parts.js``, which says what facts it takes."""
    return {"kind": kind, **facts}


def chart_page(
    title: str, sentences: Sequence[str], charts: Sequence[Mapping[str, Any]], plan: str = ""
) -> str:
    """Return the whole page as text, about 1.4 MB, most of it the charts' library; ``plan``: set as it is."""
    heading = escape(title)
    words = "".join(f'<p class="note">{escape(sentence)}</p>' for sentence in sentences if sentence)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}"><meta name="color-scheme" content="light dark">
<title>{heading}</title><style>{style()}</style></head>
<body><main><h1>{heading}</h1>{words}{f"<pre>{escape(plan)}</pre>" if plan else ""}<div id="sheet"></div>
<noscript><p>The charts need JavaScript.</p></noscript></main>
<script type="application/json" id="charts">{_data(charts)}</script>
<script>{library_script()}</script><script type="module">{chart_script()}</script></body></html>
"""


def _data(charts: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(charts, allow_nan=False, default=str).replace("<", "\\u003c")
