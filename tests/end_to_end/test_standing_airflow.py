"""Two homes in one standing Airflow, where a stream fails, another waits, and whatever runs is killed once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.airflow_standalone import AirflowFailed, Service, serving
from lakehouse.settings import Settings
from lakehouse.storage.control.lease import lease
from tests.infra.airflow_pictures import take_pictures
from tests.support.servers import free_port
from tests.support.standing_airflow import (
    Standing,
    content,
    home_of,
    joined_home,
    land,
    published,
    run_undisturbed,
    wait_for,
)
from tests.web.test_alarms import receiving
from tests.web.test_page import BROWSER

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(7200)]

SECRET = "hunter2-of-the-hook"
NORTH = """
[airflow]
ingest = "* * * * * */20"
retries = 0
[airflow.secrets]
alerts = "conn:hook"
"""
SOUTH = """
[airflow]
prefix = "south"
pool = "south"
ingest = "* * * * * */20"
retries = 0
[airflow.secrets]
TIDEMARK_CRASH_AT = "var:crash_at"
"""
# As many cycles as an hour has of the schedule that ships.
CYCLES = 12
RECORDS = 60
# The last part that lands; parts 0 and 1 come before tasks are killed.
LAST = 8
NOWHERE = "nowhere"
# Where a task of each job dies.
DIES_AT = {
    "ingest": "ingest.raw-appended",
    "rollups": "rollup.appended",
    "queries": "queries.outputs-appended",
    "publish": "publish.file-written",
    "repair": "repair.pairs-appended",
    "quality": "table.files-written",
}
Rows = list[dict[str, Any]]


@dataclass
class Observed:
    """What a standing Airflow did with its homes, and what it left."""

    north: Settings
    south: Settings
    dags: list[str] = field(default_factory=list)
    without_scheduler: str = ""
    quiet: Rows = field(default_factory=list)
    quiet_events: Rows = field(default_factory=list)
    killed: list[str] = field(default_factory=list)
    south_failed_before: int = 0
    rebuilt: dict[str, str] = field(default_factory=dict)
    tasks: Rows = field(default_factory=list)
    runs: Rows = field(default_factory=list)
    assets: set[str] = field(default_factory=set)
    posts: dict[str, Any] = field(default_factory=dict)
    posted_twice: list[str] = field(default_factory=list)
    pictures: list[Path] = field(default_factory=list)
    telling: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Observed:
    """Both homes while the scheduler is killed, nothing lands, tasks are killed, and a range is rebuilt."""
    folder = tmp_path_factory.mktemp("homes")
    seen = Observed(
        home_of(folder / "north", ("alpha", "beta", "gamma"), NORTH),
        joined_home(folder / "south", SOUTH),
    )
    north, held = seen.north, seen.north.layout.raw("gamma")
    # A file where the folder of its table should be.
    north.layout.raw("beta").parent.mkdir(parents=True)
    Path(north.layout.raw("beta")).touch()
    with pytest.MonkeyPatch.context() as patch, receiving() as receiver, lease(north.layout, held):
        patch.setenv("TIDEMARK_CONFIGS", f"{north.config}:{seen.south.config}")
        with serving(north, free_port()) as service:
            airflow = Standing(service)
            _furnish(airflow, receiver.server_port)
            _land(0, north, seen.south)
            wait_for(lambda: airflow.count("south_rollups", "build", "running", "success"))
            seen.without_scheduler = _kill_scheduler(service)
        with serving(north, free_port()) as service:
            airflow = Standing(service)
            seen.dags = sorted(dag["dag_id"] for dag in airflow.listed("dags"))
            _land(1, north, seen.south)
            wait_for(lambda: _has(north, 2, "alpha") and _has(seen.south, 2, "alpha", "delta"))
            wait_for(airflow.is_quiet)
            _wait_for_nothing(airflow, seen)
            _kill_tasks(airflow, seen)
            _rebuild(airflow, seen)
            seen.pictures = take_pictures(service, airflow.token, folder) if BROWSER else []
            seen.telling = _telling(SECRET, folder)
            seen.tasks, seen.runs = airflow.tasks(), airflow.runs()
            seen.assets = {asset["name"] for asset in airflow.listed("assets")}
        posted = zip(receiver.identities, receiver.found, strict=True)
        seen.posts = {identity: json.loads(body) for identity, (_, body) in posted}
        seen.posted_twice = [name for name, times in Counter(receiver.identities).items() if times > 1]
    return seen


def _furnish(airflow: Standing, port: int) -> None:
    """Give Airflow what the homes name: a Connection, a Variable, a pool."""
    hook = {"connection_id": "hook", "conn_type": "http", "host": "127.0.0.1", "schema": "http"}
    airflow.call("connections", hook | {"port": port, "password": SECRET})
    airflow.call("variables", {"key": "crash_at", "value": NOWHERE})
    airflow.call("pools", {"name": "south", "slots": 2})


def _land(part: int, *homes: Settings) -> None:
    for home in homes:
        for stream in home.streams:
            land(home, stream, part)


def _has(home: Settings, parts: int, *streams: str) -> bool:
    """Return whether the published version has so many parts of each stream."""
    return all(published(home, stream) == parts * RECORDS for stream in streams)


def _kill_scheduler(service: Service) -> str:
    """Kill the scheduler and nothing that it has started; return what is said of it."""
    os.kill(service.running["scheduler"].pid, signal.SIGKILL)
    service.running["scheduler"].wait()
    with pytest.raises(AirflowFailed) as failed:
        service.require_running()
    return str(failed.value)


def _wait_for_nothing(airflow: Standing, seen: Observed) -> None:
    """Wait for as many cycles of both homes as an hour has of the schedule that ships, while nothing lands."""
    before = {row["id"] for row in (*airflow.tasks(), *_events(airflow))}
    done = airflow.count("south_ingest", "choose", "success")
    wait_for(lambda: airflow.count("south_ingest", "choose", "success") >= done + CYCLES)
    seen.quiet = [task for task in airflow.tasks() if task["id"] not in before]
    seen.quiet_events = [event for event in _events(airflow) if event["id"] not in before]
    counts = Counter(f"{task['dag_id']}.{task['task_id']} {task['state']}" for task in seen.quiet)
    print(f"in {CYCLES} cycles in which nothing landed: {dict(sorted(counts.items()))}", flush=True)


def _events(airflow: Standing) -> Rows:
    return airflow.listed("assets/events", "asset_events")


def _kill_tasks(airflow: Standing, seen: Observed) -> None:
    """Let a task of each job of one home die once, with files of which it has work; then let all go on."""
    _pause(airflow, "tidemark_ingest", True)
    seen.south_failed_before = sum(run["state"] == "failed" for run in _of(airflow.runs(), "south_"))
    for part, (job, point) in enumerate(DIES_AT.items(), start=2):
        _kill_task(airflow, seen, job, point, part)
        seen.killed.append(job)
        print(f"a task of {job} was killed", flush=True)
    _land(LAST, seen.south)
    wait_for(lambda: _has(seen.south, LAST + 1, "alpha", "delta"))
    wait_for(airflow.is_quiet)
    airflow.run_dag("south_repair")
    wait_for(airflow.is_quiet)


def _pause(airflow: Standing, dag: str, is_paused: bool) -> None:
    airflow.call(f"dags/{dag}", {"is_paused": is_paused}, "PATCH")


def _kill_task(airflow: Standing, seen: Observed, job: str, point: str, part: int) -> None:
    """Land a part, of which a task of a job dies."""

    def crash_at(point: str) -> None:
        airflow.call("variables/crash_at", {"key": "crash_at", "value": point}, "PATCH")

    dag, before = f"south_{job}", airflow.count(f"south_{job}", "", "failed")
    # Every commit passes this point, so that its job waits until the others are done.
    if is_alone := point == "table.files-written":
        wait_for(airflow.is_quiet)
        _pause(airflow, dag, True)
    crash_at(NOWHERE if is_alone else point)
    built = airflow.count("south_rollups", "build", "success")
    _land(part, seen.south)
    if is_alone:
        wait_for(lambda: airflow.count("south_rollups", "build", "success") >= built + 2)
        wait_for(airflow.is_quiet)
        crash_at(point)
        _pause(airflow, dag, False)
    if is_alone or job == "repair":
        airflow.run_dag(dag)
    wait_for(lambda: airflow.count(dag, "", "failed") > before)
    crash_at(NOWHERE)


def _rebuild(airflow: Standing, seen: Observed) -> None:
    """Rebuild a range as the page of a DAG does, and from the command line, which knows Airflow's home alone."""
    _pause(airflow, "tidemark_ingest", False)
    asked = {"from": "2020-09-13", "to": "2020-09-14"}
    seen.rebuilt["page"] = airflow.run_dag("tidemark_rollups", **asked)
    command = [str(Path(sys.executable).parent / "airflow"), "dags", "trigger", "tidemark_rollups"]
    environment = {"AIRFLOW_HOME": str(seen.north.layout.airflow), "PATH": os.environ["PATH"]}
    words = [*command, "--conf", json.dumps(asked), "--run-id", "by-command"]
    subprocess.run(words, env=environment, check=True, capture_output=True)
    seen.rebuilt["command"] = airflow.ended("tidemark_rollups", "by-command")
    wait_for(airflow.is_quiet)


def _telling(secret: str, folder: Path) -> list[str]:
    """Return the command lines, and the files of a folder, that tell a secret."""
    commands = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    files = [
        str(path) for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()
    ]
    return [command for command in commands if secret in command] + files


def _of(rows: Rows, prefix: str, *tasks: str) -> Rows:
    return [
        row
        for row in rows
        if row["dag_id"].startswith(prefix) and (not tasks or row["task_id"].startswith(tasks))
    ]


def test_a_stream_is_published_beside_one_that_fails_and_one_that_waits(observed: Observed) -> None:
    states = {
        name: {task["state"] for task in _of(observed.tasks, "tidemark_ingest", f"take.{name}")}
        for name in observed.north.streams
    }

    assert published(observed.north, "alpha") == 2 * RECORDS
    assert "success" in states["alpha"]
    assert "failed" not in states["alpha"]
    assert "failed" in states["beta"] and "success" not in states["beta"]
    assert "skipped" in states["gamma"] and "success" not in states["gamma"]
    assert {task["state"] for task in _of(observed.tasks, "tidemark_publish")} <= {"success", "skipped"}


def test_a_run_that_fails_is_red_and_posted_once(observed: Observed) -> None:
    red = {f"{run['dag_id']}:{run['dag_run_id']}" for run in observed.runs if run["state"] == "failed"}
    # The first and the last ones may have failed while Airflow began or was ended.
    quiet = {f"tidemark_ingest:{task['dag_run_id']}" for task in observed.quiet if task["state"] == "failed"}

    assert {name for name in red if not name.startswith("south_")} >= quiet
    assert len(quiet) > 5
    assert observed.posted_twice == []
    assert quiet <= {*observed.posts} <= red
    assert {job["of"] for post in observed.posts.values() for job in post["failed"]} == {"beta"}
    assert observed.telling == []


def test_while_nothing_lands_an_hour_of_cycles_runs_nothing_but_looks(observed: Observed) -> None:
    ended = [task for task in observed.quiet if task["state"] not in (None, "running", "queued", "scheduled")]
    states = {(task["task_id"], task["state"]) for task in ended if not task["dag_id"].endswith("_watch")}

    assert observed.quiet_events == []
    assert {task["dag_id"].rpartition("_")[2] for task in observed.quiet} <= {"ingest", "watch"}
    skipped = {(f"take.{name}", "skipped") for name in ("alpha", "beta", "gamma", "delta")}
    assert states <= skipped | {("choose", "success"), ("take.beta", "failed")}
    assert len(_of(ended, "south_ingest", "choose")) >= CYCLES


def test_what_fails_in_one_home_leaves_the_other_alone(observed: Observed) -> None:
    jobs = ("ingest", "maintain", "publish", "quality", "queries", "repair", "rollups", "watch")
    assert observed.dags == sorted(f"{prefix}_{job}" for prefix in ("south", "tidemark") for job in jobs)
    assert {"tidemark/raw/beta", "south/raw/alpha", "south/results/near"} <= observed.assets
    assert observed.south_failed_before == 0
    pools = {task["pool"] for task in _of(observed.tasks, "south_", "take", "build", "join", "release")}
    assert pools == {"south"}


def test_a_scheduler_that_was_killed_is_missed_and_the_next_goes_on(observed: Observed) -> None:
    assert "Airflow's scheduler ended; see " in observed.without_scheduler
    # Nothing is retried here: what it had begun was begun again.
    assert 2 in {task["try_number"] for task in observed.tasks}


def test_a_task_of_any_job_may_be_killed_and_the_next_run_gives_what_undisturbed_ones_do(
    observed: Observed, tmp_path: Path
) -> None:
    whole = joined_home(tmp_path)
    run_undisturbed(whole, LAST + 1)

    assert observed.killed == [*DIES_AT]
    assert content(observed.south) == content(whole)


def test_a_range_is_rebuilt_from_the_page_and_from_the_command_line(observed: Observed) -> None:
    assert observed.rebuilt == {"page": "success", "command": "success"}
    assert all(picture.stat().st_size > 20_000 for picture in observed.pictures)
