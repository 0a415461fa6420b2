"""Count the files that two walks through the product pass: a row to an answer, a join from its .sql to a pair.

    python -m tests.support.walks [--files]

Both are real runs over a few rows, in a home of their own, with a warm Spark session. A profile function is told of
every call, in this process, its threads and Spark's Python workers. A file is *passed* when one of its functions is
called. A *return* is a file that the walk calls again after it had left it for files that it had not seen before.
Code that runs while a module is imported does not count, nor what it calls. ``lines`` are all lines of the files that
are passed. ``--files`` names the files, in the order of the walk.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = tuple(f"{ROOT / folder}{os.sep}" for folder in ("lakehouse", "jobs", "quality", "infra", "sql"))
# The folder where each of Spark's Python workers notes what it passes, in a file of its own.
VARIABLE = "TIDEMARK_WALK"
# What every feature rests on: names, paths, tables. A reader knows these files after the first walk.
SHARED = ("lakehouse/config/", "lakehouse/storage/", "lakehouse/spark/", "sql/")
OPTIMIZED = 1  # set in the code of functions, not of modules and classes
CONFIGURATION = """
[streams.readings]
event_time = { column = "ts", unit = "s" }
identity = ["device", "ts"]
keys = ["device"]
measures = ["temp"]
groupings = [["device"], []]
levels = ["1m for 2d", "1d forever"]
source = { path = "landing/*.ndjson", format = "ndjson", settle = "1us" }
columns = { device = "string", temp = "double" }
"""
QUERY = """SELECT a.device, b.temp FROM readings [RANGE 5 SECONDS] a JOIN readings b
ON a.device = b.device AND a.temp > b.temp RECALL 0.9 OVER 1 MINUTE"""


class Walk:
    """The files that calls pass in one process, in order, and those that they return to."""

    def __init__(self, notes: Path | None = None) -> None:
        self.passed: list[str] = []
        self.returns: list[str] = []
        self._notes = notes
        self._open: Counter[str] = Counter()
        self._importing: Counter[int] = Counter()
        self._left_at: dict[str, int] = {}

    def start(self) -> None:
        """Be told of every call from here on, in this thread and in those that begin later."""
        threading.setprofile(self.profile)
        sys.setprofile(self.profile)

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call of the product, or the end of one."""
        code, thread = frame.f_code, threading.get_ident()
        if event not in ("call", "return") or not code.co_filename.startswith(PRODUCT):
            return
        if code.co_name == "<module>":
            self._importing[thread] += 1 if event == "call" else -1
        if code.co_flags & OPTIMIZED and not self._importing[thread]:
            (self._enter if event == "call" else self._leave)(code.co_filename[len(str(ROOT)) + 1 :])

    def _enter(self, name: str) -> None:
        if name not in self.passed:
            self._note("passed", name)
        elif not self._open[name] and self._left_at[name] < len(self.passed) and name not in self.returns:
            self._note("returns", name)
        self._open[name] += 1

    def _leave(self, name: str) -> None:
        self._open[name] = max(self._open[name] - 1, 0)
        self._left_at[name] = len(self.passed)

    def _note(self, what: str, name: str) -> None:
        getattr(self, what).append(name)
        if self._notes:
            with (self._notes / str(os.getpid())).open("a", encoding="utf-8") as file:
                file.write(json.dumps([what, name]) + "\n")


def watch_worker() -> None:
    """Note what one of Spark's Python workers passes; its interpreter calls this when it starts."""
    Walk(Path(os.environ[VARIABLE])).start()


def _land(folder: Path) -> Path:
    """Write a configuration with a stream and a query, and a file of rows; return the configuration's path."""
    for name in ("landing", "queries", "notes"):
        (folder / name).mkdir()
    watched = "from tests.support.walks import watch_worker\nwatch_worker()\n"
    (folder / "notes" / "sitecustomize.py").write_text(watched)
    rows = ({"device": f"d{n % 3}", "ts": 1_767_225_600 + n, "temp": n * 7 % 11} for n in range(100))
    (folder / "landing" / "rows.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "queries" / "warmer.sql").write_text(QUERY)
    (folder / "tidemark.toml").write_text(CONFIGURATION)
    return folder / "tidemark.toml"


def _made(name: str, config: Path, notes: Path) -> Walk:
    """Make a walk in this process; its session is warm before the walk begins.

    Args:
        name: ``set-up`` takes in the rows of the join, which begins with them in raw.
        config: the configuration.
        notes: where Python workers note what they pass.
    """
    from jobs import build_rollups, ingest, publish, run_queries
    from lakehouse.serving.ask.ask import ask
    from lakehouse.settings import load_settings
    from lakehouse.spark.session import started_session

    walk = Walk()
    if name != "set-up":
        os.environ |= {VARIABLE: str(notes), "PYTHONPATH": f"{notes}{os.pathsep}{ROOT}"}
        # Threads that Spark calls back on begin before the walk does, so they are watched from the start.
        threading.setprofile(walk.profile)
    settings = load_settings(config)
    spark = started_session(settings)
    spark.range(1).count()
    if name != "set-up":
        walk.start()
    if name == "join":
        run_queries.run(load_settings(config), spark, "warmer")
    else:
        ingest.run(settings, spark, "readings")
        build_rollups.run(settings, spark, "readings")
    if name != "set-up":
        publish.run(settings, spark, unchecked=True)
    if name == "row":
        ask(settings.home, "readings", "temp", "sum", 1_767_225_600_000_000, 1_767_225_680_000_000)
    sys.setprofile(None)
    spark.stop()
    return walk


def _counted(name: str, walk: Walk, notes: Path) -> dict[str, Any]:
    """Return a walk's files and returns, with those of the workers after those of the driver."""
    for path in sorted(notes.glob("[0-9]*")):
        for line in path.read_text(encoding="utf-8").splitlines():
            what, file = json.loads(line)
            if file not in getattr(walk, what):
                getattr(walk, what).append(file)
    shared = [file for file in walk.returns if file.startswith(SHARED)]
    counts: dict[str, Any] = {"walk": name, "files": len(walk.passed), "returns": len(walk.returns)}
    counts |= {"returns_to_shared": len(shared), "folders": len({Path(file).parent for file in walk.passed})}
    counts["lines"] = sum((ROOT / file).read_text(encoding="utf-8").count("\n") for file in walk.passed)
    return counts | {"passed": walk.passed, "returned_to": walk.returns}


def main(arguments: list[str]) -> None:
    """Make both walks, each in processes of its own, and print one JSON object for each."""
    if arguments and arguments[0] in ("set-up", "row", "join"):
        name, folder = arguments[0], Path(arguments[1])
        print(
            json.dumps(
                _counted(name, _made(name, folder / "tidemark.toml", folder / "notes"), folder / "notes")
            )
        )
        return
    for name in ("row", "join"):
        with tempfile.TemporaryDirectory() as made:
            _land(Path(made))
            for part in ("set-up", name) if name == "join" else (name,):
                command = [sys.executable, "-m", "tests.support.walks", part, made]
                told = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
            counts = json.loads(told.splitlines()[-1])
            named = "--files" in arguments
            shown = {key: value for key, value in counts.items() if named or not isinstance(value, list)}
            print(json.dumps(shown, indent=1 if named else None))


if __name__ == "__main__":
    main(sys.argv[1:])
