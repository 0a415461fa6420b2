"""Small lakehouses for the adapters: a stream of numbered readings, and how to see its tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobs import ingest
from lakehouse.catalog.settings import Settings
from lakehouse.spark import tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READINGS = """
home = "var"
[streams.readings]
event_time = {{ column = "ts", unit = "s" }}
arrival_time = {{ column = "received", unit = "s" }}
clock_bounds = {{ behind = "30d", ahead = "1h" }}
identity = ["device", "ts"]
duplicates_within = "1d"
keys = ["device"]
measures = ["temp", "count"]
groupings = [["device"], []]
levels = ["1s for 1m", "10s for 10m", "1m forever"]
[streams.readings.source]
path = "landing/*"
format = "{format}"
settle = 0
{options}
[streams.readings.columns]
device = "string"
ts = "decimal"
temp = "double"
count = "int"
"""


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

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Return some columns of raw, quarantine or ledger, in order of the first ones."""
        frame = tables.read(self.spark, getattr(self.settings.layout, table)(self.stream))
        return sorted((tuple(row) for row in frame.select(*columns).collect()), key=repr)


@pytest.fixture
def lake(spark: SparkSession, lakehouse_of: Callable[[str], Settings]) -> Callable[..., Lake]:
    """Return a lakehouse of readings in the asked format."""

    def make(file_format: str = "ndjson", options: str = "") -> Lake:
        text = READINGS.format(format=file_format, options=options)
        text = text.replace('ts = "decimal"', 'ts = { type = "decimal", decimals = 3 }')
        return Lake(spark, lakehouse_of(text))

    return make
