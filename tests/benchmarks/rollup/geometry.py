"""Levels by the geometry of the paper's tree beside levels that are listed, in the product: nodes, bytes and error.

A row a second, an hour of them in a quick run and ten days in full, taken in, rolled up, folded and published. Error:
half the interval of a sum as a share of it, p95 of ranges at random places, by how far back they begin.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from deltalake import DeltaTable

from jobs import build_rollups, ingest, maintain, publish
from lakehouse.serving.ask.ask import ask
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.settings import Settings, load_settings
from lakehouse.spark.session import build_session
from tests.benchmarks.page import table, write

CONFIG = """
home = "var"
[streams.seconds]
event_time = {{ column = "ts", unit = "s" }}
measures = ["value"]
columns = {{ value = "int" }}
levels = {levels}
source = {{ path = "landing/*.csv", format = "csv", settle = 0 }}
"""
DECLARED = {
    "alpha 2, l 2": '{ first = "1s", alpha = 2, l = 2 }',
    "alpha 2, l 5": '{ first = "1s", alpha = 2, l = 5 }',
    "alpha 4, l 2": '{ first = "1s", alpha = 4, l = 2 }',
    "listed": '["1s for 1h", "1m for 2d", "1h for 1y", "1d forever"]',
}
T0, HOUR, ASKED = 1_600_000_000, 3600, 200
SIZES = (3_600, 864_000)
AGES = {"a minute": 60, "an hour": HOUR, "a day": 24 * HOUR, "a week": 7 * 24 * HOUR}


def figures(quick: bool) -> dict[str, Any]:
    """Return nodes, bytes and errors of each declaration; a full run writes them to a page."""
    rows = SIZES[0 if quick else 1]
    values = np.random.default_rng(5).integers(0, 100, rows)
    found = {name: _measured(levels, values) for name, levels in DECLARED.items()}
    if not quick:
        _write(found, rows)
    return found


def _measured(levels: str, values: np.ndarray) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        settings = _published(Path(folder), levels, values)
        sizes = DeltaTable(settings.layout.rollup("seconds")).get_add_actions(flatten=True)["size_bytes"]
        with open_published(settings.layout) as reader:
            [(nodes,)] = reader.connection.execute(
                "SELECT count(*) FROM rollups WHERE measure = 'value'"
            ).fetchall()
            errors = {age: _error(reader, values, back) for age, back in AGES.items() if back < len(values)}
        return {
            "levels": len(settings.streams["seconds"].levels),
            "nodes": nodes,
            "bytes": sum(sizes.to_pylist()),
            **errors,
        }


def _published(folder: Path, levels: str, values: np.ndarray) -> Settings:
    (folder / "landing").mkdir()
    lines = "".join(f"{T0 + second},{value}\n" for second, value in enumerate(values.tolist()))
    (folder / "landing" / "rows.csv").write_text("ts,value\n" + lines)
    (folder / "tidemark.toml").write_text(CONFIG.format(levels=levels))
    settings = load_settings(folder / "tidemark.toml")
    session = build_session(settings)
    for job in (ingest, build_rollups, maintain):
        job.run(settings, session, "seconds")
    publish.run(settings, session, unchecked=True)
    return settings


def _error(reader: Any, values: np.ndarray, back: int) -> float:
    """Return the p95 of half an interval's share of its sum, of ranges from some time ago to half of it."""
    random, sums, errors = np.random.default_rng(back), np.concatenate([[0], np.cumsum(values)]), []
    for _ in range(ASKED):
        first = len(values) - back + int(random.integers(-back // 10, back // 10 + 1))
        last = first + back // 2
        times = (10**6 * (T0 + max(first, 0)), 10**6 * (T0 + last))
        [answer] = ask(reader, "seconds", "value", "sum", *times)
        truth = int(sums[last] - sums[max(first, 0)])
        assert answer.low is not None and answer.high is not None and answer.low <= truth <= answer.high
        errors.append((answer.high - answer.low) / 2 / truth)
    return round(float(np.quantile(errors, 0.95)), 4)


def _write(found: dict[str, dict[str, Any]], rows: int) -> None:
    heads = ("levels", "nodes", "bytes", *AGES)
    cells = [(name, *(each[head] for head in heads)) for name, each in found.items()]
    write(
        "rollup",
        "geometry",
        "Levels by geometry, and listed",
        f"{rows:,} rows, one a second. Nodes of the published version, bytes of the rollup's table, and the error of "
        "sums over ranges that began so long ago and are half as long: half the interval as a share, p95.",
        table(("declared", *heads), cells),
    )
