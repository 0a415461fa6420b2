"""Rows taken in and ranges answered a second on one core, beside the yardstick, pandas and DuckDB.

Seconds are of the processor's time that this process used, so that other work on the machine disturbs little.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from lakehouse.algorithms.rollup.levels import Level
from tests.benchmarks import page
from tests.benchmarks.rollup.streams import DAY, HOUR, MINUTE, SECOND
from tests.oracles.rollup.contract import AGGREGATES
from tests.oracles.rollup.dsmga_tree import DsmgaTree
from tests.oracles.rollup.recompute import Recompute

LEVELS = [Level(SECOND, HOUR), Level(MINUTE, 2 * DAY), Level(HOUR, 365 * DAY), Level(DAY, None)]
GAP = SECOND // 10
START = 1_600_000_000 * SECOND


def figures(quick: bool) -> dict[str, Any]:
    """Return rows/s by size of batch and order, ranges/s, and both for the peers; best of some rounds."""
    rounds = 1 if quick else 7
    inserts = {
        f"{size}{name}": insert_rate(size, late, 20_000 if quick else 3_000_000, rounds)
        for size in (100, 1000, 10_000, 250_000)
        for name, late in (("", 0.0), ("_late", 0.1))
    }
    queries = query_rates(quick, rounds)
    peers = peer_rates(quick, rounds)
    if not quick:
        _write(inserts, queries, peers)
    return {
        "inserts_per_s": inserts["10000_late"],
        "queries_per_s": queries["sum"],
        "inserts_per_s_by_batch": inserts,
        "queries_per_s_by_aggregate": queries,
        "peers_per_s": peers,
    }


def best(work: Callable[[], Any], rounds: int) -> float:
    """Return the least seconds of processor time that a piece of work took."""
    taken = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return min(taken)


def rows(count: int, late: float) -> tuple[Any, Any]:
    """Return rows ten a second, a share of them late by up to an hour."""
    rng = np.random.default_rng(2)
    times = START + np.arange(count) * GAP
    behind = (rng.random(count) ** 2 * HOUR).astype(np.int64)
    return np.where(rng.random(count) < late, times - behind, times), rng.normal(20.0, 5.0, count)


def insert_rate(size: int, late: float, count: int, rounds: int) -> int:
    """Return rows a second through ``insert_batch`` in batches of one size, after an hour of history."""
    times, values = rows(count + 36_000, late)

    def fill() -> float:
        tree = DsmgaTree(LEVELS)
        tree.insert_batch(times[:36_000], values[:36_000])
        started = time.process_time()
        for at in range(36_000, len(times), size):
            tree.insert_batch(times[at : at + size], values[at : at + size])
        return time.process_time() - started

    return round(count / min(fill() for _ in range(rounds)))


def query_rates(quick: bool, rounds: int) -> dict[str, int]:
    """Return ranges a second through ``query_batch`` for random ranges of two weeks, and one by one."""
    times, values = rows((1 if quick else 14) * 864_000, 0.0)
    tree = DsmgaTree(LEVELS)
    tree.insert_batch(times, values)
    count = 5_000 if quick else 500_000
    starts, ends = np.sort(np.random.default_rng(4).integers(times[0], times[-1], (2, count)), axis=0)
    found: dict[str, int] = {}
    for kind in AGGREGATES:
        tree.query_batch(starts[:1], ends[:1], kind)
        found[kind] = round(count / best(lambda kind=kind: tree.query_batch(starts, ends, kind), rounds))  # type: ignore[misc]
    few = list(zip(starts[:200].tolist(), ends[:200].tolist(), strict=True))
    found["sum, one by one"] = round(200 / best(lambda: [tree.query(*each, "sum") for each in few], rounds))
    return found


def peer_rates(quick: bool, rounds: int) -> dict[str, int]:
    """Return rows a second into one minute's groups, and exact SUMs of random ranges a second."""
    times, values = rows(20_000 if quick else 2_000_000, 0.0)
    series = pd.Series(values, index=pd.to_datetime(times, unit="us"))
    yardstick, few = Recompute(), 20_000
    ranges = np.sort(np.random.default_rng(5).integers(times[0], times[-1], (20, 2)), axis=1).tolist()
    slices = [tuple(pd.to_datetime(each, unit="us")) for each in ranges]
    link = duckdb.connect(config={"threads": 1})
    link.register("frame", pd.DataFrame({"t": times, "v": values}))
    link.execute("CREATE TABLE rows AS SELECT * FROM frame")
    grouped = "SELECT t // 60000000, count(v), sum(v), min(v), max(v), min(t), max(t) FROM rows GROUP BY 1"
    total = "SELECT sum(v) FROM rows WHERE t >= ? AND t < ?"
    resample = series.resample("1min")
    work: dict[str, tuple[int, Callable[[], Any]]] = {
        "yardstick, rows in": (few, lambda: yardstick.insert_batch(times[:few], values[:few])),
        "pandas resample, rows in": (len(times), lambda: resample.agg(["count", "sum", "min", "max"])),
        "DuckDB group by, rows in": (len(times), lambda: link.execute(grouped).fetchall()),
        "yardstick, ranges": (5, lambda: [yardstick.query(start, end, "sum") for start, end in ranges[:5]]),
        "pandas slice, ranges": (20, lambda: [series.loc[slice(*each)].sum() for each in slices]),
        "DuckDB scan, ranges": (20, lambda: [link.execute(total, each).fetchall() for each in ranges]),
    }
    found = {name: round(count / best(job, min(rounds, 3))) for name, (count, job) in work.items()}
    link.close()
    return found


def _write(inserts: dict[str, int], queries: dict[str, int], peers: dict[str, int]) -> None:
    sizes = [
        [name.replace("_late", ""), "late" if "late" in name else "in order", rate]
        for name, rate in inserts.items()
    ]
    page.write(
        "rollup",
        "speed",
        "Rows taken in and ranges answered, one core",
        "Levels `1s for 1h, 1m for 2d, 1h for 1y, 1d forever`, ten rows a second; late: a tenth of the rows is "
        "late by up to an hour. A second is one of processor time, best of some rounds. The yardstick keeps every "
        "row. pandas and DuckDB (one thread) group by minute only and answer exactly from all rows.",
        page.table(["rows a batch", "order", "rows/s"], sizes),
        page.table(["aggregate", "ranges/s"], list(queries.items())),
        page.table(["peer", "per s"], list(peers.items())),
    )
