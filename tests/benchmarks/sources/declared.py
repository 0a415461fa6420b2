"""Real files declared by looking at them alone: the event time found, beside DuckDB's sniffer, and rows accepted.

Each file of the real sets, its first 2,000 lines, as it lies there, and of ``cases`` each small file that stands for a
kind of logger. Right: the column and unit, or the format, that the set's description names; a doubt is one about the
time. DuckDB: the first column that ``sniff_csv`` gives a type of time.
"""

from __future__ import annotations

import gzip
import itertools
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

from lakehouse.propose.declaration import proposal_of
from lakehouse.propose.sample import NothingToRead, sample_of
from lakehouse.propose.trial import tried
from tests.benchmarks.page import table, write

DATA = Path(__file__).parents[4] / "shared" / "data"
CASES = DATA.parent / "cases"
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
# Of the cases, by folder; files in which no single way to write a time is right are those without a time.
RIGHT_CASES = {
    **dict.fromkeys(
        ("fail-1/", "fail-3", "fail-7", "fail-8", "fail-10", "fail-11", "fail-14"), ("at", "iso")
    ),
    "fail-2/": ("firstSeen", "iso"),
    "fail-4/land/title": ("at", "iso"),
    "fail-4/land/rdb": ("day", "iso"),
    "fail-4/land/toa": ("TIMESTAMP", "iso"),
    "fail-4/land/ws": ("0", "iso"),
    "fail-5": ("at", "iso"),
    "fail-6/land/ns": ("at", "ns"),
    "fail-6/land/twocol": ("day", "iso"),
    **dict.fromkeys(("fail-9/land/nested", "fail-9/land/parallel"), ("ts", "ms")),
    "fail-9/land/json": ("ts", "s"),
    "fail-12": ("day", "iso"),
    "fail-13": ("time", "iso"),
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
    rows.append(_of_cases(3 if quick else 1000))
    found = {row[0]: dict(zip(HEADS[1:], row[1:], strict=True)) for row in rows}
    if not quick:
        _write(rows)
    total = {head: sum(each[head] for each in found.values()) for head in HEADS[1:7]}
    return {"all": total} | found


def _of_set(name: str, right: dict[str, str], most: int) -> list[Any]:
    files = [each for end in ("csv.gz", "ndjson.gz") for each in sorted((DATA / name).rglob(f"*.{end}"))]
    return _counted(name, [(each, right) for each in files[:most]])


def _of_cases(most: int) -> list[Any]:
    files = [
        each
        for each in sorted(CASES.rglob("*"))
        if each.suffix in (".csv", ".tsv", ".txt", ".dat", ".json", ".ndjson") and each.name != "out.txt"
    ]
    rights = [
        dict(right for begin, right in RIGHT_CASES.items() if str(each.relative_to(CASES)).startswith(begin))
        for each in files
    ]
    return _counted("cases", list(zip(files, rights, strict=True))[:most])


def _lines(file: Path) -> Iterator[bytes]:
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
        yield from itertools.islice(lines, LINES)


def _counted(name: str, files: Sequence[tuple[Path, dict[str, str]]]) -> list[Any]:
    counts, accepted, judged, begun = Counter[str](), 0, 0, time.perf_counter()
    for each, right in files:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lines.txt"
            path.write_bytes(b"".join(_lines(each)))
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
    doubts = [each for each in proposal.time.doubts if "UTC" not in each]
    outcome = "doubt" if doubts else "right" if is_right else "wrong"
    return outcome, trial.rows, trial.accepted


def _duckdb_finds(path: Path) -> bool:
    try:
        [(columns,)] = duckdb.execute("SELECT Columns FROM sniff_csv(?)", [str(path)]).fetchall()
    except duckdb.Error:
        return False
    return any(column["type"].startswith(("TIMESTAMP", "DATE")) for column in columns)


def _write(rows: list[list[Any]]) -> None:
    text = " ".join((__doc__ or "").split("\n\n")[1].split())
    write("sources", "declared", "Files declared by looking at them", text, table(HEADS, rows))
