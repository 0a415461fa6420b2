"""Charts as one page that is a file: the parts of the page of ``tidemark web`` with the numbers inside; works offline.

Names of streams and keys come from data: in markup they are escaped, the script's data holds no `<`,
and the script puts text only where it cannot become markup. Nothing can be loaded or sent, and no script runs but the
page's own two, by their hashes: the page's policy forbids it.
"""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape
from typing import Any

from lakehouse.web.assets import chart_script, library_script, style

# The charts' library puts style sheets of its own making into the page, which no hash can foresee.
_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)


def chart(kind: str, **facts: Any) -> Mapping[str, Any]:
    """Return one chart; ``kind`` is its name in the page's ``parts.js``, which says what facts it takes."""
    return {"kind": kind, **facts}


def chart_page(
    title: str, sentences: Sequence[str], charts: Sequence[Mapping[str, Any]], plan: str = ""
) -> str:
    """Return the whole page as text, about 1.4 MB, most of it the charts' library; ``plan``: set as it is."""
    heading, library, own = escape(title), library_script(), chart_script()
    data = json.dumps(charts, allow_nan=False, default=str).replace("<", "\\u003c")
    words = "".join(f'<p class="note">{escape(sentence)}</p>' for sentence in sentences if sentence)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy(library, own)}">
<meta name="color-scheme" content="light dark"><title>{heading}</title><style>{style()}</style></head>
<body><main><h1>{heading}</h1>{words}{f"<pre>{escape(plan)}</pre>" if plan else ""}<div id="sheet"></div>
<noscript><p>The charts need JavaScript.</p></noscript></main>
<script type="application/json" id="charts">{data}</script>
<script>{library}</script><script type="module">{own}</script></body></html>
"""


def policy(*scripts: str) -> str:
    """Return the Content-Security-Policy of a page that runs these scripts and no other, inline or from elsewhere."""
    hashes = (b64encode(sha256(script.encode()).digest()).decode() for script in scripts)
    return _POLICY.format(scripts=" ".join(f"'sha256-{digest}'" for digest in hashes))
