"""The stream that tests declare when any will do: readings of devices, on three levels, by device and over all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

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
ts = {{ type = "decimal", decimals = 3 }}
temp = "double"
count = "int"
"""


def declared(file_format: str = "ndjson", options: str = "") -> str:
    """Return a configuration of the stream ``readings``, with more options of its source if any."""
    return READINGS.format(format=file_format, options=options)


def write(folder: Path, queries: Mapping[str, str], **predicates: str) -> None:
    """Write registered queries, and predicates that they call, beside a configuration."""
    for place, suffix, texts in (("queries", "sql", queries), ("predicates", "py", predicates)):
        (folder / place).mkdir(exist_ok=True)
        for name, text in texts.items():
            (folder / place / f"{name}.{suffix}").write_text(text)
