"""A session of the tests' process that is asleep until it is used, as that of a process which has not started Spark.

A job's session starts Spark when something is first asked of it; functions of ``pyspark.sql.functions`` fail earlier.
The tests of a run share one JVM, so without this no test would notice a job that calls them too early.
"""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from lakehouse.declare.settings import Settings
from lakehouse.spark import session
from lakehouse.spark.session import LazySession


class SleepingSession(LazySession):
    """A started session that PySpark cannot see from ``sleep`` on until something is asked of it."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._context = super().started().sparkContext
        starts = session._start

        def awakened(settings: Settings) -> SparkSession:
            self.started()
            return starts(settings)

        # Commands and DAGs build a session of their own, which Spark makes of the one that runs.
        session._start = awakened

    def started(self) -> SparkSession:
        """Return the session itself, awake."""
        if hasattr(self, "_context"):
            _see(self._context)
        return super().started()

    def is_started(self) -> bool:
        """Return whether somebody has used it since it fell asleep."""
        return SparkContext._active_spark_context is not None

    def sleep(self) -> None:
        """Hide the session from PySpark until something is asked of it."""
        _see(None)


def _see(context: Any) -> None:
    SparkContext._active_spark_context = context
