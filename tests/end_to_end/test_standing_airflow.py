"""Two homes in one standing Airflow, where a stream fails, another waits, and whatever runs is killed once.

Nothing is retried. Each part can be run alone, after the start of Airflow: ``-k quiet``, ``-k killed``, ``-k rebuilt``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.airflow_standalone import AirflowFailed, Service, serving
from jobs.running.lacking import lacking
from jobs.running.scheduled import configured_as
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
class Homes:
    """A standing Airflow with two homes; ``parts``: how many have landed in the south, in the north always two."""

    north: Settings
    south: Settings
    airflow: Standing
    receiver: Any
    folder: Path
    without_scheduler: str
    parts: int = 2

    def land_south(self) -> None:
        """Land the next part of each stream of the south."""
        _land(self.parts, self.south)
        self.parts += 1

    def is_published(self) -> bool:
        """Return whether the south has published all that has landed, and no step lacks any of it."""
        with configured_as(self.south):
            lacks = [lacking(name, {}) for name in self.south.streams]
        return _has(self.south, self.parts, *self.south.streams) and not any(lacks)

    def posts(self) -> dict[str, Any]:
        """Return what was posted, by its identity."""
        posted = zip(self.receiver.identities, self.receiver.found, strict=False)
        return {identity: json.loads(body) for identity, (_, body) in posted}


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Homes]:
    """Both homes, once the scheduler was killed and two parts have landed and are published."""
    folder = tmp_path_factory.mktemp("homes")
    north = home_of(folder / "north", ("alpha", "beta", "gamma"), NORTH)
    south = joined_home(folder / "south", SOUTH)
    # A file where the folder of its table should be.
    north.layout.raw("beta").parent.mkdir(parents=True)
    Path(north.layout.raw("beta")).touch()
    slow = lease(north.layout, north.layout.raw("gamma"))
    with pytest.MonkeyPatch.context() as patch, receiving() as receiver, slow:
        patch.setenv("TIDEMARK_CONFIGS", f"{north.config}:{south.config}")
        with serving(north, free_port()) as service:
            airflow = Standing(service)
            _furnish(airflow, receiver.server_port)
            _land(0, north, south)
            wait_for(lambda: airflow.count("south_rollups", "build", "running", "success"))
            without_scheduler = _kill_scheduler(service)
        with serving(north, free_port()) as service:
            airflow = Standing(service)
            _land(1, north, south)
            made = Homes(north, south, airflow, receiver, folder, without_scheduler)
            wait_for(lambda: _has(north, 2, "alpha") and made.is_published())
            wait_for(airflow.is_quiet)
            yield made


@dataclass
class Quiet:
    """What ran, and which events were sent, while nothing landed."""

    tasks: Rows = field(default_factory=list)
    events: Rows = field(default_factory=list)


@pytest.fixture(scope="module")
def quiet(homes: Homes) -> Quiet:
    """As many cycles of both homes as an hour has of the schedule that ships, while nothing lands."""
    airflow = homes.airflow
    before = {row["id"] for row in (*airflow.tasks(), *_events(airflow))}
    # Of cycles that began before, tasks may still wait.
    done = airflow.count("south_ingest", "choose")
    wait_for(lambda: airflow.count("south_ingest", "choose", "success") >= done + CYCLES)
    seen = Quiet(
        [task for task in airflow.tasks() if task["id"] not in before],
        [event for event in _events(airflow) if event["id"] not in before],
    )
    counts = Counter(f"{task['dag_id']}.{task['task_id']} {task['state']}" for task in seen.tasks)
    print(f"in {CYCLES} cycles in which nothing landed: {dict(sorted(counts.items()))}", flush=True)
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


def _events(airflow: Standing) -> Rows:
    return airflow.listed("assets/events", "asset_events")


def _pause(airflow: Standing, dag: str, is_paused: bool) -> None:
    airflow.call(f"dags/{dag}", {"is_paused": is_paused}, "PATCH")


def _kill_task(homes: Homes, job: str, point: str) -> None:
    """Land a part, of which a task of a job dies."""
    airflow = homes.airflow

    def crash_at(point: str) -> None:
        airflow.call("variables/crash_at", {"key": "crash_at", "value": point}, "PATCH")

    dag, before = f"south_{job}", airflow.count(f"south_{job}", "", "failed")
    # Every commit passes this point, so that its job waits until the others are done.
    if is_alone := point == "table.files-written":
        wait_for(airflow.is_quiet)
        _pause(airflow, dag, True)
    crash_at(NOWHERE if is_alone else point)
    built = airflow.count("south_rollups", "build", "success")
    homes.land_south()
    if is_alone:
        wait_for(lambda: airflow.count("south_rollups", "build", "success") >= built + 2)
        wait_for(airflow.is_quiet)
        crash_at(point)
        _pause(airflow, dag, False)
    if is_alone or job == "repair":
        airflow.run_dag(dag)
    wait_for(lambda: airflow.count(dag, "", "failed") > before)
    crash_at(NOWHERE)


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


def test_a_stream_is_published_beside_one_that_fails_and_one_that_waits(homes: Homes) -> None:
    tasks = homes.airflow.tasks()
    states = {
        name: {task["state"] for task in _of(tasks, "tidemark_ingest", f"take.{name}")}
        for name in homes.north.streams
    }

    assert published(homes.north, "alpha") == 2 * RECORDS
    assert "success" in states["alpha"]
    assert "failed" not in states["alpha"]
    assert "failed" in states["beta"] and "success" not in states["beta"]
    assert "skipped" in states["gamma"] and "success" not in states["gamma"]
    assert {task["state"] for task in _of(tasks, "tidemark_publish")} <= {"success", "skipped"}


def test_what_fails_in_one_home_leaves_the_other_alone(homes: Homes) -> None:
    airflow = homes.airflow
    jobs = ("ingest", "maintain", "publish", "quality", "queries", "repair", "rollups", "watch")
    dags = sorted(dag["dag_id"] for dag in airflow.listed("dags"))
    assert dags == sorted(f"{prefix}_{job}" for prefix in ("south", "tidemark") for job in jobs)
    assets = {asset["name"] for asset in airflow.listed("assets")}
    assert {"tidemark/raw/beta", "south/raw/alpha", "south/results/near"} <= assets
    assert not any(run["state"] == "failed" for run in _of(airflow.runs(), "south_"))
    pools = {task["pool"] for task in _of(airflow.tasks(), "south_", "take", "build", "join", "release")}
    assert pools == {"south"}


def test_a_scheduler_that_was_killed_is_missed_and_the_next_goes_on(homes: Homes) -> None:
    assert "Airflow's scheduler ended; see " in homes.without_scheduler
    # Nothing is retried here: what it had begun was begun again.
    assert 2 in {task["try_number"] for task in homes.airflow.tasks()}


def test_a_quiet_hour_of_cycles_runs_nothing_but_looks(quiet: Quiet) -> None:
    ended = [task for task in quiet.tasks if task["state"] not in (None, "running", "queued", "scheduled")]
    states = {(task["task_id"], task["state"]) for task in ended if not task["dag_id"].endswith("_watch")}

    assert quiet.events == []
    assert {task["dag_id"].rpartition("_")[2] for task in quiet.tasks} <= {"ingest", "watch"}
    skipped = {(f"take.{name}", "skipped") for name in ("alpha", "beta", "gamma", "delta")}
    assert states <= skipped | {("choose", "success"), ("take.beta", "failed")}
    assert len(_of(ended, "south_ingest", "choose")) >= CYCLES


def test_a_run_that_fails_while_it_is_quiet_is_red_and_posted_once(homes: Homes, quiet: Quiet) -> None:
    failed = {f"tidemark_ingest:{task['dag_run_id']}" for task in quiet.tasks if task["state"] == "failed"}
    wait_for(lambda: failed <= {*homes.posts()})
    posts = homes.posts()
    # Of what is posted, the run is red before.
    red = {f"{run['dag_id']}:{run['dag_run_id']}" for run in homes.airflow.runs() if run["state"] == "failed"}

    assert len(failed) > 5
    assert failed <= {*posts} <= red
    assert [name for name, times in Counter(homes.receiver.identities).items() if times > 1] == []
    assert {job["of"] for post in posts.values() for job in post["failed"]} == {"beta"}
    assert _telling(SECRET, homes.folder) == []


@pytest.mark.parametrize("job", DIES_AT)
def test_a_task_that_is_killed_is_made_up_for_though_nothing_lands(homes: Homes, job: str) -> None:
    # Of the other home nothing is asked here.
    _pause(homes.airflow, "tidemark_ingest", True)
    _kill_task(homes, job, DIES_AT[job])

    # No task is retried, and its event is used up.
    print(f"a task of {job} was killed; published after {wait_for(homes.is_published):.0f} s", flush=True)
    wait_for(homes.airflow.is_quiet)


def test_where_tasks_were_killed_tables_hold_what_undisturbed_runs_give(homes: Homes, tmp_path: Path) -> None:
    whole = joined_home(tmp_path)
    run_undisturbed(whole, homes.parts)
    homes.airflow.run_dag("south_repair")
    wait_for(homes.is_published)
    wait_for(homes.airflow.is_quiet)

    assert content(homes.south) == content(whole)


def test_a_range_is_rebuilt_from_the_page_and_from_the_command_line(homes: Homes) -> None:
    airflow, asked = homes.airflow, {"from": "2020-09-13", "to": "2020-09-14"}
    _pause(airflow, "tidemark_ingest", False)
    command = [str(Path(sys.executable).parent / "airflow"), "dags", "trigger", "tidemark_rollups"]
    environment = {"AIRFLOW_HOME": str(homes.north.layout.airflow), "PATH": os.environ["PATH"]}
    words = [*command, "--conf", json.dumps(asked), "--run-id", "by-command"]

    assert airflow.run_dag("tidemark_rollups", **asked) == "success"
    subprocess.run(words, env=environment, check=True, capture_output=True)
    assert airflow.ended("tidemark_rollups", "by-command") == "success"
    wait_for(airflow.is_quiet)
    pictures = take_pictures(airflow.service, airflow.token, homes.folder) if BROWSER else []
    assert all(picture.stat().st_size > 20_000 for picture in pictures)
