"""Cost of local times in a file of 200,000 rows: in UTC, and in a zone, without and with the hour that comes twice.

A file with that hour is read a second time for its order. *zone_of_record*: each row names its zone; *since*: a number
of seconds since a time in another field; *quoted_lines*: in UTC, of fields in which lines may end. The rows are a
minute apart; the least of three runs, in turns.
"""

from __future__ import annotations

import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from lakehouse.config.stream import Stream
from lakehouse.ingest.parser.parser import Parser
from lakehouse.ingest.sources.lines import parsed_file
from lakehouse.ingest.sources.manifest import LandedFile
from lakehouse.settings import load_settings

ROWS, QUICK_ROWS, TURNS = 200_000, 5_000, 3
CONFIG = """
[streams.s]
event_time = {{ column = "at", {time} }}
keys = ["device"]
measures = ["kwh"]
levels = ["1d forever"]
source = {{ path = "landing/*.csv", format = "csv"{source} }}
columns = {{ at = "string", device = "string", kwh = "int" }}
"""
HEADER = ("at", "device", "kwh", "zone")
BERLIN = "Europe/Berlin"
# When the clocks are put back.
CHANGE = datetime(2025, 10, 26, 1, tzinfo=UTC)


def figures(quick: bool) -> dict[str, Any]:
    """Return the seconds of each way, and how many times as long as in UTC it takes with the hour."""
    count = QUICK_ROWS if quick else ROWS
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        folder = Path(name)
        (folder / "landing").mkdir()
        _write(folder / "landing" / "without.csv", CHANGE + timedelta(days=1), count)
        _write(folder / "landing" / "with.csv", CHANGE - timedelta(minutes=count // 2), count)
        _write_counts(folder / "landing" / "counts.csv", count)
        utc, berlin = (_declared(folder, f'unit = "iso", timezone = "{zone}"') for zone in ("UTC", BERLIN))
        ways = {
            "utc": (utc, "without"),
            "zone": (berlin, "without"),
            "zone_with_hour": (berlin, "with"),
            "zone_of_record": (_declared(folder, 'unit = "iso", timezone_column = "zone"'), "without"),
            "since": (_declared(folder, 'unit = "s", since = "zone"'), "counts"),
            "quoted_lines": (_declared(folder, 'unit = "iso"', ", quoted_lines = true"), "without"),
        }
        seconds = dict.fromkeys(ways, float("inf"))
        for _ in range(TURNS):
            for way, (stream, file) in ways.items():
                seconds[way] = min(seconds[way], _seconds(stream, f"{file}.csv", count))
    over = {"with_hour_over_without": round(seconds["zone_with_hour"] / seconds["zone"], 2)}
    return {f"{way}_s": round(each, 3) for way, each in seconds.items()} | over


def _write(path: Path, start: datetime, count: int) -> None:
    moments = (start + timedelta(minutes=n) for n in range(count))
    shown = (moment.astimezone(ZoneInfo(BERLIN)).strftime("%Y-%m-%d %H:%M:%S") for moment in moments)
    path.write_text(
        ",".join(HEADER) + "\n" + "".join(f"{at},meter-1,{n % 100},{BERLIN}\n" for n, at in enumerate(shown)),
        encoding="utf-8",
    )


def _write_counts(path: Path, count: int) -> None:
    path.write_text(
        ",".join(HEADER)
        + "\n"
        + "".join(f"{60 * n},meter-1,{n % 100},2025-10-27 00:00:00\n" for n in range(count)),
        encoding="utf-8",
    )


def _declared(folder: Path, time: str, source: str = "") -> Stream:
    config = folder / "tidemark.toml"
    config.write_text(CONFIG.format(time=time, source=source), encoding="utf-8")
    return load_settings(config).stream("s")


def _seconds(stream: Stream, file: str, count: int) -> float:
    parser, started = Parser.of(stream, (HEADER,)), time.perf_counter()
    blocks = list(parsed_file(LandedFile(file, 0, 0), 0, parser))
    took = time.perf_counter() - started
    # All rows are good: each row of the hour has the pass that the order shows.
    assert sum(rows["reason"].null_count for rows in blocks) == count
    return took
