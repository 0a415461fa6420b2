from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lakehouse.serving.status import status
from lakehouse.settings import Settings
from lakehouse.storage.control.outcomes import read_all
from tests.support.readings import write
from tests.support.standing_airflow import content, joined_home, land, run_undisturbed

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(300)]

STREAMS = ("alpha", "beta", "delta", "gamma")
STREAM = """
[streams.{0}]
event_time = {{ column = "ts", unit = "s" }}
identity = ["device", "ts"]
keys = ["device"]
measures = ["temp"]
groupings = [["device"], []]
levels = ["1s for 1h", "1m forever"]
[streams.{0}.source]
path = "landing/{0}/*.csv"
format = "csv"
settle = 0
[streams.{0}.columns]
device = "string"
ts = "int"
"""


def _tasks(dag: str, task: str, of: str, names: tuple[str, ...]) -> list[list[str]]:
    asked = [json.dumps({of: name, "params": {"config": None}}) for name in names]
    return [[dag, f"{task}.{name}", "--arguments", words] for name, words in zip(names, asked, strict=True)]


def _codes_of(settings: Settings, steps: list[list[list[str]]]) -> tuple[list[list[int]], str]:
    """Return the exit codes of each step's tasks, and what the tasks said."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.dags.at_once"],
        input=json.dumps(steps),
        env=os.environ | {"TIDEMARK_CONFIG": str(settings.config)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (line[6:] for line in ended.stdout.splitlines() if line.startswith("codes "))
    return [json.loads(line) for line in lines], ended.stderr


def test_tasks_of_all_streams_and_queries_begin_at_once_on_a_fresh_home(
    lakehouse_of: Callable[[str], Settings], tmp_path: Path
) -> None:
    for name in STREAMS:
        (tmp_path / "landing" / name).mkdir(parents=True)
        (tmp_path / "landing" / name / "a.csv").write_text(
            "ts,device,temp\n1600000000,x,20.5\n1600000001,y,21\n"
        )
    queries = tuple(f"hot_{name}" for name in STREAMS)
    write(tmp_path, {f"hot_{name}": f"SELECT ts, temp FROM {name} WHERE temp > 20.7" for name in STREAMS})
    settings = lakehouse_of("".join(STREAM.format(name) for name in STREAMS))
    steps = [
        _tasks("ingest", "take", "stream", STREAMS),
        _tasks("rollups", "build", "stream", STREAMS) + _tasks("queries", "join", "query", queries),
        _tasks("quality", "check", "stream", STREAMS) + _tasks("repair", "judge", "query", queries),
        [["publish", "release", "--arguments", json.dumps({"params": {"config": None}})]],
    ]

    codes, ended = _codes_of(settings, steps)

    assert codes == [[0] * 4, [0] * 8, [0] * 8, [0]], ended
    assert all(outcome["ok"] for outcome in read_all(settings.layout))
    assert [stream["accepted"] for stream in status(settings.layout)["streams"]] == [2] * 4


# Task, what its arguments name, of which name, and where it dies; every step of the jobs is in tests/end_to_end.
DIES_AT = (
    ("ingest", "take", "stream", "alpha", "ingest.raw-appended"),
    ("rollups", "build", "stream", "alpha", "rollup.appended"),
    ("queries", "join", "query", "near", "queries.outputs-appended"),
    ("quality", "check", "stream", "alpha", "table.files-written"),
    ("repair", "complete", "query", "near", "repair.pairs-appended"),
    ("publish", "release", "", "", "publish.file-written"),
)


def test_a_task_of_any_dag_that_is_killed_and_begun_again_leaves_what_undisturbed_jobs_do(
    tmp_path: Path,
) -> None:
    whole, killed = joined_home(tmp_path / "whole"), joined_home(tmp_path / "killed")
    run_undisturbed(whole, 3)
    for part in range(3):
        for stream in killed.streams:
            land(killed, stream, part)
    steps: list[list[list[str]]] = []
    for dag, task, of, name, point in DIES_AT:
        asked = {of: name} if of else {}
        words = [
            dag,
            f"{task}.{name}".rstrip("."),
            "--arguments",
            json.dumps(asked | {"params": {"config": None}}),
        ]
        others = _tasks(dag, task, of, ("delta",)) if of == "stream" else []
        steps += [[[f"TIDEMARK_CRASH_AT={point}", *words]], [words, *others]]

    codes, ended = _codes_of(killed, steps)

    assert [each[0] for each in codes] == [-signal.SIGKILL, 0] * len(DIES_AT), ended
    assert content(killed) == content(whole)
