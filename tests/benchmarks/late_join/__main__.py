"""Window joins of late streams: recall, wait, memory and speed against waiting; one JSON object, and pages.

    python -m tests.benchmarks.late_join [--quick] [--json] [PART ...]

A full run writes docs/benchmarks/late_join.
"""

from __future__ import annotations

from tests.benchmarks.parts import run_parts

# Each has figures(quick) -> dict; a full run takes minutes and writes pages.
PARTS = (
    "tests.benchmarks.late_join.streams",
    "tests.benchmarks.late_join.figures",
    "tests.benchmarks.late_join.figures_d2",
    "tests.benchmarks.late_join.sweeps",
    "tests.benchmarks.late_join.real",
    "tests.benchmarks.late_join.speed",
    "tests.benchmarks.late_join.repair",
    "tests.benchmarks.late_join.spark_join",
    "tests.benchmarks.late_join.spark_overhead",
)


if __name__ == "__main__":
    run_parts(__doc__, PARTS, "small sizes, about a minute, no pages")
