"""The engine: the one place that runs kernels, on Spark or in this process.

``[engine] runner`` chooses; nothing above the engine asks which one runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from lakehouse.engine.contract import Engine as Engine
from lakehouse.engine.contract import Item as Item
from lakehouse.engine.contract import Session as Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.spark.home import SparkHome


def engine_of(session: Session) -> Engine:
    """Return the engine of a session: the runner that its settings choose; Spark where a session has none.

    No JVM is started before a kernel needs one.
    """
    settings: SparkHome | None = getattr(session, "settings", None)
    if settings is not None and settings.engine.runner == "local":
        from lakehouse.engine.local import LocalEngine

        return LocalEngine()
    from lakehouse.engine.spark import SparkEngine

    return SparkEngine(cast("SparkSession", session), settings.spark.local_cores if settings else None)
