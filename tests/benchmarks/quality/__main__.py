"""Rules over real data, and the cost of rules over time.

    python -m tests.benchmarks.quality [--quick] [--json] [PART ...]

``known_faults``: faults of thirteen real sets, found, missed and reported where there are none. ``time_rules``: what
rules over time cost by the nodes that they read. ``profile_cost``: shares of rules and of the profile in an ingest.
``ten_rules``: what ten rules cost a batch, beside Great Expectations' Spark engine.
"""

from __future__ import annotations

from tests.benchmarks.parts import run_parts

if __name__ == "__main__":
    run_parts(__doc__, __package__, ("known_faults", "time_rules", "profile_cost", "ten_rules"))
