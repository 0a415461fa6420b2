"""The number of Spark jobs that a call runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def jobs_of(session: SparkSession, call: Callable[[], object]) -> int:
    """Return how many Spark jobs a call runs in this thread."""
    context = session.sparkContext
    context.setJobGroup("counted", "counted")
    before = set(context.statusTracker().getJobIdsForGroup("counted"))
    try:
        call()
        return len(set(context.statusTracker().getJobIdsForGroup("counted")) - before)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
