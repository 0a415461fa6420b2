"""A Spark cluster on this machine alone: a master and workers of one core, as processes that end with their starter.

    python -m infra.loopback_cluster --workers 2 --folder DIR -- COMMAND ...

runs a command with TIDEMARK_SPARK__MASTER and TIDEMARK_SPARK__SECRET set to the cluster's.
"""

import argparse
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

HOST = "127.0.0.1"
_START_S = 90
_MASTER, _WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
# The daemons only pass messages on.
_MEMORY = "192m"
LIGHTLY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def _spark_home() -> Path:
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("pyspark is not installed: run `make setup`")
    return Path(spec.submodule_search_locations[0])


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@dataclass
class Daemon:
    """A process of the cluster and all that it starts, which are ended together."""

    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        """End it and its executors, as a power cut would."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def wait_for(self, text: str) -> None:
        """Wait until its log contains a text. Raises RuntimeError when it ends before, or does not say it in time."""
        end = time.monotonic() + _START_S
        while time.monotonic() < end and self.process.poll() is None:
            if text in self.log.read_text(encoding="utf-8", errors="replace"):
                return
            time.sleep(0.1)
        log = self.log.read_text(encoding="utf-8", errors="replace")
        raise RuntimeError(f"no {text!r} in {self.log}; it ends with: {log[-2000:]}")


@dataclass
class LoopbackCluster:
    """A master and its workers; each worker has folders of its own below ``folder``.

    ``python``: the folder of the ``python3`` that workers start; ``around``: what a worker's command is put behind.
    """

    folder: Path
    python: Path = field(default_factory=lambda: Path(sys.executable).parent)
    around: Sequence[str] = ()
    secret: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    port: int = field(default_factory=free_port)
    master: Daemon | None = None
    workers: list[Daemon] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The master's address, as settings name it."""
        return f"spark://{HOST}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Environment of a driver."""
        return {"TIDEMARK_SPARK__MASTER": self.url, "TIDEMARK_SPARK__SECRET": self.secret}

    def start_master(self) -> None:
        """Start the master and wait for it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        conf = self.folder / "cluster.conf"
        conf.touch(0o600)
        conf.write_text(f"spark.authenticate true\nspark.authenticate.secret {self.secret}\n")
        own = ("--host", HOST, "--port", str(self.port), "--webui-port", "0", "--properties-file", str(conf))
        self.master = self._daemon("master", (), [_MASTER, *own], {})
        self.master.wait_for("I have been elected leader")

    def start_worker(self, cores: int = 1, memory: str = "1g", host: str = HOST) -> Daemon:
        """Start a worker and wait until the master knows it; ``host``: another of the loopback, as on two machines."""
        name = f"worker-{len(self.workers) + 1}"
        own = self.folder / name
        for part in ("work", "tmp", "local"):
            (own / part).mkdir(parents=True)
        environment = {
            "PATH": f"{self.python}:{os.environ['PATH']}",
            "TMPDIR": str(own / "tmp"),
            "SPARK_LOCAL_DIRS": str(own / "local"),
            "SPARK_LOCAL_IP": host,
        }
        asked = ("--host", host, "--cores", str(cores), "--memory", memory, "--work-dir", str(own / "work"))
        arguments = ("--webui-port", "0", "--properties-file", str(self.folder / "cluster.conf"), self.url)
        worker = self._daemon(name, self.around, [_WORKER, *asked, *arguments], environment)
        self.workers.append(worker)
        worker.wait_for("Successfully registered with master")
        return worker

    def stop(self) -> None:
        """End all of it."""
        for daemon in [*self.workers, *([self.master] if self.master else [])]:
            daemon.kill()

    def _daemon(
        self, name: str, around: Sequence[str], command: Sequence[str], environment: Mapping[str, str]
    ) -> Daemon:
        home = _spark_home()
        own = self.folder / name
        own.mkdir(parents=True, exist_ok=True)
        inherited = {
            k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "TIDEMARK_", "PYTHON"))
        }
        variables = {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_JAVA_OPTS": LIGHTLY,
            "SPARK_DAEMON_MEMORY": _MEMORY,
        }
        log = own / "log"
        process = subprocess.Popen(
            [*around, str(home / "bin" / "spark-class"), *command],
            env={**inherited, **variables, **environment},
            cwd=own,
            stdin=subprocess.DEVNULL,
            stdout=log.open("wb"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return Daemon(process, log)


@contextmanager
def loopback_cluster(
    folder: Path, workers: int, say: Callable[[str], None] = lambda _: None, **options: object
) -> Iterator[LoopbackCluster]:
    """Start a cluster, and end it with the block."""
    cluster = LoopbackCluster(folder.resolve(), **options)  # type: ignore[arg-type]
    try:
        say(f"starting a Spark master and {workers} workers of one core on {HOST} ...")
        cluster.start_master()
        for number in range(workers):
            cluster.start_worker()
            say(f"worker {number + 1} of {workers} is registered with {cluster.url}")
        yield cluster
    finally:
        cluster.stop()


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command beside a cluster; return its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, required=True, help="where the cluster's logs and work go")
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args(argv)
    with loopback_cluster(asked.folder, asked.workers, lambda line: print(line, flush=True)) as cluster:
        return subprocess.run(asked.command, env=os.environ | cluster.environment, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
