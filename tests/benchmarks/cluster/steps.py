"""Files of rows of many keys through ingest, rollup, publish and a question, each a process that is measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[3]
FIRST_S = 1_767_225_600
CONFIG = """
home = "var"
[streams.readings]
event_time = {{ column = "ts", unit = "s" }}
keys = ["device"]
measures = ["value"]
groupings = [["device"], []]
levels = ["1m for 2d", "1h for 1y", "1d forever"]
latest = "1d"
source = {{ path = "landing/*.csv", format = "csv", settle = 0 }}
columns = {{ device = "string", value = "double" }}
"""
_PUBLISH = """
import sys
from pathlib import Path
from jobs import publish
from lakehouse.settings import load_settings
from lakehouse.spark.session import build_session
settings = load_settings(Path(sys.argv[1]))
publish.run(settings, build_session(settings), unchecked=True)
"""
STEPS = ("ingest", "build_rollups", "publish")


@dataclass(frozen=True)
class Cost:
    """Seconds of the clock and of processors, and the most megabytes of a process and of the JVMs that it started."""

    seconds: float
    cpu_s: float
    process_mb: float
    jvm_mb: float


@dataclass(frozen=True)
class Measured:
    """What the steps cost, and what they left."""

    keys: int
    rows: int
    nodes: int
    steps: dict[str, Cost]
    raw_bytes: int
    node_bytes: int
    published_bytes: int
    answer: float


def lead(folder: Path, keys: int, rows_per_key: int) -> Measured:
    """Land rows of so many keys, a minute apart, and take them through all steps; then one more row of each."""
    (folder / "landing").mkdir(parents=True)
    config = folder / "tidemark.toml"
    config.write_text(CONFIG.format())
    land(folder / "landing" / "rows.csv", keys, rows_per_key)
    steps = {name: measured([sys.executable, *_job(name, config)]) for name in STEPS}
    # A minute later: a version that shares what has not changed.
    land(folder / "landing" / "later.csv", keys, 1, 60 * rows_per_key)
    steps |= {f"next_{name}": measured([sys.executable, *_job(name, config)]) for name in STEPS}
    question = ["ask", "readings", "value", "--agg", "sum", "--where", f"device=d{keys - 1:07d}", "--json"]
    command = [sys.executable, "-m", "lakehouse.cli", "--config", str(config), *question]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    steps["ask"] = measured(command)
    home = folder / "var"
    return Measured(
        keys,
        keys * (rows_per_key + 1),
        sum(pq.read_metadata(path).num_rows for path in (home / "rollup").rglob("*.parquet")),
        steps,
        _bytes(home / "raw"),
        _bytes(home / "rollup"),
        _bytes(home / "serving"),
        float(json.loads(said)["value"]),
    )


def _job(step: str, config: Path) -> list[str]:
    """Return how a step is run: a publish without the checks, whose first cost is to load what makes their pages."""
    return (
        ["-c", _PUBLISH, str(config)]
        if step == "publish"
        else ["-m", f"jobs.{step}", "--config", str(config)]
    )


def land(file: Path, keys: int, rows_per_key: int, after_s: int = 0) -> None:
    """Write rows: the reading of a key is its number, minute after minute."""
    number = np.tile(np.arange(keys), rows_per_key)
    times = FIRST_S + after_s + 60 * np.repeat(np.arange(rows_per_key), keys)
    names = pa.array(np.char.add("d", np.char.zfill(number.astype("U7"), 7)))
    pc.write_csv(pa.table({"ts": times, "device": names, "value": number.astype(float)}), file)


def measured(command: Sequence[str]) -> Cost:
    """Run a command to its end and return what it took; the JVMs are looked at four times a second."""
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    most = [0.0, 0.0]
    watching = threading.Thread(target=_watch, args=(process.pid, most), daemon=True)
    watching.start()
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: {said.decode(errors='replace')[-2000:]}")
    watching.join(1)
    cpu_s = used.ru_utime + used.ru_stime + most[1]
    return Cost(time.perf_counter() - started, cpu_s, used.ru_maxrss / 1024, most[0])


def _watch(pid: int, most: list[float]) -> None:
    """Note the most memory of the JVMs below a process, and the seconds of processors that they used last."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            with suppress(psutil.NoSuchProcess):
                found = [each for each in process.children(recursive=True) if each.name() == "java"]
                most[0] = max([most[0], *(each.memory_info().rss / 2**20 for each in found)])
                most[1] = max(most[1], sum(each.cpu_times().user + each.cpu_times().system for each in found))
            time.sleep(0.25)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
