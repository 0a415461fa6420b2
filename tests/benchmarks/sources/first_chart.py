"""From a file that nobody has declared to a chart: seconds of ``tidemark add``, ``run`` and ``plot``, and what it took.

The smallest file of each real set, as it lies there, and a file of each folder of ``cases`` that has one; each in a
folder of its own, by commands as a user gives them. *Unaided*: a chart is there after the three commands, and no more
than a thousandth of the records were rejected. *Corrected*: it is so after the time zone, the one thing that no file
tells, was given. Seconds: medians; ``run`` starts Spark.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.page import table, write
from tests.benchmarks.sources.declared import CASES, DATA, RIGHT

HEADS = ("file", "outcome", "records", "accepted", "add s", "run s", "plot s")
COMMAND = [str(Path(sys.executable).parent / "tidemark")]
ENDS = ("csv", "csv.gz", "ndjson.gz", "ndjson", "tsv", "txt", "dat", "json")
# The share of records that may be rejected.
FEW = 0.001


def figures(quick: bool) -> dict[str, Any]:
    """Return how many files were charted unaided, after a correction and not at all, and seconds of each command."""
    if not DATA.is_dir():
        return {"files": 0, "absent": str(DATA)}
    rows = [_of_file(*each) for each in [*_files()][-1 if quick else 0 :]]
    if not quick:
        _write(rows)
    outcomes = [row[1] for row in rows]
    seconds = {head: statistics.median(row[place] for row in rows) for place, head in enumerate(HEADS[4:], 4)}
    return {"files": len(rows), **{each: outcomes.count(each) for each in sorted({*outcomes})}, **seconds}


def _files() -> Iterator[tuple[str, Path]]:
    folders = [DATA / name for name in RIGHT] + sorted(CASES.glob("*/land"))
    for folder in folders:
        found = [file for end in ENDS for file in folder.rglob(f"*.{end}")]
        if found:
            smallest = min(found, key=lambda file: file.stat().st_size)
            yield str(smallest.relative_to(DATA.parent)), smallest


def _of_file(name: str, file: Path) -> list[Any]:
    """Return what became of a file, and seconds of each command."""
    for outcome, more in (("unaided", ()), ("corrected", ("--timezone", "Europe/Berlin"))):
        with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
            shutil.copy(file, folder)
            row = _charted(Path(folder), file.name, more)
        if row[1] - row[2] <= FEW * row[1] and row[-1]:
            return [name, outcome, *row[1:-1]]
    return [name, row[0], *row[1:-1]]


def _charted(folder: Path, file: str, more: tuple[str, ...]) -> list[Any]:
    """Return what failed, records, those accepted, seconds of each command, and whether there is a chart."""
    added, add_s = _ran(folder, "add", file, *more, "--json")
    if not added:
        return ["not declared", 0, 0, add_s, 0.0, 0.0, False]
    found = json.loads(added)
    declared = tomllib.loads(found["toml"])["streams"][found["stream"]]
    status, run_s = _ran(folder, "run", "--json")
    measure = [*declared.get("measures", ())][:1]
    chart, plot_s = _ran(folder, "plot", found["stream"], *measure)
    trial = found["trial"]
    failed = "not run" if not status else "no chart" if "●" not in chart else "rejected"
    return [failed, trial["rows"], trial["accepted"], add_s, run_s, plot_s, bool(status) and "●" in chart]


def _ran(folder: Path, *words: str) -> tuple[str, float]:
    """Return what a command printed, nothing if it failed, and its seconds."""
    begun = time.perf_counter()
    ended = subprocess.run([*COMMAND, *words], cwd=folder, capture_output=True, text=True, check=False)
    seconds = round(time.perf_counter() - begun, 1)
    return (ended.stdout if ended.returncode == 0 else ""), seconds


def _write(rows: list[list[Any]]) -> None:
    text = " ".join((__doc__ or "").split("\n\n")[1].split())
    write("sources", "first_chart", "From an unknown file to a chart", text, table(HEADS, rows))
