"""What must hold of every table, checked before anything is published.

    expectations.toml   the rules, in no tool's own words: table, metric, largest value allowed, what it says
    rules.py            expectations.toml -> Rule
    columns.py          claims about columns, counted
    metrics.py          Spark: a stream's tables -> small frames of deviations, 0 where all is well
    rollup_metrics.py   the same for the rollup's nodes
    query_metrics.py    the same for a registered query, its batches and repairs
    join_metrics.py  multiway_metrics.py  aggregate_metrics.py  selection_metrics.py
                       what is judged of each kind: periods; answers, alarms
    scan_metrics.py     of those that call predicates: rows looked at
    suites.py           Rule -> Great Expectations suite
    checkpoint.py       frames + suites -> verdicts, kept results and their pages
    history.py          verdicts -> one Delta table for all streams
    verdicts.py         the last two, and a stop where a rule does not hold
    gate.py             GateFailed, what a failed check raises

Metrics are counts and differences, never a key or a reading, so that a report holds no personal data.
"""

from __future__ import annotations

from quality.gate import GateFailed

__all__ = ["GateFailed"]
