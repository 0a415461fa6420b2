from __future__ import annotations

import os
import socket
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from infra.airflow_standalone import AirflowFailed, Service, serving
from lakehouse.settings import Settings
from tests.support.servers import free_port
from tests.support.standing_airflow import Standing, home_of, land, published, wait_for

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(900)]

MORE = """
[spark]
master = "sc://127.0.0.1:{0}"
[airflow]
ingest = "* * * * *"
"""
JOBS = ("ingest", "maintain", "publish", "quality", "queries", "repair", "rollups", "watch")
STREAMS = ("alpha", "beta", "gamma")


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
    published: dict[str, int]


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


def _failed(airflow: Standing) -> list[str]:
    """Return the tasks that failed for good, and those of ``quality`` that had to be tried again.

    Two DAGs may meet at a table, where the second is refused and tries again; at what a check writes only checks meet.
    """
    return [
        f"{task['dag_id']}.{task['task_id']} {task['state']}, try {task['try_number']}"
        for task in airflow.tasks()
        if task["state"] in ("failed", "upstream_failed")
        or (
            task["dag_id"] == "tidemark_quality"
            and (task["try_number"] > 1 or task["state"] == "up_for_retry")
        )
    ]


@pytest.fixture
def observed(tmp_path: Path, request: pytest.FixtureRequest) -> Observed:
    """Airflow on a fresh home with three streams until it is healthy, or if asked until it has published.

    Its tasks share a server of Spark Connect. It begins with every DAG that has a schedule.
    """
    shared, port, before = free_port(), free_port(), _sessions()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEMARK_ENGINE__RUNNER", "spark")
        settings = home_of(tmp_path, STREAMS, MORE.format(shared))
        for name in STREAMS:
            land(settings, name, 0)
        with serving(settings, port) as service:
            airflow = Standing(service)
            health, addresses, of_spark = service.health(), _listeners(port), _listeners(shared)
            # All files are read some time after the processor is healthy.
            wait_for(lambda: len(airflow.listed("dags")) == len(JOBS))
            dags, sessions = sorted(dag["dag_id"] for dag in airflow.listed("dags")), _sessions() - before
            if request.param:
                wait_for(lambda: all(published(settings, name) for name in STREAMS) or _failed(airflow))
            seen, failed = {name: published(settings, name) for name in STREAMS}, _failed(airflow)
    return Observed(
        health, dags, addresses, of_spark, sessions, _members(sessions), service.health(), failed, seen
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
    assert observed.dags == [f"tidemark_{job}" for job in JOBS]
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
    assert observed.published == dict.fromkeys(STREAMS, 60)
