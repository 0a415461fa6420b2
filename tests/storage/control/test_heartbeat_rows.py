"""Heartbeats of machines that share a database: each sees those of all, and none waits for the database."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakehouse.collect.running import Pulse
from lakehouse.serving.status import status
from lakehouse.storage.control import place
from lakehouse.storage.control.lease import lease
from lakehouse.storage.control.store import store_of
from lakehouse.storage.heartbeats import read_heartbeats, served_by, service_heartbeat
from lakehouse.storage.layout import Home
from tests.storage.control.postgres import Postgres
from tests.support.heartbeats import served
from tests.web.conftest import wait_for

pytestmark = pytest.mark.slow


@pytest.fixture
def machines(server: Postgres, tmp_path: Path) -> tuple[Home, Home]:
    """Two machines with a folder each, and one home between them."""
    homes = Home(tmp_path / "a", control=server.url), Home(tmp_path / "b", control=server.url)
    for home in homes:
        home.root.mkdir()
    place.place_of(homes[0], homes[0].service)
    shutil.copy(homes[0].root / place.NAME, homes[1].root)
    return homes


def states(home: Home) -> list[tuple[str, str]]:
    return [(each["stream"], each["state"]) for each in read_heartbeats(home, datetime.now(UTC))]


def test_every_machine_sees_the_heartbeats_of_all(machines: tuple[Home, Home]) -> None:
    here, there = machines
    pulse = Pulse(here, "bridge", "lora")
    pulse.turn("running")
    Pulse(there, "collect", "air").turn("running")
    with lease(here, here.service):
        served(here, pid=4711)
        wait_for(lambda: len(states(there)) == 2 and service_heartbeat(there))
        assert states(here) == states(there) == [("air", "running"), ("lora", "running")]
        assert f"process 4711 on {socket.gethostname()}" in str(served_by(there))
        assert (status(there)["service"] or {})["is_alive"]

    pulse.messages = 7
    pulse.turn("stopped")
    found = status(there)["heartbeats"][1]
    assert (found["state"], found["messages"], found["host"]) == ("stopped", 7, socket.gethostname())
    assert not (service_heartbeat(there) or {})["is_alive"]
    # Probes of a machine look at its own.
    assert (here.heartbeats / "bridge-lora.json").exists()
    assert not (there.heartbeats / "bridge-lora.json").exists()


def test_a_database_that_is_away_stops_nobody_and_is_told_once(
    server: Postgres, machines: tuple[Home, Home], caplog: pytest.LogCaptureFixture
) -> None:
    here, _ = machines
    pulse = Pulse(here, "bridge", "lora")
    pulse.turn("running")
    wait_for(lambda: states(here) == [("lora", "running")])
    server.kill()
    try:
        for state in ("connecting", "running", "connecting", "failed"):
            started = time.monotonic()
            pulse.turn(state)
            assert state == "failed" or time.monotonic() - started < 1
            time.sleep(0.2)
        assert '"failed"' in (here.heartbeats / "bridge-lora.json").read_text()
    finally:
        server.start()
    pulse.turn("connecting")
    wait_for(lambda: states(here) == [("lora", "connecting")])

    # Said once the row is written, which others may see before.
    wait_for(lambda: "see heartbeats of this process again" in caplog.text)
    said = [record.getMessage() for record in caplog.records if "see no heartbeat" in record.getMessage()]
    assert len(said) == 1 and "127.0.0.1" in said[0]
    assert caplog.text.count("see heartbeats of this process again") == 1


def test_a_database_that_hangs_is_waited_for_by_nobody(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql+psycopg://u:hunter2@127.0.0.1:{silent.getsockname()[1]}/d"
        (tmp_path / place.NAME).write_text('{"id": "a"}')
        pulse, started = Pulse(Home(tmp_path, control=url), "bridge", "lora"), time.monotonic()
        for state in ("connecting", "running") * 5:
            pulse.turn(state)
        assert time.monotonic() - started < 1


def test_the_last_heartbeat_of_a_process_is_written_before_it_ends(machines: tuple[Home, Home]) -> None:
    here, there = machines
    script = (
        "import sys, time; from pathlib import Path; from lakehouse.storage.layout import Home\n"
        "from lakehouse.storage.control.heartbeat_rows import sent; from lakehouse.collect.running import Pulse\n"
        "home = Home(Path(sys.argv[1])); pulse = Pulse(home, 'bridge', 'lora'); pulse.turn('running')\n"
        "while not sent(home): time.sleep(0.05)\n"
        "pulse.turn('stopped')"
    )
    environment = {**os.environ, place.VARIABLE: str(here.control)}
    subprocess.run([sys.executable, "-c", script, str(here.root)], env=environment, check=True, timeout=60)
    assert states(there) == [("lora", "stopped")]


def test_a_home_without_a_database_has_files_alone(tmp_path: Path) -> None:
    served(Home(tmp_path))

    assert [path.name for path in tmp_path.rglob("*.*")] == ["service.json"]
    assert store_of(Home(tmp_path)).rows("SELECT * FROM tidemark_heartbeats") == []
