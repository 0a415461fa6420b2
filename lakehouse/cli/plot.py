"""``tidemark plot``: an aggregate over time, drawn in the terminal or as a page, with the interval as a band."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.ask import Aggregate
from lakehouse.cli.options import AsJson, Timezone, WhereKeys, WrongUsage, globals_of, instant, pairs

if TYPE_CHECKING:
    from lakehouse.serving.series import Series

EXAMPLES = (
    "tidemark plot telemetry temp",
    "tidemark plot telemetry temp --agg max --from 2026-01-01T06:00 --to 2026-01-01T18:00 --where device=sensor-007",
    "tidemark plot flows bytes --agg sum --points 96 --html flows.html",
    "tidemark plot telemetry temp --by device --limit 4",
    "tidemark plot flows --json            (counts rows)",
)
PAGE_POINTS = 240


def plot(
    context: typer.Context,
    stream: Annotated[str, typer.Argument(help="A published stream.")],
    measure: Annotated[str, typer.Argument(help="A measure of it, or * for its rows.")] = "*",
    agg: Annotated[
        Aggregate | None, typer.Option(help="Default: avg; count for *.", show_default=False)
    ] = None,
    start: Annotated[str, typer.Option("--from", help="First moment, ISO; default: the oldest row.")] = "",
    end: Annotated[str, typer.Option("--to", help="First moment after, ISO; default: the newest row.")] = "",
    points: Annotated[
        int | None, typer.Option(help="Most buckets; default: what fits.", min=1, max=10_000)
    ] = None,
    where: WhereKeys = None,
    by: Annotated[
        list[str] | None, typer.Option(help="One line per value of this key; may be repeated.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="Most lines of --by, in the order of their keys.", min=1)
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with the chart here instead.")] = None,
    timezone: Timezone = "UTC",
    as_json: AsJson = False,
) -> None:
    """Draw an aggregate over time, with sure bounds.

    The range is cut into buckets of equal length; each has a value and the interval that is sure to hold the
    truth. With --by there is one line per key, for at most 12 keys, on the same axes. The page of --html needs
    nothing but a browser. Times are shown in UTC. --json prints one object, an array with --by.
    """
    from lakehouse.cli.terminal_chart import plot_columns
    from lakehouse.serving.series import series, series_by

    start_us = instant(start, timezone, "--from") if start else None
    end_us = instant(end, timezone, "--to") if end else None
    if start_us is not None and end_us is not None and start_us >= end_us:
        raise WrongUsage(f"--from {start} is not before --to {end}")
    chosen = str(agg or (Aggregate.COUNT if measure == "*" else Aggregate.AVG))
    count = points or (PAGE_POINTS if html or as_json else plot_columns())
    keys, home = pairs(where or [], "--where") or None, globals_of(context).home_folder()
    if by:
        found = series_by(home, stream, measure, chosen, by, start_us, end_us, count, keys, limit)
    else:
        found = [series(home, stream, measure, chosen, start_us, end_us, count, keys)]
    _show(found, html, as_json)


def _show(found: Sequence[Series], html: Path | None, as_json: bool) -> None:
    from lakehouse.cli.output import print_json
    from lakehouse.serving.ask import AskError

    if not found and (html is not None or not as_json):
        raise AskError("no key has rows in this range: there is nothing to draw")
    if html is not None:
        from lakehouse.cli.html_chart import page_of

        html.write_text(page_of(found), encoding="utf-8")
    if as_json:
        documents = [_document(one, html) for one in found]
        print_json(documents[0] if found and not found[0].question.by else documents)
    elif html is not None:
        print(f"wrote {html}")
    else:
        from lakehouse.cli.terminal_chart import charts

        print("\n".join(charts(found)))


def _document(found: Series, html: Path | None) -> dict[str, object]:
    asked = found.question
    question = {"stream": asked.stream, "measure": asked.measure, "agg": asked.aggregate}
    times = {"from_us": asked.start_us, "to_us": asked.end_us, "where": asked.where, "key": found.key}
    answered = {
        "grouping": found.grouping,
        "as_of_version": found.as_of_version,
        "nodes_read": found.nodes_read,
    }
    page = {} if html is None else {"html": str(html)}
    return {**question, **times, **answered, **page, "buckets": [vars(bucket) for bucket in found.buckets]}
