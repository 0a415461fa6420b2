"""``tidemark profile``: figures of each column of a day."""

from datetime import datetime
from typing import Annotated, Any

import typer

from lakehouse.cli.options import AsJson, declared, globals_of
from lakehouse.cli.output import print_json, print_line, print_table

EXAMPLES = ("tidemark profile telemetry", "tidemark profile telemetry --day 2026-01-01 --json")
_SHARES = {"0.05": "5 %", "0.5": "median", "0.95": "95 %"}
_FREQUENT = 3


def profile(
    context: typer.Context,
    stream: Annotated[str, typer.Argument(help="A declared stream.")],
    day: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="A day of event time, UTC [default: the last with rows]."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what the values of each column of a day look like.

    Counts, extremes, mean and deviation are exact; a number of distinct values after ~ is an estimate, mostly within
    9 %, and quantiles are off by about 1 % at most of the value, which --json states. Ingest keeps the figures: no row
    is read, and no JVM is started.
    """
    from lakehouse.storage.profiles import profile_of

    settings = globals_of(context).settings()
    declared(settings, [stream])
    units = settings.streams[stream].time_units
    rows = profile_of(settings.layout, stream, f"{day:%Y-%m-%d}" if day else None, units)
    order = {name: number for number, name in enumerate(settings.streams[stream].all_columns)}
    rows.sort(key=lambda row: order.get(row["column"], -1 if row["column"] == "*" else len(order)))
    if as_json:
        print_json(rows)
    elif not rows:
        print(f"no row of {stream} is of that day" if day else f"no row of {stream} is there yet")
    else:
        _print(stream, rows)


def _print(stream: str, rows: list[dict[str, Any]]) -> None:
    whole = rows[0]
    rejected = ", ".join(f"{reason} {count:,}" for reason, count in whole["rejected"].items()) or "none"
    late = f"{whole['late']:,} late ({whole['late'] / max(whole['rows'], 1):.1%})"
    print_line(f"{stream}, {whole['day']}: {whole['rows']:,} rows, {late}; rejected: {rejected}")
    if whole["retracted"]:
        print_line(
            f"at most {whole['retracted']:,} of these rows were retracted since; the figures still count them"
        )
    headers = ("column", "missing", "distinct", "least", *_SHARES.values(), "greatest", "mean", "deviation")
    print_table((*headers, "most frequent"), [_cells(row) for row in rows[1:]])


def _cells(figures: dict[str, Any]) -> tuple[Any, ...]:
    from lakehouse.storage.profiles import with_times

    row = with_times(figures)
    about = "~" if row["distinct_error"] else ""
    quantiles = row["quantiles"] or {}
    spread = (_short(row[name]) for name in ("mean", "deviation"))
    frequent = ", ".join(f"{value} {count:,}" for value, count in row["frequent"][:_FREQUENT])
    shares = (quantiles.get(share) for share in _SHARES)
    counts = (row["column"], row["missing"], f"{about}{row['distinct']:,}")
    return (*counts, row["least"], *shares, row["greatest"], *spread, frequent or "-")


def _short(value: float | str | None) -> float | str | None:
    return float(f"{value:.6g}") if isinstance(value, float) else value
