"""Global options, and readings of times, shares and key=value pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.algorithms.ingest.zones import zone_of
from lakehouse.config.durations import parse_duration
from lakehouse.storage.layout import Home

if TYPE_CHECKING:
    from lakehouse.settings import Settings


def _aggregate(name: str | None) -> str | None:
    """Refuse an aggregate that there is not, as a question would, before anything is opened."""
    if name is None:
        return None
    from lakehouse.serving.ask.question import aggregate_named

    return aggregate_named(name)


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Timeout = Annotated[float, typer.Option(help="The most seconds to run.", min=0.001)]
Memory = Annotated[int, typer.Option(help="The most megabytes of DuckDB's memory.", min=32)]
Timezone = Annotated[str, typer.Option(help="Time zone of --from and --to without an offset.")]
Agg = Annotated[
    str | None,
    typer.Option(
        metavar="AGGREGATE",
        callback=_aggregate,
        help="sum, count, avg, min, max or increase [default: increase of a counter, sum where declared, else avg].",
    ),
]
RangeStart = Annotated[str, typer.Option("--from", help="Start of the range, ISO [default: the beginning].")]
RangeEnd = Annotated[str, typer.Option("--to", help="End of the range, ISO, excluded [default: the end].")]
WhereKeys = Annotated[list[str] | None, typer.Option(help="Select a series by KEY=VALUE; may be repeated.")]


class WrongUsage(ValueError):
    """The command line itself is wrong; exit code 2."""


@dataclass(frozen=True)
class Globals:
    """The options that stand before the command."""

    config: Path | None
    home: Path | None

    def settings(self) -> Settings:
        """Read the whole configuration, checked."""
        from lakehouse.settings import load_settings

        return load_settings(self.config, self.home)

    def home_folder(self) -> Path:
        """Return the home without reading more of the configuration than that."""
        from lakehouse.config.config_paths import home_folder

        return home_folder(self.home, self.config)

    def opened(self) -> tuple[Home, Settings | None]:
        """Return the home and its configuration, which whoever only asks need not have."""
        settings = self.settings() if self.config_file().is_file() else None
        return settings.layout if settings else Home(self.home_folder()), settings

    def config_file(self) -> Path:
        """Return where the configuration is, or would be."""
        from lakehouse.config.config_paths import config_file

        return config_file(self.config)


def globals_of(context: typer.Context) -> Globals:
    """Return the global options of a command line."""
    options: Globals = context.obj
    return options


def declared(settings: Settings, streams: Sequence[str]) -> None:
    """Refuse names of streams that the configuration does not declare."""
    for stream in streams:
        if stream not in settings.streams:
            names = ", ".join(sorted(settings.streams)) or "none"
            raise WrongUsage(f"no stream {stream!r}; declared: {names}")


def landed_streams(settings: Settings, kind: str, streams: Sequence[str]) -> list[str]:
    """Return the streams of a kind, all or those named; refuse names of others, and when there are none."""
    declared(settings, streams)
    known = [name for name, stream in settings.streams.items() if stream.source.kind == kind]
    for name in streams:
        if name not in known:
            own = settings.streams[name].source.kind
            raise WrongUsage(
                f"stream {name!r} has kind {own!r}; expected one of kind {kind!r}: {', '.join(known)}"
            )
    if not known:
        preset = {
            "mqtt": 'kind = "mqtt" in [streams.NAME.source]',
            "host": 'preset = "host" in [streams.NAME]',
        }[kind]
        raise WrongUsage(f"no stream of kind {kind!r} is declared: {preset} of {settings.config} makes one")
    return list(streams) or known


def run_job(
    name: str, settings: Settings, stream: str, run: Callable[..., dict[str, Any]], *arguments: Any
) -> dict[str, Any]:
    """Run a job for a stream in a session of its own, under the name of its outcome; return its figures."""
    from jobs.running.outcome import recorded
    from lakehouse.spark.session import session_with_log

    spark = session_with_log(settings)
    return recorded(name, settings, stream, lambda: run(settings, spark, stream, *arguments))


def span(start: str, end: str, timezone: str) -> tuple[int | None, int | None]:
    """Return the microseconds UTC of --from and --to, None for one that is not given."""
    from_us = instant(start, timezone, "--from") if start else None
    to_us = instant(end, timezone, "--to") if end else None
    if from_us is not None and to_us is not None and from_us >= to_us:
        raise WrongUsage(f"--from {start} is not before --to {end}")
    return from_us, to_us


def instant(text: str, timezone: str, option: str) -> int:
    """Return the microseconds UTC of an ISO time; without an offset it is taken in the time zone."""
    try:
        timestamp = datetime.fromisoformat(text)
    except ValueError:
        expected = "an ISO time such as 2026-01-05T06:00 or 2026-01-05T06:00:00+01:00"
        raise WrongUsage(f"{option}: found {text!r}; expected {expected}") from None
    if timestamp.tzinfo is None:
        try:
            timestamp = timestamp.replace(tzinfo=zone_of(timezone))
        except ValueError as error:
            raise WrongUsage(f"--timezone: found {timezone!r}; {error}") from None
    since = timestamp - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def duration(text: str, option: str) -> int:
    """Return the microseconds of a duration such as ``2d``."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise WrongUsage(f"{option}: found {text!r}; {error}") from None


def pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """Return ``key=value`` texts as a dict; each key once."""
    values: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key or key in values:
            raise WrongUsage(f"{option}: found {text!r}; expected KEY=VALUE, each key once")
        values[key] = value
    return values
