from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import psutil
import pytest

from infra.airflow_home import DAGS
from infra.airflow_standalone import AirflowFailed, Service, serving
from lakehouse.serving.status import status
from lakehouse.settings import Settings, load_settings, read_settings
from lakehouse.storage.control.lease import lease
from tests.infra.airflow_pictures import take_pictures
from tests.web.test_alarms import receiving
from tests.web.test_page import BROWSER

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(900)]

SPARK = """
[spark]
master = "sc://127.0.0.1:{0}"
"""
AIRFLOW = """
[airflow]
ingest = "* * * * *"
"""
STREAMS = ("alpha", "beta", "gamma")
STREAM = """
[streams.{0}]
event_time = {{ column = "ts", unit = "s" }}
levels = ["1m forever"]
measures = ["temp"]
[streams.{0}.source]
path = "landing/{0}/*.csv"
format = "csv"
settle = 0
"""


@dataclass(frozen=True)
class Observed:
    """A standing Airflow on a fresh home: what it was like while it ran its DAGs, and what it left."""

    health: dict[str, str]
    dags: list[str]
    addresses: set[str]
    of_spark: set[str]
    sessions: set[int]
    members_left: list[str]
    health_left: dict[str, str]
    failed: list[str]
    published: dict[str, int] | None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _token(service: Service) -> str:
    """Return the token of the admin, whose password the home keeps."""
    password = json.loads(service.passwords.read_text(encoding="utf-8"))["admin"]
    login = json.dumps({"username": "admin", "password": password}).encode()
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(f"{service.url}/auth/token", data=login, headers=headers), timeout=30) as answer:
        return str(json.load(answer)["access_token"])


def _called(service: Service, path: str, sent: Any = None) -> Any:
    """Return what the real API answers the admin who asks, or who sends something."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {_token(service)}"}
    data = None if sent is None else json.dumps(sent).encode()
    with urlopen(Request(f"{service.url}/{path}", data=data, headers=headers), timeout=30) as answer:
        return json.load(answer)


def _dags(service: Service) -> list[str]:
    return sorted(dag["dag_id"] for dag in _called(service, "api/v2/dags")["dags"])


def _all_dags(service: Service) -> list[str]:
    """Return the DAGs once all files have been read, which goes on when the processor is healthy; or after a minute."""
    end = time.monotonic() + 60
    while len(dags := _dags(service)) < len(list(DAGS.glob("[a-z]*.py"))) and time.monotonic() < end:
        time.sleep(1)
    return dags


def _listeners(port: int) -> set[str]:
    found = [link.laddr for link in psutil.net_connections("tcp") if link.status == "LISTEN"]
    # A JVM listens to addresses of the older kind by those of the newer.
    return {address.ip.removeprefix("::ffff:") for address in found if address.port == port}


def _sessions() -> set[int]:
    """Return the sessions that this process's children lead."""
    return {child.pid for child in psutil.Process().children() if os.getsid(child.pid) == child.pid}


def _members(sessions: set[int]) -> list[str]:
    found = [process for process in psutil.process_iter(["status"]) if _session(process.pid) in sessions]
    return [str(process) for process in found if process.info["status"] != psutil.STATUS_ZOMBIE]


def _session(pid: int) -> int | None:
    with suppress(ProcessLookupError):
        return os.getsid(pid)
    return None


def _failed(service: Service) -> list[str]:
    """Return the tasks that failed for good, and those of ``quality`` that had to be tried again.

    Two DAGs may meet at a table, where the second is refused and tries again; at what a check writes only checks meet.
    """
    tasks = _called(service, "api/v2/dags/~/dagRuns/~/taskInstances?limit=1000")["task_instances"]
    return [
        f"{task['dag_id']}.{task['task_id']}[{task['map_index']}] {task['state']}, try {task['try_number']}"
        for task in tasks
        if task["state"] in ("failed", "upstream_failed")
        or (
            task["dag_id"] == "tidemark_quality"
            and (task["try_number"] > 1 or task["state"] == "up_for_retry")
        )
    ]


def _published(service: Service, settings: Settings) -> dict[str, int]:
    """Return the accepted rows of each published stream once there is a version, or when a task has failed."""
    end = time.monotonic() + 600
    while (
        not (settings.layout.serving / "current").exists() and not _failed(service) and time.monotonic() < end
    ):
        time.sleep(2)
    return _accepted(settings)


@pytest.fixture
def observed(tmp_path: Path, request: pytest.FixtureRequest) -> Observed:
    """Airflow on a fresh home with three streams until it is healthy, or if asked until it has published.

    Its tasks share a server of Spark Connect. It begins with every DAG that has a schedule.
    """
    shared, streams = _free_port(), "".join(STREAM.format(name) for name in STREAMS)
    (tmp_path / "tidemark.toml").write_text(streams + SPARK.format(shared) + AIRFLOW)
    for name in STREAMS:
        (tmp_path / "landing" / name).mkdir(parents=True)
        (tmp_path / "landing" / name / "a.csv").write_text("ts,temp\n1600000000,20.5\n1600000001,21\n")
    port, before = _free_port(), _sessions()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEMARK_ENGINE__RUNNER", "spark")
        settings = load_settings(tmp_path / "tidemark.toml")
        with serving(settings, port) as service:
            health, dags, addresses = service.health(), _all_dags(service), _listeners(port)
            of_spark = _listeners(shared)
            sessions = _sessions() - before
            published = _published(service, settings) if request.param else None
            failed = _failed(service)
    return Observed(
        health, dags, addresses, of_spark, sessions, _members(sessions), service.health(), failed, published
    )


def test_a_port_that_is_taken_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(
            AirflowFailed, match=r"something listens on port \d+ of 127.0.0.1 already; --port names"
        ),
        serving(Settings(home=tmp_path), taken.getsockname()[1]),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_has_ended_is_named_with_its_log(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    service = Service("http://127.0.0.1:1", tmp_path / "passwords", tmp_path, {"scheduler": ended})

    with pytest.raises(AirflowFailed, match=rf"Airflow's scheduler ended; see {tmp_path}/scheduler.log"):
        service.require_running()


@pytest.mark.parametrize("observed", [False], indirect=True)
def test_airflow_serves_the_dags_on_loopback_and_leaves_nothing_behind(observed: Observed) -> None:
    assert (observed.health["scheduler"], observed.health["dag_processor"]) == ("healthy", "healthy")
    jobs = ("ingest", "maintain", "publish", "quality", "queries", "repair", "rollups", "watch")
    assert observed.dags == [f"tidemark_{job}" for job in jobs]
    assert observed.addresses == {"127.0.0.1"}
    assert observed.of_spark == {"127.0.0.1"}
    assert len(observed.sessions) == 4
    assert observed.members_left == []
    assert observed.health_left == {}


# All tasks, two at a time, each in a process that Airflow starts, take minutes. What those of one DAG do to a home at
# once, tests/dags/test_parallel_tasks.py tests in seconds.
@pytest.mark.long
@pytest.mark.parametrize("observed", [True], indirect=True)
def test_tasks_that_run_side_by_side_on_a_fresh_home_publish_its_streams(observed: Observed) -> None:
    assert observed.failed == []
    assert observed.published == dict.fromkeys(STREAMS, 2)


# A minute on a machine with nothing else to do.
PUBLISHED_WITHIN_S, QUIET_S = 300, 65
TASKS = "api/v2/dags/~/dagRuns/~/taskInstances?limit=1000"
SECRET = "hunter2-of-the-hook"
OFTEN = """
[airflow]
ingest = "* * * * *"
retries = 0
[airflow.secrets]
alerts = "conn:hook"
"""


def _wait_for(what: Callable[[], Any], within_s: float) -> float:
    """Wait until something is so; return how many seconds it took."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < within_s, what
        time.sleep(0.5)
    return time.monotonic() - began


def _land(folder: Path, file: str) -> None:
    for name in STREAMS:
        (folder / "landing" / name / file).write_text("ts,temp\n1600000000,20.5\n1600000001,21\n")


def _accepted(settings: Settings) -> dict[str, int]:
    return {found["stream"]: found.get("accepted", 0) for found in status(settings.layout)["streams"]}


def _states(service: Service) -> dict[str, set[str | None]]:
    """Return the states of all tries of each task that have come to an end."""
    states = defaultdict[str, set[str | None]](set)
    for task in _called(service, TASKS)["task_instances"]:
        if task["state"] not in ("running", "queued", "scheduled", None):
            states[f"{task['dag_id'].removeprefix('tidemark_')}.{task['task_id']}"].add(task["state"])
    return states


def _kill_scheduler(home: Path) -> None:
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "scheduler" in words and process.environ().get("AIRFLOW_HOME") == str(home):
            process.kill()


def _saying(secret: str, home: Path) -> list[str]:
    """Return the command lines, and the files of a home, that say a secret."""
    commands = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    files = [str(path) for path in home.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    return [command for command in commands if secret in command] + files


def _killed_at_a_step(settings: Settings, connection: dict[str, Any], folder: Path) -> None:
    """Let tasks die after they have appended to raw, then the scheduler, and leave what it did not finish."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEMARK_CRASH_AT", "ingest.raw-appended")
        with serving(settings, _free_port()) as service, lease(settings.layout, settings.layout.raw("gamma")):
            _called(service, "api/v2/connections", connection)
            _land(folder, "a.csv")
            _wait_for(lambda: "failed" in _states(service)["ingest.take.alpha"], PUBLISHED_WITHIN_S)
            _kill_scheduler(settings.layout.airflow)


@pytest.mark.long
def test_a_good_stream_is_published_beside_one_that_fails_and_one_that_waits_whatever_was_killed_before(
    tmp_path: Path,
) -> None:
    for name in STREAMS:
        (tmp_path / "landing" / name).mkdir(parents=True)
    (tmp_path / "tidemark.toml").write_text("".join(STREAM.format(name) for name in STREAMS) + OFTEN)
    settings = read_settings(tmp_path / "tidemark.toml")
    # A file where the folder of its table should be.
    settings.layout.raw("beta").parent.mkdir(parents=True)
    Path(settings.layout.raw("beta")).touch()
    with receiving() as receiver:
        address = {"host": "127.0.0.1", "schema": "http", "port": receiver.server_port, "password": SECRET}
        _killed_at_a_step(settings, {"connection_id": "hook", "conn_type": "http"} | address, tmp_path)
        with serving(settings, _free_port()) as service, lease(settings.layout, settings.layout.raw("gamma")):
            assert len(_all_dags(service)) == len(list(DAGS.glob("[a-z]*.py")))
            _land(tmp_path, "b.csv")
            took = _wait_for(lambda: _accepted(settings).get("alpha") == 4, PUBLISHED_WITHIN_S)
            print(f"published {took:.0f} s after it landed", flush=True)
            _wait_for(lambda: receiver.found, 120)
            before = {task["id"] for task in _called(service, TASKS)["task_instances"]}
            time.sleep(QUIET_S)
            since = [t for t in _called(service, TASKS)["task_instances"] if t["id"] not in before]
            events = _called(service, "api/v2/assets/events?limit=1000")["asset_events"]
            range_of = {"logical_date": None, "conf": {"from": "2020-09-13", "to": "2020-09-14"}}
            asked = _called(service, "api/v2/dags/tidemark_rollups/dagRuns", range_of)["dag_run_id"]
            run = f"api/v2/dags/tidemark_rollups/dagRuns/{asked}"
            _wait_for(lambda: _called(service, run)["state"] in ("success", "failed"), PUBLISHED_WITHIN_S)
            rebuilt = _called(service, run)["state"]
            pictures = take_pictures(service, _token(service), tmp_path) if BROWSER else []
            states = _states(service)
            runs = _called(service, "api/v2/dags/~/dagRuns?limit=1000")["dag_runs"]
            said = _saying(SECRET, tmp_path)

    assert _accepted(settings)["alpha"] == 4
    assert states["ingest.take.alpha"] == {"failed", "success", "skipped"}
    assert states["ingest.take.beta"] == {"failed"}
    assert states["ingest.take.gamma"] == {"skipped"}
    assert "success" in states["publish.release"] <= {"success", "skipped"}
    assert rebuilt == "success"
    failed = [run["dag_run_id"] for run in runs if run["state"] == "failed"]
    assert {run["dag_id"] for run in runs if run["state"] == "failed"} == {"tidemark_ingest"}
    assert len(receiver.identities) == len({*receiver.identities}) <= len(failed)
    assert json.loads(receiver.found[-1][1])["failed"][-1]["of"] == "beta"
    assert all("Tidemark-Signature" in headers for headers, _ in receiver.found)
    names = [event["name"] for event in events]
    tables = ("raw/alpha", "rollup/alpha", "checked/alpha", "serving/all")
    assert {*names} == {f"tidemark/{table}" for table in tables}
    assert max(names.count(name) for name in names) <= 2
    assert len(since) >= 3
    assert {task["dag_id"] for task in since} - {"tidemark_watch"} == {"tidemark_ingest"}
    assert said == []
    assert all(picture.stat().st_size > 20_000 for picture in pictures)
