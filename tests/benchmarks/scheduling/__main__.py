"""Operator order and time slices: tuples in the system and delay by policy; real operators; and pages.

    python -m tests.benchmarks.scheduling [--quick] [--json] [PART ...]

A full run writes tests/benchmarks/results/scheduling.
"""

from __future__ import annotations

from tests.benchmarks.parts import run_parts

if __name__ == "__main__":
    run_parts(
        __doc__,
        __package__,
        ("figures", "order_and_turns", "executor", "overload"),
        only_in_full=("spark_udf", "shared_scan"),
    )
