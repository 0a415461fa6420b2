"""Hostile files through the real ingest: no stream stops, each record is accounted for, memory is bounded."""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.faults.report import Progress
from tests.ingest import hostile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.settings import Settings

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
MOST_KB = 600 * 1024


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Put the corpus of every format through a stream of its own."""
    from lakehouse.settings import Settings
    from lakehouse.spark.session import started_session

    with tempfile.TemporaryDirectory(prefix="tidemark-faults-") as name:
        spark = started_session(Settings(home=Path(name) / "spark"))
        try:
            return taken_in(spark, Path(name), progress)
        finally:
            spark.stop()


def taken_in(spark: SparkSession, folder: Path, progress: Progress) -> dict[str, Any]:
    """Put the corpus through streams below a folder; return how many files there were, and what is wrong."""
    from lakehouse.settings import load_settings

    config = folder / "tidemark.toml"
    config.write_text('home = "var"\n' + "".join(map(_declared, FORMATS)), encoding="utf-8")
    settings, tried = load_settings(config), 0
    broken = list[str]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name in progress(iter(FORMATS), len(FORMATS)):
        inputs = getattr(hostile, name)()
        (folder / name).mkdir()
        for file, content in inputs.items():
            (folder / name / file).write_bytes(content)
        tried += len(inputs)
        # Without an identity a content is read once, under whichever names it lands; nothing is nobody's content.
        some = [content for content in inputs.values() if content]
        read = len(inputs) - (0 if settings.stream(name).identity else len(some) - len(set(some)))
        broken += [f"{name}: {wrong}" for wrong in _wrong_with(spark, settings, name, read)]
    gained = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    broken += [f"memory grew by {gained} KB"] if gained > MOST_KB else []
    return {"tried": tried, "formats": len(FORMATS), "broken": broken}


def _wrong_with(spark: SparkSession, settings: Settings, name: str, inputs: int) -> list[str]:
    """Take a stream's files in; return what does not hold then."""
    from jobs import ingest
    from lakehouse.storage.set_aside import read_set_aside
    from lakehouse.storage.tables.table_log import read_columns

    counts = ingest.run(settings, spark, name)
    files = {
        table: [path for (path,) in read_columns(getattr(settings.layout, table)(name), ("source_file",))]
        for table in ("raw", "quarantine")
    }
    placed = counts["accepted"] + counts["quarantined"] + counts["duplicates"]
    good = sum(path.startswith("good.") for path in files["raw"])
    rules = {
        f"{counts['files']} of {inputs} files were taken in": counts["files"] == inputs,
        f"{counts['received']} came in, {placed} are accounted for": counts["received"] == placed,
        f"{len(files['raw'])} rows in raw": len(files["raw"]) == counts["accepted"],
        f"{len(files['quarantine'])} in quarantine": len(files["quarantine"]) == counts["quarantined"],
        f"{good} good rows of 50": good == 50,
        "files are taken in again": ingest.run(settings, spark, name)["files"] == 0,
        "files were set aside": read_set_aside(settings.layout) == [],
    }
    return [rule for rule, holds in rules.items() if not holds]


def _declared(name: str) -> str:
    body = f'preset = "{PRESETS[name]}"\n' if name in PRESETS else READINGS.format(name=name)
    source = "" if name in PRESETS else f'format = "{name}"\n'
    source += f'path = "{name}/*"\nsettle = 0\nbatch_files = 5000\n'
    return f"[streams.{name}]\n{body}[streams.{name}.source]\n{source}"
