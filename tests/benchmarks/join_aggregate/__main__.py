"""Join-aggregates of sliding windows: the figures of the paper, speed, drift, peers, fires; one JSON object, and pages.

    python -m tests.benchmarks.join_aggregate [--quick] [--json] [PART ...]

A full run writes docs/benchmarks/join_aggregate.
"""

from __future__ import annotations

from tests.benchmarks.parts import run_parts

# Each has figures(quick) -> dict; a full run takes minutes and writes pages.
PARTS = (
    "tests.benchmarks.join_aggregate.speed",
    "tests.benchmarks.join_aggregate.figures",
    "tests.benchmarks.join_aggregate.windows",
    "tests.benchmarks.join_aggregate.drift",
    "tests.benchmarks.join_aggregate.peers",
    "tests.benchmarks.join_aggregate.spark_join",
    "tests.benchmarks.join_aggregate.fire",
)


if __name__ == "__main__":
    run_parts(__doc__, PARTS, "small sizes, about a minute, no pages")
