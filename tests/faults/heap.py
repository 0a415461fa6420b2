"""Large batches in a JVM of 512 MB, through ingest, rollup, join and publish: the tables hold what they do with room.

A run may end with an error that people can read; the runs that follow must come to an end.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.faults import subject
from tests.faults.lab import Verdict, differences
from tests.faults.report import Progress
from tests.queries.multiway.streams import T0

STREAMS = ("doors", "badges")
# Batches of more than 128 MB of lines are read by Spark; quickly, those of Parquet.
ROWS, QUICK_ROWS, FILES, ROOMS = 1_800_000, 20_000, 4, 2_000
# A batch that fails three times is halved; the runs until its halves are through.
MOST_RUNS = 6
QUERY = """
SELECT d.room, d.value AS door, b.value AS badge
FROM doors [RANGE 2 SECONDS] d JOIN badges b ON d.room = b.room AND b.value >= d.value + 1
WHERE b.value < 9 RECALL 0.9 OVER 10 SECONDS SPARE 0 ROWS
"""
HEAPS = ("512m", "3g")


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Run the jobs over the same files with little and with much memory; say how the tables differ."""
    with tempfile.TemporaryDirectory(prefix="tidemark-faults-") as name:
        folder = Path(name)
        rows = QUICK_ROWS if quick else ROWS
        for seed, stream in enumerate(STREAMS):
            _land(folder / "landing" / stream, seed, rows, "parquet" if quick else "ndjson")
        runs, found, said = [], [], list[Verdict]()
        for heap in progress(iter(HEAPS), len(HEAPS)):
            taken, content, verdict = _with_heap(folder / heap, heap, "parquet" if quick else "ndjson")
            runs.append(taken)
            found.append(content)
            said += [f"{heap}: {verdict}"] if verdict else []
        if not said and (wrong := differences(found[1], found[0])):
            said.append(wrong)
    return {"tried": len(STREAMS) * rows, "runs": runs[0], "broken": said}


def _land(folder: Path, seed: int, rows: int, kind: str) -> None:
    """Land rows of which a third is late, one in ten is there twice, and one in twenty contradicts another."""
    folder.mkdir(parents=True)
    dice = np.random.default_rng(seed)
    for place in range(FILES):
        table = _table(dice, rows // FILES, place)
        if kind == "parquet":
            import pyarrow.parquet as pq

            pq.write_table(table, folder / f"{place}.parquet")
        else:
            lines = (json.dumps(row) for row in table.to_pylist())
            (folder / f"{place}.ndjson").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _table(dice: np.random.Generator, rows: int, place: int) -> Any:
    import pyarrow as pa

    new = int(rows / 1.15)
    # Twenty minutes of rows in each file.
    received = T0 + 1_200_000 * place + np.sort(dice.integers(0, 1_200_000, new))
    ts = received - np.where(dice.random(new) < 1 / 3, dice.integers(1_000, 60_000, new), 0)
    rooms, values = dice.integers(0, ROOMS, new), np.round(dice.random(new) * 10, 3)
    again, other = dice.choice(new, new // 10), dice.choice(new, new // 20)
    take = np.concatenate([np.arange(new), again, other])
    value = np.concatenate([values, values[again], np.full(len(other), -1.0)])
    room = pa.array([f"a room with a long name, number {number}" for number in range(ROOMS)]).take(
        pa.array(rooms[take])
    )
    return pa.table({"room": room, "ts": ts[take], "received": received[take], "value": value})


def _with_heap(folder: Path, heap: str, kind: str) -> tuple[int, dict[str, str], Verdict]:
    """Run all jobs until one run of them ends well; return how many it took, the content, and what went wrong."""
    (folder / "queries").mkdir(parents=True)
    (folder / "queries" / "pairs.sql").write_text(QUERY, encoding="utf-8")
    config = folder / "tidemark.toml"
    streams = "".join(subject.STREAM.format(name=name, landing="../landing", kind=kind) for name in STREAMS)
    config.write_text(f'home = "var"\n[spark]\ndriver_memory = "{heap}"\n{streams}', encoding="utf-8")
    environment = os.environ | {"TIDEMARK_HOME": str(folder / "var")}
    for number in range(1, MOST_RUNS + 1):
        command = [sys.executable, "-m", "tests.faults.heap", str(config)]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if ended.returncode == 0:
            content = json.loads(ended.stdout.splitlines()[-1])
            shutil.rmtree(folder)
            return number, content, ""
        print(f"  run {number} of {heap} ended: {ended.stderr[-600:]}", file=sys.stderr)
    return MOST_RUNS, {}, f"no run of {MOST_RUNS} ended well: {ended.stderr[-800:]}"


def _jobs(config: Path) -> dict[str, str]:
    """Run all jobs, and return what the tables hold."""
    subject.run_jobs(config)
    return dict(_content(config))


def _content(config: Path) -> Iterator[tuple[str, str]]:
    import duckdb

    from lakehouse.settings import load_settings
    from lakehouse.storage.tables.table_log import files_between, read_rows

    layout = load_settings(config).layout
    asked = {"raw": "event_us, arrival_us, room, value", "quarantine": "reason, record"}
    tables = {
        f"{table} {name}": (getattr(layout, table)(name), asked[table]) for name in STREAMS for table in asked
    }
    tables["pairs"] = (layout.pairs("pairs"), "left_us, right_us, room, door, badge")
    for name, (table, columns) in tables.items():
        files = [str(path) for path in files_between(table, None)]
        digest = f"SELECT count(*), sum(hash({columns})::HUGEINT) FROM read_parquet($1)"
        yield name, str(duckdb.execute(digest, [files]).fetchone() if files else None)
    for name in STREAMS:
        ledger = read_rows(layout.ledger(name))
        words = ("received", "accepted", "quarantined", "duplicates")
        yield f"ledger {name}", str([sum(row[word] or 0 for row in ledger) for word in words])


if __name__ == "__main__":
    print(json.dumps(_jobs(Path(sys.argv[1]))))
