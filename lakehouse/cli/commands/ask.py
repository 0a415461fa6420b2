"""``tidemark ask``: one aggregate over a time range, with the interval that is sure to hold the truth."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli import options
from lakehouse.cli.output import cell, print_json, print_line, print_table
from lakehouse.config.durations import format_duration

if TYPE_CHECKING:
    from lakehouse.serving.ask.missing import Missing
    from lakehouse.serving.ask.question import Answer

# Wide enough for every event time that a stream may accept.
BEGINNING, END = "0001-01-02", "9999-12-30"


EXAMPLES = (
    "tidemark ask telemetry temp --from 2026-01-01T06:00 --to 2026-01-01T09:30",
    "tidemark ask telemetry temp --agg max --where device=sensor-007",
    "tidemark ask flows bytes --by proto --json",
    "tidemark ask water volume --agg increase     (of a counter)",
    "tidemark ask flows            (counts rows)",
)


def ask(
    context: typer.Context,
    stream: Annotated[str, typer.Argument(help="A published stream.")],
    measure: Annotated[str, typer.Argument(help="A measure of the stream, or * for its rows.")] = "*",
    agg: options.Agg = None,
    start: options.RangeStart = "",
    end: options.RangeEnd = "",
    where: options.WhereKeys = None,
    by: Annotated[
        list[str] | None, typer.Option(help="One answer for each value of this key; may be repeated.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="The most answers of --by, in the order of their keys.", min=1)
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Read raw rows, where they are kept, for an exact answer.")
    ] = False,
    timeout: options.Timeout = 30.0,
    timezone: options.Timezone = "UTC",
    as_json: options.AsJson = False,
) -> None:
    """Ask for an aggregate over a time range, with an interval.

    The answer is a value over [from, to) and the interval [low, high] that is sure to hold the truth. It is read from
    the published version; no JVM is started. Without --agg the measure's own aggregate is asked for: the increase of
    a counter, the sum of what `sums` declares, else the average; without a measure the rows are counted. --json
    prints one object, or an array with --by.
    """
    start_us = options.instant(start or BEGINNING, timezone, "--from")
    end_us = options.instant(end or END, timezone, "--to")
    if start_us >= end_us:
        raise options.WrongUsage(f"--from {start} is not before --to {end}")
    keys = options.pairs(where or [], "--where")
    from lakehouse.serving.ask import ask as asking
    from lakehouse.serving.ask import question as of
    from lakehouse.serving.ask.doubt import doubts
    from lakehouse.serving.ask.missing import missing_of
    from lakehouse.serving.sandbox.sandbox import open_published

    home, began = options.globals_of(context).home_folder(), time.perf_counter()
    with open_published(home) as published:
        chosen = agg or of.default_aggregate(published.connection, stream, measure)
        between = (start_us, end_us)
        answers = asking.ask(published, stream, measure, chosen, *between, keys, by, exact, limit, timeout)
        asked = of.Question(
            stream, measure, chosen, *between, of.values_as_text(keys), tuple(by or ()), limit
        )
        missing = missing_of(published.connection, asked, answers)
        because = doubts(published.connection, asked, answers)
    elapsed_ms = round(1000 * (time.perf_counter() - began), 1)
    if keys and not any(answer.rows for answer in answers):
        for sentence in asking.unknown_keys(home, stream, measure, keys, timeout):
            print(sentence, file=sys.stderr)
    question = {"stream": stream, "measure": measure, "agg": chosen, "from_us": start_us, "to_us": end_us}
    if as_json:
        beside = {"missing": missing.missing if missing else 0, "elapsed_ms": elapsed_ms}
        documents = [question | vars(answer) | beside for answer in answers]
        print_json(documents if by else documents[0])
    else:
        _print(question, answers, by or [])
        _print_notes(answers, missing, because, elapsed_ms)


def _print(question: Mapping[str, Any], answers: Sequence[Answer], by: Sequence[str]) -> None:
    headers = (*by, "value", "[low, high]", "exact", "rows", "nodes read", "finest", "version", "grouping")
    rows = []
    for answer in answers:
        finest = (
            "-" if answer.finest_granularity_us is None else format_duration(answer.finest_granularity_us)
        )
        interval = f"[{cell(answer.low)}, {cell(answer.high)}]"
        # Where there is nothing to answer from, nothing is exact.
        is_exact = answer.exact if answer.rows or answer.value is not None else None
        counts = (is_exact, answer.rows, answer.nodes_read, finest, answer.as_of_version)
        grouping = ", ".join(answer.grouping) or "all"
        # What a double does not hold is shown with all of its digits.
        value = answer.value if answer.low == answer.high else answer.exact_value or answer.value
        rows.append((*(answer.key[name] for name in by), value, interval, *counts, grouping))
    title = f"{question['agg']}({question['measure']}) of {question['stream']}"
    print_table(headers, rows, title=title)


def _print_notes(
    answers: Sequence[Answer], missing: Missing | None, because: Sequence[str], elapsed_ms: float
) -> None:
    from lakehouse.serving.ask.doubt import is_in_doubt

    if withheld := next((answer.withheld for answer in answers if answer.withheld), None):
        print_line(withheld)
    if missing:
        print(missing.sentence)
    for sentence in because:
        print_line(sentence)
    is_open = not all(answer.final or is_in_doubt(answer) for answer in answers)
    print(f"{elapsed_ms:g} ms{'; not final: late rows may still come' if is_open else ''}")
