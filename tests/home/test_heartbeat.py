from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from lakehouse.home.heartbeat import PATIENCE_S, beat, is_served, last_beat, patience_s, served_by
from lakehouse.home.layout import Home
from lakehouse.home.lease import is_held, lease


def test_where_no_service_ever_ran_there_is_nothing_to_tell(tmp_path: Path) -> None:
    home = Home(tmp_path)

    assert (last_beat(home), is_served(home), served_by(home), patience_s(home)) == (None, False, None, 0.0)


def test_a_service_is_alive_while_it_holds_its_lease_and_no_longer(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with lease(home.service):
        beat(home, {"state": "running", "pid": 4711})
        told = last_beat(home)
        assert told is not None and told["is_alive"] and told["age_s"] < 5
        assert "process 4711" in str(served_by(home))
        assert patience_s(home) == PATIENCE_S

    assert not is_served(home)
    assert (last_beat(home) or {})["state"] == "running"


def test_a_lease_goes_with_its_process_however_it_ends(tmp_path: Path) -> None:
    home = Home(tmp_path)
    script = (
        "import os, sys; from pathlib import Path; from lakehouse.home.lease import lease\n"
        "with lease(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read(); os.kill(os.getpid(), 9)"
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
    table = tmp_path / "t"
    with lease(table):
        pass
    assert not is_held(table)
    with lease(table):
        assert is_held(table) and is_held(table)


def test_half_a_heartbeat_is_told_as_one_that_is_very_old(tmp_path: Path) -> None:
    home = Home(tmp_path)
    beat(home, {"state": "running"})
    (home.service / "heartbeat.json").write_text('{"at": 17')

    told = last_beat(home)
    assert told is not None and told["age_s"] > 1e9 and "expected a heartbeat" in told["error"]
