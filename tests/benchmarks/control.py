"""Cost of the control store of a home on one machine, beside a file for each row: changes, reads, and imports.

    python -m tests.benchmarks.control [--quick] [--json]

Medians, in turns. ``change``: a row of 400 bytes put in place of the one before; ``over_file`` compares it with a file
that is renamed, ``over_synced_file`` with one that is on disk before it has its name, which a row is too. ``read_N``:
all of N rows. ``wal``: the same with a write-ahead log, which is not used (decision 0029). ``sqlalchemy_ms``: what
importing SQLAlchemy takes a process that has just started, in processors' time, beside ``sqlite3_ms``.
"""

from __future__ import annotations

import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from lakehouse.storage.atomic_files import write_json
from lakehouse.storage.control.store import FILE, store_of
from lakehouse.storage.layout import Home
from tests.benchmarks.parts import run_parts

TURNS, QUICK_TURNS = 100, 3
ROWS = (20, 800)
KEEP = (
    "INSERT INTO tidemark_outcomes VALUES (:home, :job, :stream, :outcome) "
    "ON CONFLICT (home, job, stream) DO UPDATE SET outcome = excluded.outcome"
)
ALL = "SELECT outcome FROM tidemark_outcomes WHERE home = :home"


def figures(quick: bool) -> dict[str, float]:
    """Return median milliseconds of each, both ways, and their ratios."""
    turns = QUICK_TURNS if quick else TURNS
    found = {f"{name}_ms": _import_ms(name) for name in ("sqlite3", "sqlalchemy")}
    for rows in ROWS:
        with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
            found |= _compared(Path(folder), rows, turns)
    return found


def _compared(root: Path, rows: int, turns: int) -> dict[str, float]:
    ways: dict[str, Callable[[int], None]] = {
        "file_change": partial(_to_file, root / "files", False),
        "synced_file_change": partial(_to_file, root / "synced", True),
        "change": partial(_to_store, root),
        "wal_change": partial(_to_log, root),
    }
    for change in ways.values():
        change(0)
    for number in range(rows):
        _to_file(root / "files", False, number)
    with closing(sqlite3.connect(root / FILE)) as database, database:
        kept = [(str(number), json.dumps(_outcome(number))) for number in range(rows)]
        database.executemany("INSERT OR REPLACE INTO tidemark_outcomes VALUES ('', ?, 's', ?)", kept)
    questions: dict[str, Callable[[int], object]] = {
        f"file_read_{rows}": lambda _: [
            json.loads(path.read_text("utf-8")) for path in (root / "files").glob("*.json")
        ],
        f"read_{rows}": lambda _: [json.loads(text) for (text,) in store_of(Home(root)).rows(ALL)],
    }
    taken = {name: list[float]() for name in (*ways, *questions)}
    for turn in range(turns):
        for name, work in (ways | questions).items():
            taken[name].append(_ms(partial(work, turn % rows)))
    median = {name: statistics.median(each) for name, each in taken.items()}
    return {f"{name}_ms": round(value, 3) for name, value in median.items()} | {
        "change_over_file": round(median["change"] / median["file_change"], 2),
        "change_over_synced_file": round(median["change"] / median["synced_file_change"], 2),
        "wal_change_over_file": round(median["wal_change"] / median["file_change"], 2),
        f"read_{rows}_over_files": round(median[f"read_{rows}"] / median[f"file_read_{rows}"], 2),
    }


def _outcome(number: int) -> dict[str, object]:
    figures = {f"figure_{n}": number + n for n in range(12)}
    return {"job": str(number), "stream": "s", "ok": True, "ended": time.time(), "figures": figures}


def _to_file(folder: Path, durable: bool, number: int) -> None:
    write_json(folder / f"{number}.json", _outcome(number), durable=durable)


def _to_store(root: Path, number: int) -> None:
    store_of(Home(root)).change(KEEP, job=str(number), stream="s", outcome=json.dumps(_outcome(number)))


def _to_log(root: Path, number: int) -> None:
    with closing(sqlite3.connect(root / f"wal-{FILE}", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = wal")
        database.execute("CREATE TABLE IF NOT EXISTS kept (job TEXT PRIMARY KEY, outcome TEXT)")
        values = {"job": str(number), "outcome": json.dumps(_outcome(number))}
        database.execute("INSERT OR REPLACE INTO kept VALUES (:job, :outcome)", values)


def _import_ms(name: str) -> float:
    program = f"import time; s = time.process_time(); import {name}; print(time.process_time() - s)"
    taken = [
        float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
        for _ in range(3)
    ]
    return round(1000 * statistics.median(taken), 1)


def _ms(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


if __name__ == "__main__":
    run_parts(__doc__, __package__, ("control",), only_in_full=("control_manifests",))
