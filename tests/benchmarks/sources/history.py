"""Freshness of answers behind two days of a large fleet: ``freshness`` in a home with 10^7 nodes.

3,500 devices have told once a minute for two days, so each of these rows is a node of its own; then the rows of
``freshness`` come for a minute at each rate, of devices of their own. The home is made once, by this process; what was
done, and in how many seconds, goes to standard error.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from jobs import maintain, publish
from lakehouse.settings import load_settings
from lakehouse.spark.session import build_session
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import read_log
from tests.benchmarks.history import take_in
from tests.benchmarks.sources.freshness import CONFIG, QUICK_S, RATES, Replay, served

OLD_DEVICES, MINUTES = 3_500, 2_860
MINUTES_A_FILE = 200


def figures(quick: bool) -> dict[str, Any]:
    """Return how fresh answers are at each rate, and how many nodes there were."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        tell = _teller()
        folder, minutes = Path(name), 20 if quick else MINUTES
        _take_in(folder, minutes)
        rows = minutes * OLD_DEVICES
        tell(f"{rows:,} readings taken in and published")
        for rate in RATES:
            of_rate = served(folder, CONFIG, Replay(rate, 1, QUICK_S), before=rows)
            rows += of_rate["rows"]
            tell(f"served at {rate:,} rows a second")
            rollup = read_log(Home(folder / "var").rollup("readings"))
            names = ("freshness_p50_s", "freshness_p95_s", "cpu_s_per_s", "versions", "batches")
            found |= {f"{key}_at_{rate}": of_rate[key] for key in names}
            found |= {f"nodes_at_{rate}": rollup.rows if rollup else 0}
    return found


def _teller() -> Callable[[str], None]:
    """Return what says what was done, and in how many seconds since the last that was."""
    last = [time.perf_counter()]

    def tell(what: str) -> None:
        now = time.perf_counter()
        print(f"history: {what} in {now - last[0]:.1f} s", file=sys.stderr, flush=True)
        last[0] = now

    return tell


def _take_in(folder: Path, minutes: int) -> None:
    """Take in and publish the readings of the last so many minutes."""
    (folder / "tidemark.toml").write_text(CONFIG)
    settings = load_settings(folder / "tidemark.toml")
    spark = build_session(settings)
    take_in(settings, spark, "readings", _readings(minutes))
    maintain.run(settings, spark, "readings")
    publish.run(settings, spark, unchecked=True)


def _readings(minutes: int) -> Iterator[pa.Table]:
    """Yield the readings of the last so many minutes, those of a few hours in each table."""
    random, now = np.random.default_rng(3), int(time.time()) // 60 * 60
    for first in range(0, minutes, MINUTES_A_FILE):
        minute = np.arange(first, min(first + MINUTES_A_FILE, minutes))
        device = np.tile(np.char.add("old-", np.arange(OLD_DEVICES).astype(str)), len(minute))
        ts = np.repeat((now - (minutes - minute) * 60) * 1_000_000, OLD_DEVICES)
        values = {"temp": random.normal(20, 5, len(ts)), "humidity": random.normal(50, 9, len(ts))}
        rounded = {name: np.round(each, 2) for name, each in values.items()}
        yield pa.table({"ts": ts, "device": device, **rounded})
