"""A history for benchmarks of what comes after it: taken in by the real jobs, in pieces that need no Spark."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pacsv

from jobs import build_rollups, ingest
from lakehouse.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Rows of a piece: a file that is judged, and nodes that are folded, in the process of the jobs.
PIECE = 1_000_000


def take_in(settings: Settings, spark: SparkSession, stream: str, pieces: Iterable[pa.Table]) -> None:
    """Land rows of a stream of CSV files piece by piece, each in raw and in the rollups before the next one comes."""
    landing = Path(settings.streams[stream].source.path).parent
    landing.mkdir(exist_ok=True)
    for number, piece in enumerate(pieces):
        pacsv.write_csv(piece, landing / f"history-{number:05d}.csv")
        ingest.run(settings, spark, stream)
        build_rollups.run(settings, spark, stream)
