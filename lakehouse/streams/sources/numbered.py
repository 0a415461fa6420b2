"""Numbered lines, as files and topics alike become them, and which headers the lines of a batch are under."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from lakehouse.streams.sources.manifest import Layout

LINES = "source_file string, source_line bigint, layout int, record binary, fault string"
LINE_SCHEMA = pa.schema(
    {
        "source_file": pa.string(),
        "source_line": pa.int64(),
        "layout": pa.int32(),
        "record": pa.binary(),
        "fault": pa.string(),
    }
)


@dataclass(frozen=True)
class NumberedLines:
    """Lines of a batch and the headers they refer to."""

    frame: DataFrame
    layouts: tuple[Layout, ...]
