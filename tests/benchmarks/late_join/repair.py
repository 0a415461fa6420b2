"""Cost of a repair beside joining everything again, by the share of rows that are late.

2,000 keys, w = 10 s, 1,000 rows a second, late rows up to a minute late, a constant slack of 0.1 s. Joining
again is the same join in event order. Seconds are of the processor's time; the best of some rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lakehouse.algorithms.late_join.conditions import Equality
from lakehouse.algorithms.late_join.contract import Batch
from lakehouse.algorithms.late_join.qjoin import QJoin
from lakehouse.algorithms.late_join.repair import missing_pairs
from tests.benchmarks import page
from tests.benchmarks.late_join.streams import SECOND, in_event_order
from tests.oracles.late_join.constant_slack import ConstantSlack

SHARES = (0.01, 0.1, 0.5)
WINDOW = 10 * SECOND


def figures(quick: bool) -> dict[str, Any]:
    """Return repair's seconds by those of the whole join, by share of late rows."""
    rows = [_cost(share, 300_000 if quick else 2_000_000, 2 if quick else 5) for share in SHARES]
    if not quick:
        heads = [
            "late share",
            "logged",
            "pairs online",
            "pairs repaired",
            "repair s",
            "whole join s",
            "ratio",
        ]
        page.write("late_join", "repair", "Cost of repair", __doc__ or "", page.table(heads, rows))
    return {"repair_cost_ratio": {f"{row[0]:g}": round(row[-1], 3) for row in rows}}


def stream(share: float, count: int) -> Batch:
    """Return rows in arrival order, a share of them late."""
    rng = np.random.default_rng(3)
    arrival = np.arange(count) * 1000
    late = np.where(rng.random(count) < share, rng.integers(0, 60 * SECOND, count), 0)
    side, key = rng.integers(0, 2, count), rng.integers(0, 2000, count)
    return Batch.of(side, arrival - late, arrival_us=arrival, key=key)


def _cost(share: float, count: int, rounds: int) -> list[Any]:
    batch = stream(share, count)
    join = QJoin(Equality(), WINDOW, ConstantSlack(SECOND // 10, SECOND // 10))
    found = join.process(batch)
    ordered = in_event_order(batch)
    whole = QJoin(Equality(), WINDOW, ConstantSlack(1, 1)).process(ordered).pairs
    repaired = missing_pairs(Equality(), WINDOW, batch, found.log.row, found.log.horizon_us)
    if len(whole) != len(found.pairs) + len(repaired):
        raise AssertionError(
            f"{len(whole)} pairs, but {len(found.pairs)} online and {len(repaired)} repaired"
        )
    repair_s = _best(
        lambda: missing_pairs(Equality(), WINDOW, batch, found.log.row, found.log.horizon_us), rounds
    )
    whole_s = _best(
        lambda: QJoin(Equality(), WINDOW, ConstantSlack(1, 1)).process(in_event_order(batch)), rounds
    )
    pairs = [len(found.log), len(found.pairs), len(repaired)]
    return [share, *pairs, repair_s, whole_s, repair_s / whole_s]


def _best(work: Callable[[], Any], rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return min(taken)
