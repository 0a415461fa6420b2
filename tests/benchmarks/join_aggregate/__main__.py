"""Join-aggregates of sliding windows: the figures of the paper, speed, drift, peers, fires, waiting; and pages.

    python -m tests.benchmarks.join_aggregate [--quick] [--json] [PART ...]

A full run writes tests/benchmarks/results/join_aggregate.
"""

from __future__ import annotations

from tests.benchmarks.parts import run_parts

if __name__ == "__main__":
    run_parts(
        __doc__,
        __package__,
        (
            "speed",
            "exact",
            "figures",
            "windows",
            "chains",
            "drift",
            "peers",
            "fire",
            "state",
            "waiting",
            "alarm_history",
        ),
        only_in_full=("spark_join",),
    )
