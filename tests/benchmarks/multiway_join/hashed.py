"""Hashed vectors where values are many: what is moved in truth, rows and all, by the number of slots.

4 sites, values 1 to 2,000, 500 rows per interval and site (Poisson), a window of 3 intervals, 12 intervals; SMJE with
factorised rows and compact messages. Rows are really joined; the results are the same in every line. A plan made of
bounds is above what is then moved, by the factor in the last column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lakehouse.algorithms.multiway_join.centre import Centre
from lakehouse.algorithms.multiway_join.contract import Cost, Query, Sites
from lakehouse.algorithms.multiway_join.synopsis import HashedSynopsis, Synopsis
from tests.benchmarks import page
from tests.benchmarks.multiway_join.run import LOTTERY, METHODS, OURS, Estimate, estimate
from tests.benchmarks.multiway_join.streams import WINDOW, costs
from tests.oracles.multiway_join.block import Block
from tests.oracles.multiway_join.dense_synopsis import DenseSynopsis
from tests.oracles.multiway_join.window_join import MultiwayJoin

SITES, INTERVALS, VALUES, ROWS, SEEDS = 4, 12, 2000, 500, 20
SLOTS = (16_384, 8192, 4096, 2048, 1024, 512)
Line = tuple[Estimate, Estimate, Estimate]


def figures(quick: bool) -> dict[str, Any]:
    """Return, by slots, cost as a share of Lottery's, and planned rows by rows moved."""
    seeds = 2 if quick else SEEDS
    makers: dict[str, Callable[[], Synopsis]] = {"exact": lambda: DenseSynopsis(SITES)}
    for slots in SLOTS[::3] if quick else SLOTS:
        makers[f"{slots:,}"] = lambda slots=slots: HashedSynopsis(SITES, slots)  # type: ignore[misc]
    found = _lines(makers, seeds)
    if not quick:
        heads = ["slots", "cost by Lottery's", "rows moved by the exact plan's", "rows planned by rows moved"]
        lines = [[name, *line] for name, line in found.items()]
        page.write(
            "multiway_join",
            "hashed",
            "Hashed vectors",
            __doc__ or "",
            f"{seeds} seeds.",
            page.table(heads, lines),
        )
    return {
        "hashed_ratio_to_lottery": {name: round(line[0].mean, 4) for name, line in found.items()},
        "hashed_planned_by_moved": {name: round(line[2].mean, 3) for name, line in found.items()},
    }


def _lines(makers: dict[str, Callable[[], Synopsis]], seeds: int) -> dict[str, Line]:
    rows: dict[str, list[tuple[float, float, float]]] = {name: [] for name in makers}
    for seed in range(seeds):
        rng = np.random.default_rng([92, seed])
        names = [f"site {number}" for number in range(SITES)]
        query = Query(Sites.of(names, costs(rng, SITES)), (WINDOW,) * SITES)
        blocks = _blocks(rng, names)
        baseline = _run(query, LOTTERY, DenseSynopsis(SITES), blocks)
        moved = {name: _run(query, OURS, make(), blocks) for name, make in makers.items()}
        assert len({baseline[2], *(each[2] for each in moved.values())}) == 1, "results differ"
        for name, (cost, planned, _) in moved.items():
            exact = moved["exact"][0].data
            rows[name].append((cost.total / baseline[0].total, cost.data / exact, planned / cost.data))
    return {name: (_column(lines, 0), _column(lines, 1), _column(lines, 2)) for name, lines in rows.items()}


def _run(query: Query, method: str, synopsis: Synopsis, blocks: list[list[Block]]) -> tuple[Cost, float, int]:
    """Return the cost in truth, the cost of rows as planned, and how many results there were."""
    ordering, sending = METHODS[method]
    join = MultiwayJoin(Centre(query, synopsis, ordering(SITES), sending))
    cost, planned, results = Cost(), 0.0, 0
    for interval, line in enumerate(blocks):
        outcome = join.advance(interval, line)
        cost = sum((move.cost for move in outcome.moves), cost + outcome.expiry)
        planned += sum(move.plan.cost.data for move in outcome.moves)
        results += len(outcome.results)
    return cost, planned, results


def _blocks(rng: np.random.Generator, names: list[str]) -> list[list[Block]]:
    counts = rng.poisson(ROWS, (INTERVALS, SITES)).tolist()
    return [
        [
            Block.of(name, rng.integers(1, VALUES + 1, n), np.arange(n))
            for name, n in zip(names, line, strict=True)
        ]
        for line in counts
    ]


def _column(lines: list[tuple[float, float, float]], at: int) -> Estimate:
    return estimate([line[at] for line in lines])
