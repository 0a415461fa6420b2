"""Cost of reading documents, from the bytes of a file to typed rows, beside as many readings of JSON, one a line.

Microseconds of processors for each record, the least of three runs: a track of GPX whose points have five elements and
two attributes, interval readings of a meter as ESPI, and a GeoJSON document. ``records`` is the part that makes lines
of the document; ``all`` has the parser as well.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakehouse.ingest.parser.parser import Parser
from lakehouse.ingest.sources.files import landed
from lakehouse.ingest.sources.landed_content import seen
from lakehouse.ingest.sources.lines import parsed_file, records_of
from lakehouse.settings import load_settings
from tests.benchmarks.sources.parser import T0, preset, readings
from tests.ingest.sources.test_logger_presets import READING

COUNT, QUICK, ROUNDS = 100_000, 1_000, 3
GPX = '<gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1"><trk><name>A</name><trkseg>{}</trkseg></trk></gpx>'
ESPI = """<feed xmlns:espi="http://naesb.org/espi"><entry><content><espi:IntervalBlock>{}</espi:IntervalBlock></content>\
</entry></feed>"""
GEO = '{{"type": "FeatureCollection", "features": [{}]}}'
GEO_STREAM = """[streams.s]
event_time = { column = "properties.at", unit = "s" }
levels = ["1d forever"]
source = { path = "l/*", format = "json", record_path = "features" }
columns.v = { path = "properties.v", type = "double" }
"""


def _point(number: int) -> str:
    at = f"{datetime.fromtimestamp(T0 + number, UTC):%Y-%m-%dT%H:%M:%S}.000Z"
    place = f'lat="48.{number % 9999:04}" lon="-11.{number % 7777:04}"'
    more = "<speed>1.2</speed><src>gps</src><sat>8</sat>"
    return f"<trkpt {place}><ele>{number % 500}.4</ele><time>{at}</time>{more}</trkpt>\n"


def _interval(number: int) -> str:
    return READING.format(cost=number % 99, start=T0 + 900 * number, value=number % 999)


def _feature(number: int) -> str:
    end = "," if number else ""
    return f'{end}{{"properties": {{"at": {T0 + number}, "v": {number % 40}.25}}, "geometry": null}}\n'


def _line(number: int) -> str:
    return f'{{"ts": {T0 + number}, "device": "a", "v": {number % 40}.25, "count": {number}}}\n'


KINDS: dict[str, tuple[str, str, Callable[[int], str]]] = {
    "ndjson": (readings("ndjson"), "{}", _line),
    "gpx": (preset("gpx"), GPX, _point),
    "green-button": (preset("green-button"), ESPI, _interval),
    "geojson": (GEO_STREAM, GEO, _feature),
}


def figures(quick: bool) -> dict[str, Any]:
    """Return what a record of each kind costs."""
    return {kind: _measured(kind, QUICK if quick else COUNT) for kind in KINDS}


def _measured(kind: str, count: int) -> dict[str, float]:
    declared, around, record = KINDS[kind]
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        folder = Path(name)
        (folder / "tidemark.toml").write_text(f'home = "var"\n{declared}')
        (folder / "l").mkdir()
        path = folder / "l" / "a"
        path.write_text(around.format("".join(map(record, range(count)))))
        stream = load_settings(folder / "tidemark.toml").stream("s")
        file = landed(str(path), seen(str(path)), stream.source)
        ways: dict[str, Callable[[], Any]] = {
            "records": lambda: records_of(file, stream.source),
            "all": lambda: parsed_file(file, 0, Parser.of(stream, [None])),
        }
        taken: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(ROUNDS):
            for way, read in ways.items():
                started = time.process_time()
                assert sum(table.num_rows for table in read()) == count
                taken[way].append(time.process_time() - started)
    return {f"{way}_us": round(min(each) / count * 1e6, 2) for way, each in taken.items()}
