"""Every command that works until it is ended: real processes, real signals, five seconds, and nothing left of them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).parents[2]
WITHIN_S = 5.0
CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGKILL: -signal.SIGKILL}
# Local times are read by Spark: the stream has a JVM.
CONFIG = """
[streams.alpha]
event_time = { column = "ts", unit = "s" }
identity = ["device", "ts"]
keys = ["device"]
measures = ["temp"]
levels = ["1s for 1h", "1m forever"]
[streams.alpha.source]
path = "landing/alpha.csv"
format = "csv"
settle = 0
[streams.alpha.columns]
device = "string"
ts = "int"
[streams.local]
event_time = { column = "at", unit = "iso", timezone = "Europe/Paris" }
measures = ["temp"]
levels = ["1m forever"]
[streams.local.source]
path = "landing/local.csv"
format = "csv"
settle = 0
[streams.host]
preset = "host"
source.every = "200ms"
source.roll_after = "1s"
[streams.air]
event_time = { column = "at", unit = "iso" }
identity = ["*"]
levels = ["1m forever"]
source = { kind = "mqtt", broker = "mqtt://localhost:1", topics = ["a"], format = "ndjson" }
"""


def _port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    landing = tmp_path / "landing"
    landing.mkdir()
    rows = [f"{1_600_000_000 + n},d{n % 3},{n % 50}" for n in range(2000)]
    (landing / "alpha.csv").write_text("\n".join(["ts,device,temp", *rows, "oops,x,1", rows[0], ""]))
    (landing / "local.csv").write_text("at,temp\n2026-01-01T00:00:00,1\n2026-01-01T00:00:01,2\n")
    (tmp_path / "tidemark.toml").write_text(CONFIG)
    return tmp_path


def _command(home: Path, words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "lakehouse.cli", "--config", str(home / "tidemark.toml"), *words]


@contextmanager
def _working(home: Path, words: Sequence[str], until: str) -> Iterator[subprocess.Popen[str]]:
    """Give a command in a session of its own, once a line of what it prints has this text."""
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        _command(home, words),
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    lines = []
    try:
        for line in process.stdout:
            lines.append(line)
            if until in line:
                break
        else:
            pytest.fail("".join(lines))
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()
        process.wait()


def _end(process: subprocess.Popen[str], number: signal.Signals) -> list[str]:
    """Send a signal to a process alone; return its printed lines, and make sure of its code, time and children."""
    children = psutil.Process(process.pid).children(recursive=True)
    began = time.monotonic()
    process.send_signal(number)
    assert process.wait(60) == CODES[number]
    assert time.monotonic() - began < WITHIN_S
    # What SIGKILL leaves behind notices that by itself.
    left = psutil.wait_procs(children, 10 if number == signal.SIGKILL else 1)[1]
    assert [child for child in left if child.status() != psutil.STATUS_ZOMBIE] == []
    assert process.stdout is not None
    return process.stdout.readlines()


def _content(home: Path) -> dict[str, Any]:
    """Return what a home holds of its stream ``alpha`` after a run that is not interrupted."""
    ran = subprocess.run(
        _command(home, ["run", "--stream", "alpha", "--json"]), capture_output=True, text=True, cwd=ROOT
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    status = subprocess.run(_command(home, ["status", "--json"]), capture_output=True, text=True, cwd=ROOT)
    [alpha] = [each for each in json.loads(status.stdout)["streams"] if each["stream"] == "alpha"]
    return {name: alpha[name] for name in ("received", "accepted", "quarantined", "duplicates")}


WHOLE = {"received": 2002, "accepted": 2000, "quarantined": 1, "duplicates": 1}
SERVICES = {
    "bridge": (["bridge", "air"], "cannot reach"),
    "collect": (["collect", "host"], "landed"),
    "web": (["web", "--bind", "127.0.0.1:{port}"], "http://127.0.0.1"),
    "serve": (["serve", "--stream", "alpha", "--every", "1s"], "publish"),
}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
@pytest.mark.parametrize("name", SERVICES)
def test_a_service_ends_in_time_with_the_code_of_the_signal(
    home: Path, name: str, number: signal.Signals
) -> None:
    words, until = SERVICES[name]

    with _working(home, [word.format(port=_port()) for word in words], until) as process:
        time.sleep(0.3)
        _end(process, number)


@pytest.mark.airflow
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_run_that_is_ended_after_one_of_its_jobs_begins_no_other_and_the_next_goes_on(home: Path) -> None:
    ends = (
        (signal.SIGTERM, "ingest  "),
        (signal.SIGINT, "build_rollups  "),
        (signal.SIGKILL, "check_quality  "),
    )
    for number, job in ends:
        with _working(home, ["run", "--stream", "alpha"], job) as process:
            printed = _end(process, number)
        assert not any("maintain" in line or "tidemark: " in line for line in printed), printed

    assert _content(home) == WHOLE


@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_jvm_of_a_run_ends_with_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_ENGINE__RUNNER", "spark")
    with _working(home, ["run", "--stream", "local"], "running") as process:
        tree = psutil.Process(process.pid)
        while not any("java" in child.name() for child in tree.children(recursive=True)):
            assert process.poll() is None
            time.sleep(0.1)
        time.sleep(2)
        _end(process, signal.SIGTERM)


@pytest.mark.airflow
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_airflow_and_all_that_it_started_end_in_time(home: Path, number: signal.Signals) -> None:
    with _working(home, ["airflow"], "starting Airflow") as process:
        tree = psutil.Process(process.pid)
        while not tree.children():
            assert process.poll() is None
            time.sleep(0.1)
        # Its parts start processes of their own.
        time.sleep(3)
        _end(process, number)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_demo_ends_with_the_command_that_it_runs(home: Path) -> None:
    words = ["bash", str(ROOT / "infra" / "demo.sh"), "--live"]
    environment = os.environ | {"TIDEMARK_HOME": str(home)}
    process = subprocess.Popen(words, env=environment, start_new_session=True, stdout=subprocess.DEVNULL)
    tree = psutil.Process(process.pid)
    while not tree.children():
        time.sleep(0.05)
    time.sleep(1)
    children = tree.children(recursive=True)

    process.terminate()

    assert process.wait(WITHIN_S) == 143
    assert psutil.wait_procs(children, 1)[1] == []
