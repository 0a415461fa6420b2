"""Cost of ten rules and of the profile in an ingest: seconds of processors, and what share of it each takes.

One CSV file a batch, fifty devices, four measures, in this process, so that nothing but the work is counted: the kernel
that judges rules, and that which sums rows up for the profile and writes its parts. *without*: the seconds less those.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from jobs import build_rollups, check_quality, ingest
from lakehouse.ingest.batch_parts import AcceptedRows
from lakehouse.ingest.parser.row_rules import broken
from lakehouse.settings import load_settings
from lakehouse.spark.session import build_session
from quality.checkpoint import judge
from tests.benchmarks.page import table, write

SIZES, QUICK_SIZES = (1_000, 1_000_000), (1_000,)
MEASURES = ("temp", "humidity", "power", "voltage")
BOUNDS = (
    '[[streams.readings.rules]]\nexpect = "column_values_to_be_between"\ncolumn = "{}"\nmax_value = 1000\n'
)
THERE = '[[streams.readings.rules]]\nexpect = "column_values_to_not_be_null"\ncolumn = "{}"\n'
HOW = ('on_failure = "quarantine"\n', 'on_failure = "warn"\n')
RULES = [
    *(BOUNDS.format(name) + HOW[0] for name in MEASURES),
    *(THERE.format(name) + HOW[1] for name in MEASURES),
    THERE.format("device") + HOW[0],
    '[[streams.readings.rules]]\nexpect = "column_mean_to_be_between"\ncolumn = "temp"\nmax_value = 1000\n',
]
CONFIG = """
home = "var"
engine.runner = "local"
[streams.readings]
event_time = { column = "ts", unit = "s" }
keys = ["device"]
measures = ["temp", "humidity", "power", "voltage"]
levels = ["1m for 2d", "1h for 1y", "1d forever"]
source = { path = "landing/*.csv", format = "csv", settle = 0 }
columns = { temp = "double", humidity = "double", power = "double", voltage = "double" }
"""
HEADS = (
    *("rows", "rows/s", "ingest, s", "without a profile, s", "profile, %", "rules, %"),
    *("check, s", "of it Great Expectations, s"),
)


def figures(quick: bool) -> dict[str, Any]:
    """Return the shares of profile and rules by size; a full run writes a page."""
    rows = [_of_size(size) for size in (QUICK_SIZES if quick else SIZES)]
    if not quick:
        says = " ".join((__doc__ or "").split("\n\n", 1)[1].split())
        write("quality", "profile_cost", "Cost of rules and of the profile", says, table(HEADS, rows))
    return {
        f"{head} at {row[0]}": value for row in rows for head, value in zip(HEADS[1:], row[1:], strict=True)
    }


def _of_size(size: int) -> list[Any]:
    """Return the figures of the second batch of a size: the first one warms up."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tidemark.toml").write_text(CONFIG + "".join(RULES))
        settings = load_settings(folder / "tidemark.toml")
        session = build_session(settings)
        for batch in range(2):
            land(folder / "landing", batch, size)
            spent = dict.fromkeys(("profile", "rules", "gx"), 0.0)
            with _counted(spent):
                ingest_s = _timed(lambda: ingest.run(settings, session, "readings"))
                build_rollups.run(settings, session, "readings")
                check_s = _timed(lambda: check_quality.run(settings, session, "readings"))
    shares = (100 * spent[step] / ingest_s for step in ("profile", "rules"))
    return [
        size,
        round(size / ingest_s),
        ingest_s,
        ingest_s - spent["profile"],
        *shares,
        check_s,
        spent["gx"],
    ]


@contextmanager
def _counted(spent: dict[str, float]) -> Iterator[None]:
    """Count the seconds of processors of what judges rules, makes a profile, and is Great Expectations'."""
    with (
        mock.patch("lakehouse.ingest.parser.plain_values.broken", _counting(spent, "rules", broken)),
        mock.patch.object(AcceptedRows, "_sum_up", _counting(spent, "profile", AcceptedRows._sum_up)),
        mock.patch("quality.verdicts.judge", _counting(spent, "gx", judge)),
    ):
        yield


def _counting(spent: dict[str, float], step: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*given: Any, **named: Any) -> Any:
        began = time.process_time()
        try:
            return function(*given, **named)
        finally:
            spent[step] += time.process_time() - began

    return counted


def _timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def land(folder: Path, batch: int, size: int) -> None:
    """Write a file of readings of fifty devices, each of which sends four measures a second."""
    folder.mkdir(exist_ok=True)
    dice = np.random.default_rng(batch)
    columns: dict[str, Any] = {"ts": 1_600_000_000 + batch * size // 50 + np.arange(size) // 50}
    columns["device"] = np.char.add("d", dice.integers(0, 50, size).astype(str))
    columns |= {name: np.round(dice.normal(20, 5, size), 2) for name in MEASURES}
    pacsv.write_csv(pa.table(columns), folder / f"{batch}.csv")
