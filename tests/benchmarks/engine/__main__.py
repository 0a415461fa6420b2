"""The engine as a whole: all steps of a landing on each runner, and what a backfill asks of the driver.

    python -m tests.benchmarks.engine [--quick] [--json] [PART ...]

``rounds``: ingests, rollups, queries and repairs of 1,000, 10,000 and a million rows a stream; 5 minutes.
``task_memory``: the most that a task holds; 3 minutes. ``masters``: the same input by each runner and master, on two
workers and over Spark Connect; 3 minutes. ``dag_cycle``: a cycle of DAGs whose tasks start Spark, and whose tasks share
it; 20 minutes. ``backfill``: a batch of a million to a hundred million rows; an hour, most of it for the last.
"""

from __future__ import annotations

from tests.benchmarks.parts import run_parts

if __name__ == "__main__":
    run_parts(
        __doc__, __package__, (), only_in_full=("rounds", "task_memory", "masters", "dag_cycle", "backfill")
    )
