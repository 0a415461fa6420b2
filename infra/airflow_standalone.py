"""Airflow's own UI and scheduler on a home: the same DAGs and metadata that ``tidemark run`` uses, on a schedule.

Three processes of Airflow, the API server with the UI, the scheduler and the DAG processor, end with this one. Where
``[spark] master`` is a server of Spark Connect on this machine, and none answers there, it is a fourth.
All listen on 127.0.0.1 alone, the pages at another address if asked; Airflow's log servers, which would listen
everywhere, stay off. There is no triggerer, because no task of these DAGs is deferred. Healthy after about 30 s. Each
writes to ``<home>/airflow/logs/<name>.log``, readable by their owner alone; what logs take is bounded, too.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from urllib.error import URLError
from urllib.request import urlopen

import psutil

from infra.airflow_home import environment, preparing_metadata
from lakehouse.config.airflow.homes import CONFIGS
from lakehouse.settings import Settings

# Of a component's log, of which the part before the last cut is kept too.
LONGEST = 20 * 1024 * 1024
# Logs of tasks and of parsed DAG files.
OLDEST_S = 7 * 86_400

HEALTHY_WITHIN_S = 180
STOPS_WITHIN_S = 2
LOOPBACK = ("localhost", "127.0.0.1")
EVERYWHERE = "0.0.0.0"
PASSWORDS = "simple_auth_manager_passwords.json.generated"


class AirflowFailed(RuntimeError):
    """Airflow did not start, or a part of it has ended; the message names the log to read."""


@dataclass(frozen=True)
class Service:
    """A running Airflow: where its UI is, the file that holds the password of user ``admin``, and its processes."""

    url: str
    passwords: Path
    logs: Path
    running: Mapping[str, subprocess.Popen[bytes]]

    def health(self) -> dict[str, str]:
        """Return the state of each component, such as ``healthy``; empty while the server does not answer."""
        try:
            with urlopen(f"{self.url}/api/v2/monitor/health", timeout=5) as answer:
                health = json.load(answer)
        except (URLError, ConnectionError, TimeoutError, ValueError):
            return {}
        return {name: str(part.get("status")) for name, part in health.items() if isinstance(part, dict)}

    def require_running(self) -> None:
        """Raise an error when one of the processes has ended."""
        for name, process in self.running.items():
            if process.poll() is not None:
                raise AirflowFailed(f"Airflow's {name} ended; see {self.logs / name}.log")


def start(
    settings: Settings, port: int = 8080, host: str = LOOPBACK[1], progress: Callable[[str], None] = print
) -> NoReturn:
    """Serve Airflow on a home until SIGTERM or Ctrl-C interrupts it.

    Raises AirflowFailed when it is not healthy in time, or one of its processes has ended.
    """
    progress(f"starting Airflow on {settings.home} (about 30 s) ...")
    with serving(settings, port, host) as service:
        progress(f"Airflow: {service.url}   user admin, password in {service.passwords}")
        progress(f"logs: {service.logs}   stop: Ctrl-C")
        progress("no triggerer runs, and Airflow's page shows it red: no task here is ever deferred")
        while True:
            bound_logs(service.logs)
            for _ in range(600):
                service.require_running()
                time.sleep(1)


@contextmanager
def serving(settings: Settings, port: int, host: str = LOOPBACK[1]) -> Iterator[Service]:
    """Start Airflow, wait until it is healthy, and stop all of it at the end of the block.

    Its DAGs are those of the home, or of each configuration that TIDEMARK_CONFIGS names.
    """
    home, at = settings.layout.airflow, LOOPBACK[1] if host == EVERYWHERE else host
    if _answers((at, port)):
        raise AirflowFailed(f"something listens on port {port} of {at} already; --port names another")
    url, logs, configs = f"http://{at}:{port}", home / "logs", os.environ.get(CONFIGS)
    binaries = str(Path(sys.executable).parent)
    variables = {
        **os.environ,
        **environment(settings),
        **({CONFIGS: configs, "TIDEMARK_HOME": ""} if configs else {}),
        "PATH": f"{binaries}{os.pathsep}{os.environ.get('PATH', '')}",
        "AIRFLOW__API__HOST": host,
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": url,
    }
    with preparing_metadata(settings) as is_needed:
        log = logs / "migrate.log"
        if is_needed and _started(["-m", "airflow", "db", "migrate"], variables, log).wait():
            raise AirflowFailed(f"Airflow could not prepare its metadata; see {log}")
    with _running(_components(settings, host, port), variables, logs) as running:
        service = Service(url, home / PASSWORDS, logs, running)
        _wait_until_healthy(settings, service)
        yield service


def _components(settings: Settings, host: str, port: int) -> dict[str, list[str]]:
    """Return the arguments of Python for each process, by its name."""
    airflow = {
        "api-server": ["api-server", "--host", host, "--port", str(port), "--workers", "1"],
        "scheduler": ["scheduler", "--skip-serve-logs"],
        "dag-processor": ["dag-processor"],
    }
    # Tasks may share a server of Spark Connect on this machine that is not there.
    own, is_on_spark = settings.spark, settings.engine.runner == "spark"
    is_shared = is_on_spark and own.is_connect and own.addresses()[0][0] in LOOPBACK
    lacks_spark = is_shared and not _answers(own.addresses()[0])
    spark = {"spark": ["-m", "lakehouse.cli", "spark", "--connect"]} if lacks_spark else {}
    return spark | {name: ["-m", "airflow", *arguments] for name, arguments in airflow.items()}


def _answers(address: tuple[str, int]) -> bool:
    with suppress(OSError), socket.create_connection(address, 1):
        return True
    return False


@contextmanager
def _running(
    components: Mapping[str, list[str]], variables: Mapping[str, str], logs: Path
) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, arguments in components.items():
            processes[name] = _started(arguments, variables, logs / f"{name}.log")
        yield processes
    finally:
        _stop(list(processes.values()))


def _started(arguments: list[str], variables: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, *arguments]
    # To its end, wherever that is: the file is cut when it has become long.
    opened = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND, 0o600)
    with os.fdopen(opened, "wb") as words:
        return subprocess.Popen(command, env=variables, stdout=words, stderr=words, start_new_session=True)


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End the components and whatever they started; a job that is cut short is safe to run again."""
    # A task runs in a group of its own but stays in its component's session.
    sessions = {process.pid for process in processes}
    for process in processes:
        process.terminate()
    psutil.wait_procs(_members(sessions), timeout=STOPS_WITHIN_S)
    while left := _members(sessions):
        for member in left:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        psutil.wait_procs(left, timeout=1)
    for process in processes:
        process.wait()


def _members(sessions: set[int]) -> list[psutil.Process]:
    """Return the processes of these sessions that still run."""
    running = [process for process in psutil.process_iter(["status"]) if _session(process.pid) in sessions]
    return [process for process in running if process.info["status"] != psutil.STATUS_ZOMBIE]


def _session(pid: int) -> int | None:
    with suppress(ProcessLookupError, PermissionError):
        return os.getsid(pid)
    return None


def _wait_until_healthy(settings: Settings, service: Service) -> None:
    deadline = time.monotonic() + HEALTHY_WITHIN_S
    wanted = {"metadatabase", "scheduler", "dag_processor"}
    while not wanted <= {name for name, state in service.health().items() if state == "healthy"} or (
        "spark" in service.running and not _answers(settings.spark.addresses()[0])
    ):
        service.require_running()
        if time.monotonic() > deadline:
            raise AirflowFailed(f"Airflow was not healthy after {HEALTHY_WITHIN_S} s; see {service.logs}")
        time.sleep(0.5)


def bound_logs(logs: Path) -> None:
    """Cut the logs of components that have become long, and delete those of tasks and DAG files that are old."""
    for log in logs.glob("*.log"):
        if log.stat().st_size > LONGEST:
            shutil.copy2(log, log.with_suffix(".log.1"))
            # The component has it open, and goes on at its new end.
            with log.open("r+b") as file:
                file.truncate(0)
    oldest = time.time() - OLDEST_S
    for path in sorted(logs.rglob("*"), reverse=True):
        with suppress(OSError):
            if path.parent == logs or path.lstat().st_mtime >= oldest:
                continue
            # A folder that is not empty stays; one that Airflow has just made is not old.
            path.rmdir() if path.is_dir() else path.unlink()
