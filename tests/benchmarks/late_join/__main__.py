"""Window joins of late streams: recall, wait, memory and speed against waiting; and pages.

    python -m tests.benchmarks.late_join [--quick] [--json] [PART ...]

A full run writes tests/benchmarks/results/late_join.
"""

from __future__ import annotations

from tests.benchmarks.parts import run_parts

if __name__ == "__main__":
    run_parts(
        __doc__,
        __package__,
        (
            "streams",
            "figures",
            "figures_d2",
            "figures_one_ball",
            "sweeps",
            "paper_settings",
            "real",
            "multiway",
            "short_windows",
            "registered",
            "silences",
            "speed",
            "repair",
            "state",
        ),
        only_in_full=("aims", "repair_files", "spark_join", "spark_overhead"),
    )
