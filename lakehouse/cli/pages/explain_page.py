"""A registered query as one page: what it does, and charts of it over time; works from a file, offline.

Names and texts come from people: in markup they are escaped, the script's data holds no `<`, and the script puts
text only where it cannot become markup.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from lakehouse.cli.charts.explain_charts import BOTTOM, Chart
from lakehouse.cli.charts.svg import LEFT, RIGHT, TOP, WIDTH, asset
from lakehouse.cli.pages.explain_text import ExplainText, plan_in_words

Facts = Mapping[str, Any]
HEIGHT = BOTTOM + 40


def whole_page(facts: Facts, text: ExplainText, found: Iterable[Chart | None]) -> str:
    """Return a page of what is known, the plan and those charts that there are; before the first batch of the plan."""
    charts = [chart for chart in found if chart is not None]
    heading = escape(f"query {facts['query']}")
    known = (
        [facts["description"], *text.found_in_words(facts)] if facts["batches"] else ["nothing taken in yet"]
    )
    words = "\n".join(f"{name + ':':<9} {sentence}" for name, sentence in plan_in_words(facts, text))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{heading}</title><style>{asset("chart.css")}{asset("explain.css")}</style></head>
<body><main><h1>{heading}</h1>
{"".join(f"<p>{escape(sentence)}</p>" for sentence in known if sentence)}
<pre>{escape(words)}</pre>
{"".join(_section(chart, place) for place, chart in enumerate(charts))}
</main><script type="application/json" id="series">{_data(charts)}</script>
<script>{asset("explain.js")}</script></body></html>
"""


def _section(chart: Chart, place: int) -> str:
    dots = ('<circle class="dot" r="5"/>', '<circle class="dot of-second" r="5"/>')
    svg = "\n".join(
        (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(chart.heading)}">',
            *chart.svg,
            f'<line class="mark" y1="{TOP}" y2="{BOTTOM}"/>',
            *dots[: len(chart.columns[0][1])],
            "</svg>",
        )
    )
    keys = "".join(
        f'<span class="{name}"><i class="{name}"></i>{escape(words)}</span>' for name, words in chart.keys
    )
    return f"""<h2>{escape(chart.heading)}</h2>
<figure data-chart="{place}">{svg}<div class="tip" role="status"></div></figure>
<div class="key">{keys}</div>
"""


def _data(charts: Sequence[Chart]) -> str:
    columns = [[{"tip": tip, "dots": list(dots)} for tip, dots in chart.columns] for chart in charts]
    document = {"left": LEFT, "right": RIGHT, "top": TOP, "charts": columns}
    return json.dumps(document, allow_nan=False).replace("<", "\\u003c")
