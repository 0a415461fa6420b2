"""The rules of every table, checked before anything is published.

    expectations.toml   the rules, independent of a tool: table, metric, largest value allowed, sentence
    rules.py            expectations.toml -> Rule
    checkpoint.py       frames + rules, as suites of Great Expectations -> verdicts, kept results and their pages
    history.py          verdicts -> one Delta table for all streams
    verdicts.py         judges frames, records the verdicts, and stops if a rule fails
    gate.py             GateFailed, the error of a failed check

Frames hold small rows of deviations, 0 if all is well. ``checks.py`` in ``lakehouse/ingest`` and in
``lakehouse/queries`` makes them from tables. Their metrics are counts and differences, never a key or a reading, so
that a report holds no personal data; of the rules that a stream declares three examples are named, with masked texts.
"""

from quality.gate import GateFailed

__all__ = ["GateFailed"]
