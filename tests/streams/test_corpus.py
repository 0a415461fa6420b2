"""A corpus of hostile inputs through the real ingest: no stream stops, each row is accounted for, memory is bounded."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jobs import ingest
from lakehouse.declare.settings import load_settings
from lakehouse.home.set_aside import read_set_aside
from lakehouse.home.table_log import read_columns
from tests.streams import hostile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
FORMATS = ("ndjson", "csv", "zeek", "nfdump", "pcap", "parquet")
READINGS = """
event_time = {{ column = "ts", unit = "s" }}
keys = ["device"]
measures = ["temp", "count"]
groupings = [[]]
levels = ["1m forever"]
[streams.{name}.columns]
device = "string"
temp = "double"
count = {{ type = "int", optional = true }}
"""
PRESETS = {"zeek": "zeek-conn", "nfdump": "nfdump", "pcap": "pcap"}
MB = 1024


def declared(name: str) -> str:
    body = f'preset = "{PRESETS[name]}"\n' if name in PRESETS else READINGS.format(name=name)
    source = "" if name in PRESETS else f'format = "{name}"\n'
    source += f'path = "{name}/*"\nsettle = 0\nbatch_files = 5000\n'
    return f"[streams.{name}]\n{body}[streams.{name}.source]\n{source}"


def test_no_hostile_input_stops_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    config = tmp_path / "tidemark.toml"
    config.write_text('home = "var"\n' + "".join(map(declared, FORMATS)))
    settings, tried = load_settings(config), 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name in FORMATS:
        inputs = getattr(hostile, name)()
        (tmp_path / name).mkdir()
        for file, content in inputs.items():
            (tmp_path / name / file).write_bytes(content)
        tried += len(inputs)

        counts = ingest.run(settings, spark, name)

        assert counts["files"] == len(inputs), name
        assert counts["received"] == counts["accepted"] + counts["quarantined"] + counts["duplicates"], name
        files = {
            table: [path for (path,) in read_columns(getattr(settings.layout, table)(name), ("source_file",))]
            for table in ("raw", "quarantine")
        }
        assert len(files["raw"]) == counts["accepted"] and len(files["quarantine"]) == counts["quarantined"]
        assert sum("/good." in path for path in files["raw"]) == 50, name
        assert ingest.run(settings, spark, name)["files"] == 0
    assert read_set_aside(settings.layout) == []
    assert tried >= 200
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600 * MB
