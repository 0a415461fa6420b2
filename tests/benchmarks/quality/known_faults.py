"""Faults of the thirteen real sets: found and missed by rules of a person who knows them, and reported where none is.

``sets.toml`` declares the sets with their rules. What is known of them does not come from the rules: faults that the
sets' descriptions name, counted by DuckDB in the files as they lie there (``known.toml``), and the windows in which
people marked anomalies of NAB's series. A fault is a row, a period or a window. Reported where none is: whatever a rule
breaks, or a reason rejects, beyond what is known of it. Missed are anomalies of NAB whose values are ordinary, and
two messages that arrived in the same millisecond as those that overtook them.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb

from jobs import build_rollups, check_quality, ingest
from lakehouse.settings import Settings, load_settings
from lakehouse.spark.session import build_session
from tests.benchmarks.page import table, write
from tests.support.table_rows import table_rows

HERE = Path(__file__).parent
DATA = HERE.parents[3] / "shared" / "data"
# By stream, its set; those of the series of NAB have windows.
SETS = {
    **{"backbone": "backbone-atm-a", "fires": "building-fire", "oxygen": "building-fire"},
    **{"arrays": "env-telemetry", "devices": "iot-packets", "gateways": "lorawan-sensors"},
    **{"tower": "lorawan-sensors", "testers": "lorawan-sensors", "offices": "office-rooms"},
    **{
        "messages": "ooo-umts",
        "nodes": "room-climate",
        "water": "smart-meter-water",
        "players": "soccer-gnss",
    },
    **{"flows": "unsw-nb15-flows", "connections": "zeek-m57-conn"},
}
SERIES = {
    "machine": ("machine_temperature_system_failure",),
    "ambient": ("ambient_temperature_system_failure",),
    "latency": ("ec2_request_latency_system_failure",),
    "cpu": ("cpu_utilization_asg_misconfiguration",),
    "taxi": ("nyc_taxi",),
    "keys": ("rogue_agent_key_hold", "rogue_agent_key_updown"),
}
FAULTS = tomllib.loads((HERE / "known.toml").read_text("utf-8"))["faults"]
QUICK = ("latency",)
HEADS = ("set", "fault", "reported by", "known", "found", "missed", "reported where none is")
READERS = """
CREATE MACRO csv(p) AS TABLE FROM read_csv('{data}/' || p, filename = true);
CREATE MACRO json(p) AS TABLE FROM read_json('{data}/' || p, sample_size = -1);
CREATE MACRO wide(p) AS TABLE
    FROM read_csv('{data}/' || p, all_varchar = true, union_by_name = true, nullstr = 'no such text', filename = true);
CREATE MACRO lines(p) AS TABLE SELECT line, row_number() OVER () AS number
    FROM read_csv('{data}/' || p, columns = {{'line': 'VARCHAR'}}, delim = chr(1), quote = '', header = false);
"""
Row = tuple[Any, ...]


def figures(quick: bool) -> dict[str, Any]:
    """Return faults by outcome; a full run writes a page of them by set."""
    if not DATA.is_dir():
        return {"known": 0, "absent": str(DATA)}
    streams = QUICK if quick else (*SETS, *SERIES)
    with tempfile.TemporaryDirectory() as folder:
        settings = _settings(Path(folder), "nodes" in streams)
        rows = [row for stream in streams for row in _of_stream(settings, stream)]
    if not quick:
        says = " ".join((__doc__ or "").split("\n\n", 1)[1].split())
        write("quality", "known_faults", "Known faults of real sets", says, table(HEADS, sorted(rows)))
    return {name: sum(row[place] for row in rows) for place, name in enumerate(HEADS) if place > 2}


def _settings(folder: Path, has_rooms: bool) -> Settings:
    if has_rooms:
        with tarfile.open(DATA / "room-climate" / "room_climate_location_A.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    text = (HERE / "sets.toml").read_text("utf-8").replace("{data}", str(DATA))
    (folder / "tidemark.toml").write_text(text.replace("{rooms}", str(folder / "datasets-location_A")))
    return load_settings(folder / "tidemark.toml")


def _of_stream(settings: Settings, stream: str) -> Iterator[Row]:
    """Yield a row for each fault that is known of a stream, and one for whatever else is reported of it."""
    session = build_session(settings)
    for job in (ingest, build_rollups, check_quality):
        job.run(settings, session, stream)
    reported = _reported(settings, stream)
    if stream in SERIES:
        yield _of_series(settings, stream, reported)
    for fault in FAULTS:
        if fault["stream"] == stream:
            found = sum(reported.pop(signal, 0) for signal in fault["signal"].split(" + "))
            known = _counted(fault["known"])
            least = min(found, known)
            yield fault["set"], fault["fault"], fault["signal"], known, least, known - least, found - least
    is_named = stream in SERIES or any(fault["stream"] == stream for fault in FAULTS)
    if reported or not is_named:
        own = (SETS.get(stream, "nab-real"), f"nothing else of {stream}", ", ".join(sorted(reported)) or "-")
        yield (*own, 0, 0, 0, sum(reported.values()))


def _reported(settings: Settings, stream: str) -> Counter[str]:
    """Return what is reported of a stream by rule, by reason of rejected records, and as duplicates."""
    ((reasons, duplicates),) = table_rows(settings.layout.ledger(stream), "reasons", "duplicates")
    found = Counter({reason.removeprefix("rule_"): rows for reason, rows in dict(reasons or {}).items()})
    columns = ("expectation", "broken", "observed", "success", "stream")
    for rule, broken, observed, success, of in table_rows(settings.layout.quality, *columns):
        if of == stream and not success:
            found[rule] += int(observed if broken is None else broken)
    return +(found + Counter(duplicates=duplicates))


def _of_series(settings: Settings, stream: str, reported: Counter[str]) -> Row:
    """Return a row for the windows of a stream's series: found is one in which a record was rejected."""
    windows = json.loads((DATA / "nab-real" / "combined_windows.json").read_text("utf-8"))
    known = [window for name in SERIES[stream] for window in windows[f"realKnownCause/{name}.csv"]]
    rule = "value_be_between"
    columns = ("reason", "decode(record)")
    records = [
        text for reason, text in table_rows(settings.layout.quarantine(stream), *columns) if rule in reason
    ]
    times = [text.partition(",")[0] for text in records]
    found = sum(any(low <= time <= high for time in times) for low, high in known)
    outside = sum(not any(low <= time <= high for low, high in known) for time in times)
    reported.pop(rule, None)
    return "nab-real", f"marked windows of {stream}", rule, len(known), found, len(known) - found, outside


def _counted(query: str) -> int:
    with duckdb.connect() as connection:
        connection.execute(READERS.format(data=DATA))
        ((count,),) = connection.execute(query).fetchall()
    return int(count)
