"""A process without a session of Spark, in which nothing may start one."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from lakehouse.settings import Settings
from lakehouse.spark.session import LazySession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _NoSession(LazySession):
    def present(self) -> SparkSession | None:
        return None

    def started(self) -> SparkSession:
        raise AssertionError("Spark was started")


def no_session(settings: Settings) -> SparkSession:
    """Return what stands for a session that is never started."""
    return cast("SparkSession", _NoSession(settings))
