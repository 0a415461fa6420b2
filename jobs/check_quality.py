"""Check every rule on the tables of a stream; a failed rule withholds the stream from the publish.

Reads ledger, raw, quarantine and rollup; writes <home>/quality and the pages under <home>/reports. Running it again
changes no table of the stream.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from lakehouse.config.stream import instant_us
from lakehouse.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(
    settings: Settings, spark: SparkSession, stream: str, full: bool = False, now_us: int | None = None
) -> dict[str, Any]:
    """Check the stream's tables and return how many rules were checked, through which batch, and the report.

    Rows that have passed a check are not read again; with ``full``, and by each day's first check, everything is. If
    no table has changed since a check passed, its figures are returned again, as ``unchanged``; not where a rule may
    fail because time goes on. ``now_us``: what rules over time take for now, instead of the clock; everything is
    read. Raises GateFailed if a rule fails; the verdicts are nevertheless added to the history.
    """
    from quality.verdicts import unless_passed

    layout = settings.layout
    if full or now_us is not None or any(rule.is_of_now for rule in settings.stream(stream).time_rules):
        return _checked(settings, spark, stream, full, now_us)
    places = layout.ledger, layout.raw, layout.quarantine, layout.rollup, layout.corrections
    definition = settings.stream(stream).checked_definition()
    tables = [table(stream) for table in places]
    return unless_passed(
        settings, stream, tables, definition, lambda: _checked(settings, spark, stream, full)
    )


def _checked(
    settings: Settings, spark: SparkSession, stream: str, full: bool, now_us: int | None = None
) -> dict[str, Any]:
    from lakehouse.checks.checks import measure, open_tables
    from lakehouse.checks.time_nodes import kept_nodes
    from lakehouse.checks.time_rules import timeline_of
    from lakehouse.engine import engine_of
    from lakehouse.ingest.quarantine import rejected_examples
    from lakehouse.storage.checked import Checked, read_checked, write_checked
    from lakehouse.storage.crashpoint import crash_point
    from quality.verdicts import record_verdicts

    layout, declared, day = settings.layout, settings.stream(stream), f"{datetime.now(UTC):%Y-%m-%d}"
    path, definition = layout.checked(stream), declared.checked_definition()
    is_full = full or now_us is not None
    checked = Checked() if is_full else read_checked(path, definition, day)
    tables = open_tables(layout, declared, checked)
    if tables is None:
        return {"checks": 0, "failed": 0}
    batches = tables.since, tables.through
    timeline = timeline_of(layout, declared, batches, tables.checked.live, now_us)
    with kept_nodes(layout, declared, tables.since >= 0, now_us is None) as keeping:
        frames, files = measure(tables, engine_of(spark), timeline, keeping)
    examples = partial(rejected_examples, layout, declared)
    figures = record_verdicts(settings, stream, frames, tables.through, examples=examples)
    if now_us is None:
        live = timeline is not None and timeline.is_live
        write_checked(path, Checked(tables.through, day, definition, tables.totals, files, live))
        crash_point("check.batches-noted")
    return {**figures, "full": checked.through < 0}


def main(argv: Sequence[str] | None = None) -> int:
    """Check the streams named on the command line; with ``--full`` all rows again, with ``--now TIME`` as at a time."""
    from jobs.running.command import run_for

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--now", type=_time)
    asked, words = parser.parse_known_args(argv)

    def checked(settings: Settings, spark: SparkSession, stream: str) -> dict[str, Any]:
        return run(settings, spark, stream, asked.full, asked.now)

    return run_for("stream", checked, words)


def _time(text: str) -> int:
    try:
        return instant_us(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"found {text!r}; {error}") from None


if __name__ == "__main__":
    raise SystemExit(main())
