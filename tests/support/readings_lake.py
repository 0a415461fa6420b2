"""Small lakehouses for the adapters: a stream of numbered readings, and how to see its tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobs import ingest, requeue
from lakehouse.settings import Settings
from tests.support.readings import declared
from tests.support.table_rows import table_rows
from tests.support.taking_in import take_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Lake:
    """One stream's lakehouse under test."""

    spark: SparkSession
    settings: Settings
    stream: str = "readings"

    def land(self, name: str, content: bytes | str) -> None:
        """Put a file where the stream looks for it."""
        folder = Path(self.settings.streams[self.stream].source.path).parent
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)

    def ingest(self) -> dict[str, Any]:
        """Run the ingest job."""
        return ingest.run(self.settings, self.spark, self.stream)

    def take_in(self) -> None:
        """Put what has landed into the tables as an ingest would."""
        take_in(self.settings, self.spark, self.stream)

    def requeue(self) -> dict[str, Any]:
        """Put all that is open in quarantine through again."""
        return requeue.run(self.settings, self.spark, self.stream)

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Return some columns of raw, quarantine or ledger, in order of the first ones."""
        return sorted(table_rows(getattr(self.settings.layout, table)(self.stream), *columns), key=repr)


@pytest.fixture
def lake(spark: SparkSession, lakehouse_of: Callable[[str], Settings]) -> Callable[..., Lake]:
    """Return a lakehouse of readings in the asked format."""

    def make(file_format: str = "ndjson", options: str = "") -> Lake:
        return Lake(spark, lakehouse_of(declared(file_format, options)))

    return make
