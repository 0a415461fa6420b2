"""What the rollup tree keeps, how far it is off, how fast it is: one JSON object, and pages in a full run.

    python -m tests.benchmarks.rollup [--quick] [--json] [PART ...]

A full run inserts a hundred years of seconds and writes docs/benchmarks/rollup.
"""

from __future__ import annotations

from tests.benchmarks.parts import run_parts

# Each has figures(quick) -> dict; a full run may take minutes and write pages.
PARTS = (
    "tests.benchmarks.rollup.space",
    "tests.benchmarks.rollup.error",
    "tests.benchmarks.rollup.intervals",
    "tests.benchmarks.rollup.aaquery",
    "tests.benchmarks.rollup.speed",
    "tests.benchmarks.rollup.serving",
    "tests.benchmarks.rollup.ingest",
)


if __name__ == "__main__":
    run_parts(__doc__, PARTS, "small sizes, under a minute, no pages")
