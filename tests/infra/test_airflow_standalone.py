from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from urllib.request import Request, urlopen

import psutil
import pytest

from infra.airflow_home import DAGS
from infra.airflow_standalone import Service, serving
from lakehouse.declare.settings import Settings

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(400)]

CONFIG = """
[streams.alpha]
event_time = { column = "ts", unit = "s" }
levels = ["1m forever"]
[streams.alpha.source]
path = "landing/*.csv"
format = "csv"
"""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _dags(service: Service) -> list[str]:
    """Return the DAGs that the real API lists to the admin whose password the home keeps."""
    password = json.loads(service.passwords.read_text(encoding="utf-8"))["admin"]
    body = json.dumps({"username": "admin", "password": password}).encode()
    login = Request(f"{service.url}/auth/token", data=body, headers={"Content-Type": "application/json"})
    with urlopen(login, timeout=30) as answer:
        token = json.load(answer)["access_token"]
    request = Request(f"{service.url}/api/v2/dags", headers={"Authorization": f"Bearer {token}"})
    with urlopen(request, timeout=30) as answer:
        return sorted(dag["dag_id"] for dag in json.load(answer)["dags"])


def _all_dags(service: Service) -> list[str]:
    """Return the DAGs once all files have been read, which goes on when the processor is healthy; or after a minute."""
    end = time.monotonic() + 60
    while len(dags := _dags(service)) < len(list(DAGS.glob("[a-z]*.py"))) and time.monotonic() < end:
        time.sleep(1)
    return dags


def _listeners(port: int) -> set[str]:
    found = [link.laddr for link in psutil.net_connections("tcp") if link.status == "LISTEN"]
    return {address.ip for address in found if address.port == port}


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


def test_airflow_serves_the_dags_on_loopback_and_leaves_nothing_behind(
    lakehouse_of: Callable[[str], Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_INGEST_SCHEDULE", "0 0 1 1 *")
    monkeypatch.setenv("TIDEMARK_MAINTAIN_SCHEDULE", "0 0 1 1 *")
    port, before = _free_port(), _sessions()

    with serving(lakehouse_of(CONFIG), port) as service:
        health, dags, addresses = service.health(), _all_dags(service), _listeners(port)
        sessions = _sessions() - before

    assert (health["scheduler"], health["dag_processor"]) == ("healthy", "healthy")
    assert dags == ["ingest", "maintain", "publish", "quality", "queries", "repair", "rollups", "watch"]
    assert addresses == {"127.0.0.1"}
    assert len(sessions) == 3
    assert _members(sessions) == []
    assert service.health() == {}
