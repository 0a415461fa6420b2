"""Cost of cutting a registered query's rows into more buckets, or fewer: a part of ``query_batch``.

The streams and queries of ``query_batch``. Once so many rows are held, batches of 10,000 rows are cut into 8 buckets,
then into twice as many as before up to 64, and into 8 again. Of the first batch that is cut so, and of the second after
it: seconds of the clock, seconds of processors, and the megabytes that it adds to the query's tables.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from jobs import run_queries
from tests.benchmarks import query_batch
from tests.benchmarks.parts import cpu_s

HELD, QUICK_HELD = (100_000, 1_000_000, 10_000_000), (2_000,)
BUCKETS = (8, 16, 32, 64, 8)


def figures(quick: bool) -> dict[str, Any]:
    """Return by query, rows held and buckets what the first and a later batch cost that is cut so."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        home = Home(Path(name) / "scale", query_batch.QUERIES, quick)
        for held in QUICK_HELD if quick else HELD:
            home.cut(BUCKETS[0])
            home.fill(held)
            for place, buckets in enumerate(BUCKETS if not quick else BUCKETS[:2]):
                home.cut(buckets)
                first, _, later = (home.batch() for _ in range(3))
                for query, (wall, spent, size) in first.items():
                    again = later[query]
                    key = f"{query}_at_{held}_{place}_in_{buckets}"
                    found[key] = [wall, spent, size, *again]
        home.spark.stop()
    return found


class Home(query_batch.Home):
    """A home of which the number of buckets changes."""

    def cut(self, buckets: int) -> None:
        """Have the next batches cut into so many buckets."""
        queries = self.settings.queries.model_copy(update={"buckets": buckets})
        self.settings = self.settings.model_copy(update={"queries": queries})

    def fill(self, held: int) -> None:
        """Take rows in until so many have come."""
        while self.rows < held:
            self.land(min(held - self.rows, query_batch.FILE_ROWS))
            self.run()

    def batch(self) -> dict[str, list[float]]:
        """Return what a batch costs each query: seconds of the clock and of processors, and megabytes."""
        self.land(query_batch.NEW)
        found = {}
        for name in self.queries:
            before, started, spent = self.size(name), time.perf_counter(), cpu_s()
            run_queries.run(self.settings, self.spark, name)
            wall, cpu = time.perf_counter() - started, cpu_s() - spent
            found[name] = [round(wall, 2), round(cpu, 2), round((self.size(name) - before) / 1e6, 2)]
        return found
