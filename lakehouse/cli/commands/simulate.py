"""``tidemark simulate``: write files of two streams as real devices send them, and the true counts of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lakehouse.cli.options import AsJson, WrongUsage, duration, globals_of, instant
from lakehouse.cli.output import print_json, print_table, time_text

if TYPE_CHECKING:
    from lakehouse.simulator.plan import Plan
    from lakehouse.simulator.truth import Truth

DEFAULT_ROWS = 50_000


class Kind(StrEnum):
    """A stream that can be simulated."""

    TELEMETRY = "telemetry"
    FLOWS = "flows"


DelayKind = Literal["none", "exponential", "pareto", "measured"]


EXAMPLES = (
    "tidemark simulate",
    "tidemark simulate --stream telemetry --rate 100 --duration 2h --late-share 0.3 --delay pareto",
    "tidemark simulate --rows 1000000 --gzip --dirt 0 --duplicates 0 --bad-clocks 0 --conflicts 0",
)


def simulate(
    context: typer.Context,
    stream: Annotated[list[Kind] | None, typer.Option(help="Only this stream; may be repeated.")] = None,
    rows: Annotated[int | None, typer.Option(help=f"Rows per stream [default: {DEFAULT_ROWS}].")] = None,
    rate: Annotated[float | None, typer.Option(help="Rows per second, instead of --rows.")] = None,
    length: Annotated[str, typer.Option("--duration", help="Event time that one call covers.")] = "1d",
    start: Annotated[str, typer.Option(help="First event time [default: where the last call ended].")] = "",
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 1,
    files: Annotated[int, typer.Option(help="Number of files per stream and call.")] = 8,
    devices: Annotated[
        int, typer.Option(help="Number of devices of telemetry and of source addresses of flows.")
    ] = 50,
    late_share: Annotated[
        float | None, typer.Option(help="Exact share of rows that are late [default: the delays decide].")
    ] = None,
    delay: Annotated[DelayKind, typer.Option(help="Distribution of the delays of rows.")] = "measured",
    delay_mean: Annotated[str, typer.Option(help="Mean delay, for exponential and pareto.")] = "30s",
    delay_max: Annotated[str, typer.Option(help="The longest delay.")] = "12h",
    duplicates: Annotated[float, typer.Option(help="Share of rows sent a second time.")] = 0.01,
    conflicts: Annotated[float, typer.Option(help="Share of rows sent again with another value.")] = 0.002,
    bad_clocks: Annotated[float, typer.Option(help="Share of rows whose clock is 2.6 years behind.")] = 0.005,
    gaps: Annotated[float, typer.Option(help="Share of time without rows.")] = 0.02,
    dirt: Annotated[float, typer.Option(help="Share of broken lines and values.")] = 0.007,
    gzip: Annotated[bool, typer.Option("--gzip", help="Write .gz files.")] = False,
    into: Annotated[
        Path | None, typer.Option(help="Landing folder [default: `landing` beside the configuration].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write simulated files of late, dirty streams.

    The files land in <landing>/<stream>/ in order of arrival. Each further call continues in time.
    <landing>/<stream>.truth.json counts what all files hold, for comparison with `tidemark status`. Shares are from 0
    to 1.
    """
    from lakehouse.simulator.plan import Delay, Faults, Plan

    duration_us = duration(length, "--duration")
    wait = Delay(delay, duration(delay_mean, "--delay-mean"), duration(delay_max, "--delay-max"))
    faults = Faults(late_share, duplicates, conflicts, bad_clocks, dirt, gaps)
    start_us = instant(start, "UTC", "--start") if start else None
    if rows is not None and rate is not None:
        raise WrongUsage("--rows and --rate: give one of them")
    count = (
        round(rate * duration_us / 1_000_000) if rate is not None else DEFAULT_ROWS if rows is None else rows
    )
    plans = [
        Plan(kind.value, count, duration_us, start_us, devices, files, seed, gzip, wait, faults)
        for kind in (stream or list(Kind))
    ]
    _simulate(plans, into or globals_of(context).config_file().parent / "landing", as_json)


def _simulate(plans: Sequence[Plan], landing: Path, as_json: bool) -> None:
    from lakehouse.simulator.simulate import simulate as write_files

    for plan in plans:
        plan.check()
    truths = [write_files(plan, landing) for plan in plans]
    if as_json:
        print_json([asdict(truth) for truth in truths])
    else:
        _print(truths, landing)


def _print(truths: Sequence[Truth], landing: Path) -> None:
    headers = ("stream", "files", "rows", "accepted", "quarantined", "duplicates", "late", "from", "to")
    rows = [
        (
            *(truth.stream, len(truth.files), truth.received, truth.accepted, truth.quarantined),
            *(truth.duplicates, truth.late, time_text(truth.min_event_us), time_text(truth.max_event_us)),
        )
        for truth in truths
    ]
    print_table(headers, rows, title=f"written to {landing}; counts are what an ingest finds")
