"""Text of ``tidemark queries`` and ``tidemark explain`` about a sample."""

from __future__ import annotations

from lakehouse.cli.pages.explain_text import KindText

TEXT = KindText(
    title="samples",
    columns={"query": "query", "state": "state", "one in": "one_in", "rows": "rows", "sampled": "selected"},
    plan=lambda facts: iter([("sample", f"one row of {facts['one_in']}")]),
    tables=(),
)
