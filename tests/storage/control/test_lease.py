"""Holder of a lease: named to whoever waits for it, also after a holder that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.storage.control.lease import LeaseHeld, is_held, lease
from lakehouse.storage.layout import Home

HOLDER = """
import sys, time
from pathlib import Path
from lakehouse.storage.control.lease import lease
from lakehouse.storage.layout import Home
with lease(Home(Path(sys.argv[1]).parent), Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_who_waits_in_vain_is_told_of_the_process_that_holds_the_table(tmp_path: Path) -> None:
    home, table = Home(tmp_path), tmp_path / "tables" / "raw"
    words = [sys.executable, "-c", HOLDER]
    for _ in range(2):
        with subprocess.Popen([*words, str(table), "--some", "words"], stdout=subprocess.PIPE) as holder:
            assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
            told = (
                rf"now: process {holder.pid} \(-c {table} --some words, since 20.*\); wait for it, or stop it"
            )
            for _ in range(2):
                with pytest.raises(LeaseHeld, match=told), lease(home, table, 0.3):
                    pass
            assert is_held(home, table)
            holder.send_signal(signal.SIGKILL)
    with lease(home, table):
        assert is_held(home, table)
        with pytest.raises(LeaseHeld, match=f"process {os.getpid()} "), lease(home, table):
            pass
    assert not is_held(home, table)
