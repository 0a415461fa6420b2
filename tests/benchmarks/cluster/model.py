"""Model of a million devices and ten billion rows a day, from costs measured here at two sizes each.

Every figure is a slope: the cost of twice as many rows, keys, commits or files, less that of once as many. So what a
process costs to start is in none of them, and each is of one core of this machine. The model multiplies; it knows
nothing of skew, of a network or of disks that are slower than this one.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakehouse.config.stream import Source
from lakehouse.ingest.sources.files import matching
from lakehouse.storage.tables import table_commits
from tests.benchmarks.cluster.steps import Measured, lead

DEVICES, ROWS_A_DAY, EVERY_S = 10**6, 10**10, 60
# As in ``steps``: what a level keeps of each key, and one key for all.
LEVELS = {"1m": (60, 2 * 86_400), "1h": (3_600, 365 * 86_400), "1d": (86_400, 10 * 365 * 86_400)}
# Raw, ledger and rollup, and the manifest's file.
COMMITS_A_BATCH, WRITES_A_COMMIT = 3, 2
# What the verdict on repeats sends the driver for each row: ``workers`` measures it.
REPEAT_BYTES = 30.6
_DAY_S, _GB = 86_400, 1e9


@dataclass(frozen=True)
class Unit:
    """What one more of each costs: seconds of a core, and bytes."""

    ingest_row_s: float
    raw_row_bytes: float
    rollup_node_s: float
    rollup_node_bytes: float
    publish_node_s: float
    published_node_bytes: float
    publish_node_mb: float
    commit_ms: float
    commit_bytes: float
    listed_file_us: float


def figures(quick: bool) -> dict[str, Any]:
    """Return the measured costs, what they come to, and what breaks first."""
    sizes = (2_000, 20_000) if quick else (50_000, 150_000)
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        few, many = (lead(Path(folder) / str(keys), keys, 2) for keys in sizes)
        unit = unit_costs(few, many, Path(folder), 50 if quick else 1_000)
    return {"unit": {name: float(f"{cost:.3g}") for name, cost in vars(unit).items()}} | scaled(unit)


def unit_costs(few: Measured, many: Measured, folder: Path, count: int) -> Unit:
    """Return what one more row, node, commit and file costs."""
    rows, nodes = many.rows - few.rows, many.nodes - few.nodes
    # A later row of each key adds to a node of each level and grouping.
    touched = (many.keys - few.keys) * len(LEVELS)

    def more(step: str) -> float:
        return max(many.steps[step].cpu_s - few.steps[step].cpu_s, 0.0)

    commit_ms, commit_bytes = _commits(folder / "commits", count)
    memory_mb = many.steps["next_publish"].process_mb - few.steps["next_publish"].process_mb
    return Unit(
        (more("ingest") + more("next_ingest")) / rows,
        (many.raw_bytes - few.raw_bytes) / rows,
        (more("build_rollups") + more("next_build_rollups")) / nodes,
        (many.node_bytes - few.node_bytes) / nodes,
        more("next_publish") / touched,
        (many.published_bytes - few.published_bytes) / nodes,
        max(memory_mb, 0.0) / touched,
        commit_ms,
        commit_bytes,
        _listed_us(folder / "listed", count),
    )


def _commits(table: Path, count: int) -> tuple[float, float]:
    """Return the milliseconds and bytes of the log of a commit of one row, the median of as many."""
    field = {"name": "n", "type": "long", "nullable": True, "metadata": {}}
    table_commits.create_table(table, json.dumps({"type": "struct", "fields": [field]}))
    taken = []
    for number in range(min(count, 100)):
        started = time.perf_counter()
        table_commits.append(table, [{"n": number}], ("bench", number))
        taken.append(1000 * (time.perf_counter() - started))
    entries = [path.stat().st_size for path in (table / "_delta_log").glob("*.json")]
    return statistics.median(taken), statistics.median(entries)


def _listed_us(folder: Path, count: int) -> float:
    """Return the microseconds that finding one more landed file takes."""
    folder.mkdir()
    for number in range(count):
        (folder / f"{number}.csv").touch()
    source = Source(path=f"{folder}/*.csv", format="csv")
    started = time.perf_counter()
    found = list(matching(source))
    return 1e6 * (time.perf_counter() - started) / len(found)


def scaled(unit: Unit) -> dict[str, Any]:
    """Return what the costs come to a day and at once, and how many cores it takes."""
    batches = _DAY_S // EVERY_S
    rows_a_batch = ROWS_A_DAY / batches
    # A batch of a minute touches a node of each level of each device.
    touched = DEVICES * len(LEVELS)
    kept = {name: DEVICES * (keep_s // width_s) for name, (width_s, keep_s) in LEVELS.items()}
    publish_s = touched * unit.publish_node_s
    writes = batches * (COMMITS_A_BATCH * WRITES_A_COMMIT + 1)
    return {
        "rows_a_second": round(ROWS_A_DAY / _DAY_S),
        "rows_a_batch": round(rows_a_batch),
        "ingest_cores": round(rows_a_batch * unit.ingest_row_s / EVERY_S, 1),
        "rollup_cores": round(touched * unit.rollup_node_s / EVERY_S, 1),
        "raw_gb_a_day": round(ROWS_A_DAY * unit.raw_row_bytes / _GB, 1),
        "rollup_gb_a_day": round(batches * touched * unit.rollup_node_bytes / _GB, 1),
        "driver_mb_for_repeats": round(REPEAT_BYTES * rows_a_batch / 1e6),
        "driver_mb_for_a_publish": round(touched * unit.publish_node_mb),
        "publish_s_of_one_core": round(publish_s, 1),
        "publish_share_of_its_time": round(publish_s / EVERY_S, 2),
        "published_gb": {
            name: round(nodes * unit.published_node_bytes / _GB, 1) for name, nodes in kept.items()
        },
        "log_entries_a_day": batches * COMMITS_A_BATCH,
        "log_mb_a_day": round(batches * COMMITS_A_BATCH * unit.commit_bytes / 1e6, 1),
        "commit_s_a_day": round(batches * COMMITS_A_BATCH * unit.commit_ms / 1000, 1),
        "writes_a_day": writes,
        "list_s_a_day_per_1000_files": round(_DAY_S / 2 * 1000 * unit.listed_file_us / 1e6, 1),
    }
