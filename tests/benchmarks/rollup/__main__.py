"""Size, error and speed of the rollup tree; and pages in a full run.

    python -m tests.benchmarks.rollup [--quick] [--json] [PART ...]

A full run inserts a hundred years of seconds and writes tests/benchmarks/results/rollup.
"""

from __future__ import annotations

from tests.benchmarks.parts import run_parts

if __name__ == "__main__":
    run_parts(
        __doc__,
        __package__,
        (
            "space",
            "error",
            "intervals",
            "widths",
            "aaquery",
            "speed",
            "serving",
            "publishing",
            "publish_history",
            "geometry",
        ),
        only_in_full=("siblings", "ingest"),
    )
