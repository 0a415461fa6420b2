"""``tidemark plot``: draw an aggregate of a stream, or answers of a query, in the terminal or as a page."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli import options
from lakehouse.cli.output import print_json, print_line

if TYPE_CHECKING:
    from lakehouse.cli.pages.picture import Picture
    from lakehouse.serving.ask.answer_series import AnswerSeries
    from lakehouse.serving.ask.series import Series

EXAMPLES = (
    "tidemark plot telemetry temp",
    "tidemark plot telemetry temp --agg max --from 2026-01-01T06:00 --to 2026-01-01T18:00 --where device=sensor-007",
    "tidemark plot flows bytes --agg sum --points 96 --html flows.html",
    "tidemark plot telemetry temp --by device --limit 4",
    "tidemark plot flows --json            (counts rows)",
    "tidemark plot --query busy_places --value n --group location=hall",
)
PAGE_POINTS = 240


def plot(
    context: typer.Context,
    stream: Annotated[str, typer.Argument(help="A published stream.", show_default=False)] = "",
    measure: Annotated[str, typer.Argument(help="A measure of the stream, or * for its rows.")] = "*",
    agg: options.Agg = None,
    start: Annotated[str, typer.Option("--from", help="Start, ISO [default: the oldest row].")] = "",
    end: Annotated[str, typer.Option("--to", help="End, excluded [default: the newest row].")] = "",
    points: Annotated[
        int | None, typer.Option(help="The most buckets [default: as many as fit].", min=1, max=10_000)
    ] = None,
    where: options.WhereKeys = None,
    by: Annotated[
        list[str] | None, typer.Option(help="One line for each value of this key; may be repeated.")
    ] = None,
    query: Annotated[
        str, typer.Option(metavar="QUERY", help="A published aggregate query, instead of a stream.")
    ] = "",
    value: Annotated[
        str, typer.Option(metavar="OUTPUT", help="The output of --query to draw [default: the first].")
    ] = "",
    group: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE that selects groups of --query; may be repeated.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="The most lines of --by or --query, in the order of their keys.", min=1)
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with the chart to this file.")] = None,
    timeout: options.Timeout = 30.0,
    timezone: options.Timezone = "UTC",
    as_json: options.AsJson = False,
) -> None:
    """Draw an aggregate over time, with intervals.

    The range is divided into buckets of equal length; each has a value and the interval that is sure to hold the
    truth. With --by there is one line for each value of the key, for at most 12 values, on the same axes. With
    --query it draws an output of an aggregate query, one line for each group: the value at a bucket's last tick, and
    the least and greatest value at its ticks. Values that may still change are marked. The page of --html needs only
    a browser. Times are shown in UTC. --json prints one object, or an array with --by or --query.
    """
    from lakehouse.cli.pages.picture import picture_of, picture_of_answers, plot_columns

    given = {"a stream": stream, "--agg": agg, "--where": where, "--by": by}
    _check(query, given, {"--value": value, "--group": group})
    between = options.span(start, end, timezone)
    count = points or (PAGE_POINTS if html or as_json else plot_columns())
    home = options.globals_of(context).home_folder()
    if query:
        from lakehouse.serving.ask.answer_series import answer_series

        groups = options.pairs(group or [], "--group") or None
        answers = answer_series(home, query, value or None, *between, count, groups, limit, timeout)
        documents = [_answers(one, html) for one in answers]
        _show(documents, "no group has an answer", lambda: picture_of_answers(answers), html, as_json)
        return
    from lakehouse.serving.ask.ask import unknown_keys
    from lakehouse.serving.ask.series import series, series_by

    keys = options.pairs(where or [], "--where") or None
    if by:
        charts = series_by(home, stream, measure, agg, by, *between, count, keys, limit, timeout)
    else:
        charts = [series(home, stream, measure, agg, *between, count, keys, timeout)]
    if keys and not any(bucket.rows for one in charts for bucket in one.buckets):
        for sentence in unknown_keys(home, stream, measure, keys, timeout):
            print(sentence, file=sys.stderr)
    documents = [_document(one, html) for one in charts]
    _show(documents, "no key has rows", lambda: picture_of(charts), html, as_json, is_one=not by)


def _check(query: str, of_stream: Mapping[str, object], of_query: Mapping[str, object]) -> None:
    """Refuse what does not go together."""
    wrong = [name for name, given in (of_stream if query else of_query).items() if given]
    if wrong:
        raise options.WrongUsage(f"{', '.join(wrong)} {'does not go with' if query else 'needs'} --query")
    if not query and not of_stream["a stream"]:
        raise options.WrongUsage("expected a stream, or --query and a registered join-aggregate")


def _show(
    documents: Sequence[Mapping[str, object]],
    lacking: str,
    picture: Callable[[], Picture],
    html: Path | None,
    as_json: bool,
    is_one: bool = False,
) -> None:
    from lakehouse.serving.ask.question import AskError

    if not documents and (html is not None or not as_json):
        raise AskError(f"{lacking} in this range: there is nothing to draw")
    if html is not None:
        from lakehouse.cli.pages.chart_page import chart, chart_page

        drawn = picture()
        page = chart_page(drawn.title, [drawn.subtitle, drawn.note], [chart("series", **drawn.facts)])
        html.write_text(page, encoding="utf-8")
    if as_json:
        print_json(documents[0] if is_one else documents)
    elif html is not None:
        print(f"wrote {html}")
    else:
        from lakehouse.cli.pages.picture import charts

        print_line("\n".join(charts(picture())))


def _document(chart: Series, html: Path | None) -> dict[str, object]:
    asked = chart.question
    question = {"stream": asked.stream, "measure": asked.measure, "agg": asked.aggregate}
    times = {"from_us": asked.start_us, "to_us": asked.end_us, "where": asked.where, "key": chart.key}
    answered = {
        "grouping": chart.grouping,
        "as_of_version": chart.as_of_version,
        "nodes_read": chart.nodes_read,
        "withheld": chart.withheld,
    }
    page = {} if html is None else {"html": str(html)}
    return {**question, **times, **answered, **page, "buckets": [vars(bucket) for bucket in chart.buckets]}


def _answers(chart: AnswerSeries, html: Path | None) -> dict[str, object]:
    asked = chart.question
    question = {
        "query": asked.query,
        "output": asked.output,
        "from_us": asked.start_us,
        "to_us": asked.end_us,
    }
    page = {} if html is None else {"html": str(html)}
    # Sums of doubles may have left what those hold; JSON knows no infinity.
    buckets = [{name: _finite(value) for name, value in vars(bucket).items()} for bucket in chart.buckets]
    return {**question, "where": asked.where, "key": chart.key, **page, "buckets": buckets}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
