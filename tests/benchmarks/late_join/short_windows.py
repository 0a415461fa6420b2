"""Windows short beside the lateness: real flows, written when they end, joined with others of the same two hosts.

| set | rows | late | by | periods |
| --- | --- | --- | --- | --- |
| zeek-m57-conn | 8,462 connections in a day | 42 % | 272 s at the 95th percentile | 10 min, sliding by 10 s |
| unsw-nb15-flows | 12,142 flows in nine minutes | 29 % | 28 s | 60 s, sliding by 1 s |

Pairs are flows of the same two hosts of which one starts before the other, at most w apart. The way of sparing rows was
found with these sets in view; how many was not tuned on them. The join runs as a registered query does: 8 buckets,
batches of 500 rows, each bucket told the newest times of the batches before; with the rows that a bucket may spare, and
with none. Sets that are absent are skipped.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from lakehouse.algorithms.late_join.conditions import Comparison, Equality
from lakehouse.algorithms.late_join.contract import Batch
from lakehouse.algorithms.late_join.margin import SPARE_ROWS
from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
from lakehouse.algorithms.late_join.policy_per_source import PerSource
from tests.benchmarks import page
from tests.benchmarks.late_join.real import REAL
from tests.benchmarks.late_join.run import Case, case_of, periods, run_in_buckets
from tests.benchmarks.late_join.streams import SECOND

RECALL, BUCKETS, BATCH_ROWS = 0.95, 8, 500
WINDOWS_S = (1, 5, 60, 600)
POLICIES: dict[str, type[NeededSlack]] = {"needed slack": NeededSlack, "per source": PerSource}
LATER = Equality((Comparison(0, "<", 0),))


def connections() -> tuple[Batch, int, int]:
    """Return a day of connections, the period and the step."""
    with gzip.open(REAL / "zeek-m57-conn" / "conn.log.gz", "rt") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines if not line.startswith("#")]
    started = np.array([round(float(row[0]) * SECOND) for row in rows], np.int64)
    return _with_itself(started, [f"{row[2]} {row[4]}" for row in rows]), 600 * SECOND, 10 * SECOND


def flows() -> tuple[Batch, int, int]:
    """Return nine minutes of flows, which come when they end; the header of the file is that of another."""
    (file,) = (REAL / "unsw-nb15-flows").glob("*.csv.gz")
    rows = pd.read_csv(file, header=None, skiprows=1, low_memory=False)
    started = rows[28].to_numpy(np.int64) * SECOND
    return _with_itself(started, rows[0] + " " + rows[2]), 60 * SECOND, SECOND


SETS: dict[str, Callable[[], tuple[Batch, int, int]]] = {
    "zeek-m57-conn": connections,
    "unsw-nb15-flows": flows,
}


def _with_itself(started: Any, hosts: Any) -> Batch:
    """Return flows in order of arrival, each on both sides."""
    key = np.repeat(pd.factorize(np.asarray(hosts, object))[0], 2)
    event = np.repeat(started, 2)
    row = np.repeat(np.arange(len(started)), 2)
    side, numbers = np.tile([0, 1], len(started)), event[:, None].astype(np.float64)
    return Batch.of(side, event, arrival_us=np.maximum.accumulate(event), row=row, key=key, numbers=numbers)


def figures(quick: bool) -> dict[str, Any]:
    """Return, by set, window, policy and spare rows: recall, the share of periods met, rows held and their most."""
    absent = {name for name in SETS if not (REAL / name).is_dir()}
    first = 1 if quick else None
    sets, windows, policies = list(SETS)[:first], WINDOWS_S[:first], list(POLICIES)[:first]
    rows = [
        [name, window, policy, spare, *_judged(case, POLICIES[policy], spare)]
        for name in sets
        if name not in absent
        for window in windows
        for case in [_case(name, window)]
        for policy in policies
        for spare in (0, SPARE_ROWS)
    ]
    if not quick and not absent:
        _write(rows)
    return {
        "short_windows_skipped": sorted(absent),
        "short_windows": {
            f"{name}_w{window}_{policy}_spare{spare}": [round(recall, 4), met / scored, round(held), most]
            for name, window, policy, spare, recall, scored, met, _, held, most, _ in rows
        },
    }


def _case(name: str, window_s: int) -> Case:
    batch, period_us, step_us = SETS[name]()
    return case_of(batch, LATER, window_s * SECOND, period_us, step_us)


def _judged(case: Case, kind: type[NeededSlack], spare: int) -> list[Any]:
    policy = partial(kind, RECALL, case.period_us, case.step_us, spare=spare)
    found = run_in_buckets(case, policy, BUCKETS, BATCH_ROWS)
    judged = periods(case, found)
    met, scored = judged.met(RECALL)
    recall, worst = found.online.sum() / case.truth.sum(), judged.recall[judged.is_scored].min()
    return [
        float(recall),
        scored,
        met,
        float(worst),
        found.mean_held,
        found.peak_held,
        found.logged_share,
    ]


def _write(rows: list[list[Any]]) -> None:
    heads = ["set", "w, s", "policy", "spare rows", "recall", "periods", "met", "worst period"]
    page.write(
        "late_join",
        "short_windows",
        f"Windows short beside the lateness, recall {RECALL:g}",
        __doc__ or "",
        page.table([*heads, "mean held", "peak held", "logged"], rows),
    )
