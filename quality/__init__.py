"""What must hold of every table, checked before anything is published.

    expectations.toml   the rules, in no tool's own words: table, metric, largest value allowed, what it says
    rules.py            expectations.toml -> Rule
    checkpoint.py       frames + rules, as suites of Great Expectations -> verdicts, kept results and their pages
    history.py          verdicts -> one Delta table for all streams
    verdicts.py         judges frames, records the verdicts, and stops where a rule does not hold
    gate.py             GateFailed, what a failed check raises

Frames hold small rows of deviations, 0 where all is well. ``checks.py`` in ``lakehouse/streams`` and in
``lakehouse/queries`` takes them of tables. Their metrics are counts and differences, never a key or a reading, so
that a report holds no personal data.
"""

from __future__ import annotations

from quality.gate import GateFailed

__all__ = ["GateFailed"]
