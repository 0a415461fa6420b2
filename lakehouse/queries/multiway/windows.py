"""The rows of a join of three streams or more as a batch sees them: its own, and those of windows that they can meet.

``RawRows`` are read from raw, as the same join in SQL would read them, and nothing is kept. ``Windows`` are read from
the query's own table, sorted by slot; its log tells of each file the side, rows, batches and times, so Spark opens only
files that a batch can meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.home.table_log import FileFacts, file_facts
from lakehouse.spark import tables

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakehouse.queries.multiway.query import MultiwayQuery

_BOUNDS = ("batch", "event_us")
TAKEN = ("rows", "missed", "refused", "unusable")
Since = Sequence[int | None]


@dataclass(frozen=True)
class Windows:
    """Rows of the query's table: ``new`` ones, appended by now, and ``stored`` ones of earlier batches.

    ``since_us``: per side, from when on stored rows are looked at; None for all.
    """

    spark: SparkSession
    query: MultiwayQuery
    table: Path
    batch: int
    since_us: Since
    files: Sequence[FileFacts]

    @classmethod
    def of(
        cls, spark: SparkSession, query: MultiwayQuery, table: Path, batch: int, since_us: Since
    ) -> Windows:
        """Return the rows that a table has now, as a batch sees them that has been appended."""
        return cls(spark, query, table, batch, since_us, file_facts(table, _BOUNDS))

    def new(self, side: int) -> DataFrame:
        """Return a side's new rows."""
        files = [each.path for each in self._of(side) if self._is_new(each)]
        return self._read(side, files).where(F.col("batch") == self.batch)

    def stored(self, side: int) -> DataFrame:
        """Return a side's rows of earlier batches that are looked at."""
        files = [each.path for each in self._of(side) if self._is_stored(each)]
        return self._read(side, files).where(self._is_held(side))

    def whole(self, side: int) -> DataFrame:
        """Return both, in one pass over the files."""
        files = [each.path for each in self._of(side) if self._is_new(each) or self._is_stored(each)]
        rows = self._read(side, files)
        is_new = F.col("batch") == self.batch
        return rows.where(is_new | self._is_held(side)).withColumn("is_new", is_new)

    def met_by(self, side: int, stop: int) -> DataFrame:
        """Return the rows of a stop that a block of a side meets."""
        return self.whole(stop) if stop < side else self.stored(stop)

    def held(self, side: int) -> int:
        """Return how many rows a side has that are looked at, new ones too; at most."""
        return sum(each.rows for each in self._of(side) if self._is_new(each) or self._is_stored(each))

    def _of(self, side: int) -> list[FileFacts]:
        return [each for each in self.files if each.partition["side"] == str(side)]

    def _is_new(self, file: FileFacts) -> bool:
        newest = file.bounds["batch"][1]
        return newest is None or newest >= self.batch

    def _is_stored(self, file: FileFacts) -> bool:
        oldest, since = file.bounds["batch"][0], self.since_us[int(file.partition["side"] or 0)]
        latest = file.bounds["event_us"][1]
        is_earlier = oldest is None or oldest < self.batch
        return is_earlier and (since is None or latest is None or latest >= since)

    def _is_held(self, side: int) -> Column:
        is_earlier, since_us = F.col("batch") < self.batch, self.since_us[side]
        return is_earlier if since_us is None else is_earlier & (F.col("event_us") >= since_us)

    def _read(self, side: int, files: Sequence[Path]) -> DataFrame:
        return tables.read_files(self.spark, self.table, files).withColumn("side", F.lit(side))
