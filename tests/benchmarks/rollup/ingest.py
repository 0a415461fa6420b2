"""Rows per second from files to every level, beside the plain Spark job: what `tests.benchmarks.ingest` compares."""

from __future__ import annotations

from typing import Any

from tests.benchmarks.ingest import DAY_S, QUICK_S, compared


def figures(quick: bool) -> dict[str, Any]:
    """Return rows per second and the ratio to the plain job, which writes the same rows and one group-by."""
    devices, seconds, rounds = (2, QUICK_S, 1) if quick else (48, DAY_S, 3)
    with compared(devices, seconds, rounds, with_identity=False) as (_, _, found):
        return {
            "ingest_rows_per_s": found["rows_per_s"],
            "ingest_ratio_to_plain_spark": found["ratio_to_plain_spark"],
        }
