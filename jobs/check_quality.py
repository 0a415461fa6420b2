"""Check every rule on the tables of a stream; a failed rule withholds the stream from the publish.

Reads ledger, raw, quarantine and rollup; writes <home>/quality and the pages under <home>/reports. Running it again
changes no table of the stream.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from lakehouse.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FULL = "--full"


def run(settings: Settings, spark: SparkSession, stream: str, full: bool = False) -> dict[str, Any]:
    """Check the stream's tables and return how many rules were checked, through which batch, and the report.

    Rows that have passed a check are not read again; with ``full``, and by each day's first check, everything is. If
    no table has changed since a check passed, its figures are returned again, as ``unchanged``.

    Raises:
        GateFailed: if a rule fails; the verdicts are nevertheless added to the history.
    """
    from quality.verdicts import unless_passed

    layout = settings.layout
    if full:
        return _checked(settings, spark, stream, full)
    places = layout.ledger, layout.raw, layout.quarantine, layout.rollup, layout.corrections
    definition = settings.stream(stream).checked_definition()
    tables = [table(stream) for table in places]
    return unless_passed(
        settings, stream, tables, definition, lambda: _checked(settings, spark, stream, full)
    )


def _checked(settings: Settings, spark: SparkSession, stream: str, full: bool) -> dict[str, Any]:
    from lakehouse.checks.checks import measure, open_tables
    from lakehouse.engine import engine_of
    from lakehouse.ingest.quarantine import rejected_examples
    from lakehouse.storage.checked import Checked, read_checked, write_checked
    from quality.verdicts import record_verdicts

    layout, declared, day = settings.layout, settings.stream(stream), f"{datetime.now(UTC):%Y-%m-%d}"
    path, definition = layout.checked(stream), declared.checked_definition()
    checked = Checked() if full else read_checked(path, definition, day)
    tables = open_tables(layout, declared, checked)
    if tables is None:
        return {"checks": 0, "failed": 0}
    frames, files = measure(tables, engine_of(spark))
    examples = partial(rejected_examples, layout, declared)
    figures = record_verdicts(settings, stream, frames, tables.through, examples=examples)
    write_checked(path, Checked(tables.through, day, definition, tables.totals, files))
    return {**figures, "full": checked.through < 0}


def run_full(settings: Settings, spark: SparkSession, stream: str) -> dict[str, Any]:
    """Check everything again, whatever has passed."""
    return run(settings, spark, stream, full=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Check the streams named on the command line; with ``--full`` all of their rows again."""
    from jobs.running.command import run_for

    words = list(sys.argv[1:] if argv is None else argv)
    return run_for("stream", run_full if FULL in words else run, [word for word in words if word != FULL])


if __name__ == "__main__":
    raise SystemExit(main())
