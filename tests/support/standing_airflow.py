"""A standing Airflow on homes of small streams: asked, and told what to start, by the API that its pages use."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np

from infra.airflow_standalone import Service
from jobs import build_rollups, ingest, publish, repair_late, run_queries
from lakehouse.serving.status import status
from lakehouse.settings import Settings, read_settings
from lakehouse.spark.session import build_session
from tests.end_to_end.pipeline import digest, logical_content
from tests.support.readings import write
from tests.support.table_rows import table_rows

STREAM = """
[streams.{0}]
event_time = {{ column = "ts", unit = "s" }}
identity = ["device", "ts", "n"]
keys = ["device"]
measures = ["temp"]
groupings = [["device"], []]
levels = ["1m forever"]
[streams.{0}.source]
path = "landing/{0}/*.csv"
format = "csv"
settle = 0
[streams.{0}.columns]
device = "string"
ts = "int"
n = "int"
"""
NEAR = """
SELECT a.temp AS one, b.temp AS other FROM alpha [RANGE 5 SECONDS] a JOIN delta b
ON a.device = b.device AND a.temp < b.temp
RECALL 0.9 OVER 1 MINUTE SPARE 0 ROWS
"""
T0 = 1_600_000_000
# A busy machine takes minutes for what takes seconds on one that has nothing else to do.
WITHIN_S = 900.0


def home_of(folder: Path, streams: Iterable[str], more: str = "") -> Settings:
    """Make a configuration of streams, and the folders where their files land."""
    for name in streams:
        (folder / "landing" / name).mkdir(parents=True)
    (folder / "tidemark.toml").write_text("".join(STREAM.format(name) for name in streams) + more)
    return read_settings(folder / "tidemark.toml")


def land(settings: Settings, stream: str, part: int) -> None:
    """Land a minute of readings, a third of them late by up to two minutes."""
    dice = np.random.default_rng([part, *stream.encode()])
    late = np.where(dice.random(60) < 0.3, dice.integers(0, 120, 60), 0)
    rows = [f"{T0 + 60 * part + n - late[n]},{'xyz'[n % 3]},{dice.integers(0, 100)},{n}\n" for n in range(60)]
    path = Path(settings.stream(stream).source.path).parent / f"{part:03d}.csv"
    # As a whole, or a task would take the half of it.
    path.with_suffix(".part").write_text("ts,device,temp,n\n" + "".join(rows))
    path.with_suffix(".part").rename(path)


def joined_home(folder: Path, more: str = "") -> Settings:
    """Make a configuration of two streams, and of a query that joins them."""
    home_of(folder, ("alpha", "delta"), more)
    write(folder, {"near": NEAR})
    return read_settings(folder / "tidemark.toml")


def run_undisturbed(settings: Settings, parts: int) -> None:
    """Land parts of both streams that ``near`` joins, and run each job once, in this process."""
    for part in range(parts):
        for stream in settings.streams:
            land(settings, stream, part)
    session = build_session(settings)
    for job in (ingest, build_rollups):
        for stream in settings.streams:
            job.run(settings, session, stream)
    for of_query in (run_queries, repair_late):
        of_query.run(settings, session, "near")
    publish.run(settings, session, unchecked=True)


def content(settings: Settings) -> dict[str, Any]:
    """Return hashes of all that a home of ``near`` holds, which must not depend on how its rows came."""
    pairs = table_rows(settings.layout.pairs("near"), "left_us", "right_us", "one", "other")
    streams = {name: logical_content(settings, name) for name in settings.streams}
    return streams | {"pairs": {"near": digest(pairs)}}


def published(settings: Settings, stream: str) -> int:
    """Return how many records of a stream the published version has seen."""
    seen = {found["stream"]: found.get("received", 0) for found in status(settings.layout)["streams"]}
    return int(seen.get(stream, 0))


def wait_for(what: Callable[[], Any], within_s: float = WITHIN_S) -> float:
    """Wait until something is so; return how many seconds it took."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < within_s, what
        time.sleep(1)
    return time.monotonic() - began


class Standing:
    """A running Airflow, as its admin sees it, whose password the home keeps."""

    def __init__(self, service: Service) -> None:
        self.service = service
        password = json.loads(service.passwords.read_text(encoding="utf-8"))["admin"]
        self.token = ""
        self.token = self._answer("auth/token", {"username": "admin", "password": password})["access_token"]

    def call(self, path: str, sent: Any = None, method: str | None = None) -> Any:
        """Return what the API answers who asks, or sends something."""
        return self._answer(f"api/v2/{path}", sent, method)

    def listed(self, path: str, name: str | None = None) -> list[dict[str, Any]]:
        """Return all of a list, of which an answer holds a hundred."""
        found: list[dict[str, Any]] = []
        while True:
            answer = self.call(f"{path}?limit=100&offset={len(found)}")
            page = answer[name or path.rpartition("/")[2]]
            found += page
            if not page or len(found) >= answer["total_entries"]:
                return found

    def tasks(self) -> list[dict[str, Any]]:
        """Return every task of every run."""
        return self.listed("dags/~/dagRuns/~/taskInstances", "task_instances")

    def runs(self) -> list[dict[str, Any]]:
        """Return every run."""
        return self.listed("dags/~/dagRuns", "dag_runs")

    def count(self, dag: str, task: str, *states: str) -> int:
        """Return how many tasks of a DAG whose names begin so are in these states, in any if none is given."""
        return sum(
            each["dag_id"] == dag
            and each["task_id"].startswith(task)
            and (not states or each["state"] in states)
            for each in self.tasks()
        )

    def is_quiet(self) -> bool:
        """Return whether nothing runs but what looks whether something is new."""
        return all(
            run["state"] in ("success", "failed") or run["dag_id"].endswith(("_ingest", "_watch"))
            for run in self.runs()
        )

    def run_dag(self, dag: str, **conf: str) -> str:
        """Start a run as its page does, wait for it, and return its state."""
        run = self.call(f"dags/{dag}/dagRuns", {"logical_date": None, "conf": conf})["dag_run_id"]
        return self.ended(dag, run)

    def ended(self, dag: str, run: str) -> str:
        """Wait for a run; return its state."""
        own = f"dags/{dag}/dagRuns/{run}"
        wait_for(lambda: self.call(own)["state"] in ("success", "failed"))
        return str(self.call(own)["state"])

    def _answer(self, path: str, sent: Any, method: str | None = None) -> Any:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}
        data = None if sent is None else json.dumps(sent).encode()
        asked = Request(f"{self.service.url}/{path}", data=data, headers=headers, method=method)
        with urlopen(asked, timeout=60) as answer:
            return json.loads(answer.read() or b"null")
