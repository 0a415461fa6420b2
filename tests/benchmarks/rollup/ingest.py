"""Rows per second from files to every level, beside the plain Spark job: what `tests.benchmarks.ingest` compares."""

from __future__ import annotations

from typing import Any

from tests.benchmarks import ingest


def figures(quick: bool) -> dict[str, Any]:
    """Return rows per second and the ratio to the plain job, which writes the same rows and one group-by."""
    found = ingest.figures(quick)
    return {
        "ingest_rows_per_s": found["rows_per_s"],
        "ingest_ratio_to_plain_spark": found["ratio_to_plain_spark"],
    }
