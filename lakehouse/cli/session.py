"""The session of a command: what Spark's JVM says goes to a log of the home, not between the lines that people read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lakehouse.declare.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session_of(settings: Settings) -> SparkSession:
    """Return this process's session, which starts Spark when something is first asked of it.

    Raises:
        RuntimeError: when jars are missing, with the command that fetches them.
    """
    from lakehouse.spark.session import build_session, send_words_to

    settings.home.mkdir(parents=True, exist_ok=True)
    # Open as long as the process, as the JVM is.
    send_words_to(os.open(settings.layout.spark_log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    return build_session(settings)
