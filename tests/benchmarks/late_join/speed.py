"""Rows joined a second on one core: equal keys, few and many, and players near a ball at D1's rate.

Seconds are of the processor's time that this process used. Keys are drawn evenly, a row has half a partner on average,
three rows of ten are late.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from lakehouse.algorithms.late_join.conditions import Condition, Distance, Equality
from lakehouse.algorithms.late_join.contract import Batch
from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
from lakehouse.algorithms.late_join.qjoin import CHUNK, QJoin
from tests.benchmarks import page
from tests.benchmarks.late_join.streams import SECOND, recording
from tests.oracles.late_join.constant_slack import ConstantSlack

KEYS = (2000, 100_000)
DISTANCE_S = 30.0


def figures(quick: bool) -> dict[str, Any]:
    """Return rows a second by number of keys and policy, and how many times real time the distance join is."""
    rows, rounds = (500_000, 1) if quick else (4_000_000, 5)
    equality = {
        f"{keys}_{name}": round(rows / _best(keyed(rows, keys), Equality(), keys * 5, name, rounds))
        for keys in KEYS
        for name in ("constant", "needed_slack")
    }
    length_s = 10.0 if quick else DISTANCE_S
    soccer = recording("D1", length_s, 1.0)
    distance = {
        f"w{window_s:g}_{name}": round(
            length_s / _best(soccer, Distance(5.0), int(window_s * SECOND), name, rounds), 1
        )
        for window_s in (2.0, 0.2)
        for name in ("constant", "needed_slack")
    }
    if not quick:
        _write(equality, distance)
    return {
        "equality_tuples_per_s": equality,
        "distance_times_real_time": distance,
    }


def keyed(rows: int, keys: int) -> Batch:
    """Return rows 10 us apart, three of ten late by 2 ms on average."""
    rng = np.random.default_rng(8)
    late = np.where(rng.random(rows) < 0.3, rng.exponential(2000.0, rows), 0.0).astype(np.int64)
    event = np.arange(rows) * 10
    return Batch.of(rng.integers(0, 2, rows), event - late, arrival_us=event, key=rng.integers(0, keys, rows))


def _best(batch: Batch, condition: Condition, window_us: int, policy: str, rounds: int) -> float:
    """Return the least seconds of the processor that joining a stream took; the first round only warms up."""
    taken = []
    for _ in range(rounds + 1):
        slack = max(window_us // 20, 5000)
        join = QJoin(
            condition,
            window_us,
            ConstantSlack(slack, slack) if policy == "constant" else NeededSlack(0.95, 60 * SECOND),
        )
        started = time.process_time()
        for at in range(0, len(batch), CHUNK):
            join.process(batch[at : at + CHUNK])
        taken.append(time.process_time() - started)
    return min(taken[1:])


def _write(equality: dict[str, int], distance: dict[str, float]) -> None:
    page.write(
        "late_join",
        "speed",
        "Rows joined a second, one core",
        __doc__ or "",
        page.table(["keys and policy", "rows/s"], list(equality.items())),
        page.table(["window and policy", "times real time"], list(distance.items())),
    )
