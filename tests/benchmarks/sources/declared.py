"""Real files declared by looking at them alone: the event time found, beside DuckDB's sniffer, and rows accepted.

Each file of the real sets, its first 2,000 lines, as it lies there. Right: the column and unit, or the format, that the
set's description names. DuckDB: the first column that ``sniff_csv`` gives a type of time.
"""

from __future__ import annotations

import gzip
import itertools
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb

from lakehouse.propose.declaration import proposal_of
from lakehouse.propose.sample import NothingToRead, sample_of
from lakehouse.propose.trial import tried
from tests.benchmarks.page import table, write

DATA = Path(__file__).parents[4] / "shared" / "data"
LINES = 2_000
# By folder: columns that are a right answer, and how each is read; several name moments of a row.
RIGHT: dict[str, dict[str, str]] = {
    "backbone-atm-a": {"ts": "s"},
    "building-fire": {"Timestamp": "iso", "Time": "%Y-%m-%d-%H:%M:%S"},
    "env-telemetry": {"ts": "s"},
    "iot-packets": {"ts": "s"},
    "lorawan-sensors": {"reported_at": "ms", "_timestamp": "ms", "time": "iso"},
    "nab-real": {"timestamp": "iso"},
    "office-rooms": {"timestamp": "iso"},
    "ooo-umts": {
        "S.Client.Detection.Time": "ms",
        "S.Message.received.time": "iso",
        "S.Message.received.time.ms": "ms",
    },
    "smart-meter-water": {"unix_ts": "s"},
    "soccer-gnss": {"Timestamp": "excel"},
    "unsw-nb15-flows": {"28": "s", "29": "s"},
}
HEADS = (
    "set",
    "files",
    "right",
    "right with a doubt",
    "none found",
    "wrong",
    "DuckDB finds a time",
    "rows accepted",
    "seconds",
)


def figures(quick: bool) -> dict[str, Any]:
    """Return counts by set; a full run writes them to a page."""
    if not DATA.is_dir():
        return {"all": {}, "absent": str(DATA)}
    rows = [_of_set(name, right, 3 if quick else 1000) for name, right in RIGHT.items()]
    found = {row[0]: dict(zip(HEADS[1:], row[1:], strict=True)) for row in rows}
    if not quick:
        _write(rows)
    total = {head: sum(each[head] for each in found.values()) for head in HEADS[1:7]}
    return {"all": total} | found


def _of_set(name: str, right: dict[str, str], most: int) -> list[Any]:
    files = [each for end in ("csv.gz", "ndjson.gz") for each in sorted((DATA / name).rglob(f"*.{end}"))][
        :most
    ]
    counts, accepted, judged, begun = Counter[str](), 0, 0, time.perf_counter()
    for each in files:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lines.txt"
            with gzip.open(each, "rt", encoding="utf-8", errors="replace") as lines:
                path.write_text("".join(itertools.islice(lines, LINES)))
            outcome, rows, good = _declared(path, right)
            counts[outcome] += 1
            counts["duckdb"] += _duckdb_finds(path)
            judged, accepted = judged + rows, accepted + good
    share = round(accepted / judged, 4) if judged else 0
    outcomes = [counts[each] for each in ("right", "doubt", "none", "wrong")]
    return [name, len(files), *outcomes, counts["duckdb"], share, round(time.perf_counter() - begun, 1)]


def _declared(path: Path, right: dict[str, str]) -> tuple[str, int, int]:
    """Return how the event time was found, and how many rows were judged and accepted."""
    try:
        proposal = proposal_of("lines", sample_of(path), str(path))
    except NothingToRead:
        return "none", 0, 0
    trial = tried(proposal.stream(path.parent), [path], LINES)
    time_ = proposal.time.declared
    is_right = right.get(proposal.time.names[0]) == time_.get("format", time_.get("unit"))
    doubts = [each for each in proposal.doubts if "UTC" not in each]
    outcome = "doubt" if doubts else "right" if is_right else "wrong"
    return outcome, trial.rows, trial.accepted


def _duckdb_finds(path: Path) -> bool:
    try:
        [(columns,)] = duckdb.execute("SELECT Columns FROM sniff_csv(?)", [str(path)]).fetchall()
    except duckdb.Error:
        return False
    return any(column["type"].startswith(("TIMESTAMP", "DATE")) for column in columns)


def _write(rows: list[list[Any]]) -> None:
    text = f"The first {LINES:,} lines of each file of the real sets. " + " ".join(
        (__doc__ or "").split("\n\n")[1].split()
    )
    write("sources", "declared", "Files declared by looking at them", text, table(HEADS, rows))
