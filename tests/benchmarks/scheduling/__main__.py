"""Operator order and time slices: tuples in the system and delay by policy; real operators; one JSON object, pages.

    python -m tests.benchmarks.scheduling [--quick] [--json] [PART ...]

A full run writes docs/benchmarks/scheduling.
"""

from __future__ import annotations

from tests.benchmarks.parts import run_parts

# Each has figures(quick) -> dict; a full run takes minutes and writes pages.
PARTS = (
    "tests.benchmarks.scheduling.figures",
    "tests.benchmarks.scheduling.order_and_turns",
    "tests.benchmarks.scheduling.executor",
    "tests.benchmarks.scheduling.overload",
    "tests.benchmarks.scheduling.spark_udf",
    "tests.benchmarks.scheduling.shared_scan",
)


if __name__ == "__main__":
    run_parts(__doc__, PARTS, "small sizes, about a minute, no pages")
