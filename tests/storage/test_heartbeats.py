from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakehouse.storage.control.lease import is_held, lease
from lakehouse.storage.control.outcomes import read_all
from lakehouse.storage.heartbeats import (
    SILENT_S,
    Heartbeat,
    is_served,
    read_heartbeats,
    served_by,
    service_heartbeat,
    write_heartbeat,
)
from lakehouse.storage.layout import Home
from tests.support.heartbeats import served

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def heartbeat(state: str = "running", age_s: float = 1.0, stream: str = "lora") -> Heartbeat:
    at = (NOW - timedelta(seconds=age_s)).isoformat()
    return Heartbeat("bridge", stream, state, at, NOW.isoformat(), 1, figures={"messages": 7})


def test_the_last_heartbeat_of_each_is_told_with_its_age(tmp_path: Path) -> None:
    layout = Home(tmp_path)
    write_heartbeat(layout, heartbeat(age_s=9))
    write_heartbeat(layout, heartbeat(age_s=2))
    write_heartbeat(layout, heartbeat(stream="air"))

    found = read_heartbeats(layout, NOW)

    assert [(one["stream"], one["state"], one["age_s"]) for one in found] == [
        ("air", "running", 1.0),
        ("lora", "running", 2.0),
    ]
    assert not list(tmp_path.rglob(".*"))


@pytest.mark.parametrize(
    ("state", "told"),
    [("running", "silent"), ("connecting", "silent"), ("stopped", "stopped"), ("failed", "failed")],
)
def test_one_that_should_go_on_and_says_nothing_is_silent(tmp_path: Path, state: str, told: str) -> None:
    write_heartbeat(Home(tmp_path), heartbeat(state, age_s=SILENT_S + 1))

    assert read_heartbeats(Home(tmp_path), NOW)[0]["state"] == told


def test_a_file_that_is_no_beat_is_told_as_silent(tmp_path: Path) -> None:
    layout = Home(tmp_path)
    layout.heartbeats.mkdir(parents=True)
    (layout.heartbeats / "bridge-lora.json").write_text("half of a")

    [found] = read_heartbeats(layout, NOW)

    assert (found["stream"], found["state"]) == ("lora", "silent") and "expected a heartbeat" in found["note"]


def test_heartbeats_are_no_outcomes_of_jobs(tmp_path: Path) -> None:
    write_heartbeat(Home(tmp_path), heartbeat())

    assert read_all(Home(tmp_path)) == []


def test_where_no_service_ever_ran_there_is_nothing_to_tell(tmp_path: Path) -> None:
    home = Home(tmp_path)

    assert (service_heartbeat(home), is_served(home), served_by(home)) == (None, False, None)


def test_a_service_is_alive_while_it_holds_its_lease_and_no_longer(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with lease(home, home.service):
        served(home, pid=4711)
        told = service_heartbeat(home)
        assert told is not None and told["is_alive"] and told["age_s"] < 5
        assert "process 4711" in str(served_by(home))

    assert not is_served(home)
    assert (service_heartbeat(home) or {})["state"] == "running"


def test_a_lease_goes_with_its_process_however_it_ends(tmp_path: Path) -> None:
    home = Home(tmp_path)
    script = (
        "import os, sys; from pathlib import Path; from lakehouse.storage.control.lease import lease\n"
        "from lakehouse.storage.layout import Home\n"
        "with lease(Home(Path(sys.argv[1]).parent), Path(sys.argv[1])):\n"
        "    print('held', flush=True); sys.stdin.read(); os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", script, str(home.service)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        assert holder.stdout.readline() == b"held\n"
        assert is_served(home)
        holder.stdin.close()
        holder.wait(10)

    assert not is_served(home)


def test_asking_takes_the_lease_from_nobody(tmp_path: Path) -> None:
    home, table = Home(tmp_path), tmp_path / "t"
    with lease(home, table):
        pass
    assert not is_held(home, table)
    with lease(home, table):
        assert is_held(home, table) and is_held(home, table)


def test_half_a_heartbeat_is_told_as_one_that_is_very_old(tmp_path: Path) -> None:
    home = Home(tmp_path)
    served(home)
    (home.heartbeats / "service.json").write_text('{"at": 17')

    told = service_heartbeat(home)
    assert told is not None and told["age_s"] > 1e9 and "expected a heartbeat" in told["note"]
