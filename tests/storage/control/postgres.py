"""A real Postgres that tests start, stop and kill, on the loopback and in a folder of its own.

python -m tests.storage.control.postgres COMMAND ...

runs a command with its leases in one; where there are no programs of Postgres, it says so and runs it without.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.support.servers import Server, run_beside

PASSWORD = "never-to-be-said"
_USERS = ("postgres", "nobody")
# Of a busy machine.
_TO_NOTICE_S = 20


def _programs() -> Path:
    """Return where the server's programs are; the test is skipped where there are none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    path = shutil.which("initdb")
    if path is None:
        pytest.skip("no PostgreSQL: Debian's package postgresql has it")
    return Path(path).parent


class Postgres(Server):
    """A server with one database and one user, whose password it asks for."""

    def __init__(self, folder: Path) -> None:
        self.programs = _programs()
        super().__init__(folder)
        self._as_user: dict[str, str] = {}
        if os.getuid() == 0:
            # The server refuses to be root's.
            user = next(
                user for user in _USERS if subprocess.run(["id", user], capture_output=True).returncode == 0
            )
            shutil.chown(folder, user)
            self._as_user = {"user": user}
        self._make()

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://tidemark:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def _make(self) -> None:
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        words: list[str] = [f"{self.programs}/initdb", f"--pgdata={self.folder}/db", "--username=tidemark"]
        words += [f"--pwfile={secret}", "--auth=scram-sha-256", "--no-sync", "--encoding=UTF8", "--locale=C"]
        subprocess.run(words, check=True, capture_output=True, cwd=self.folder, **self._as_user)  # type: ignore[call-overload]

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        words: list[str | Path] = [self.programs / "postgres", "-D", self.folder / "db", "-p", str(self.port)]
        for option in ("listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"):
            words += ["-c", option]
        ready = [f"{self.programs}/pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        self.begin(words, lambda: not subprocess.run(ready, check=False).returncode, **self._as_user)

    def wait_until_free(self) -> None:
        """Wait until nobody holds a lease: the session of a killed process ends when the server sees its socket end."""
        held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted"
        end = time.monotonic() + _TO_NOTICE_S
        with psycopg.connect(self.url.replace("+psycopg", "")) as session:
            while session.execute(held).fetchone() != (0,):
                assert time.monotonic() < end, "a process that was killed holds its lease"
                time.sleep(0.05)

    def stop(self) -> None:
        """Stop it at once."""
        self.end(signal.SIGQUIT)


@contextmanager
def running() -> Iterator[Postgres]:
    """Start a server; stop it and delete its folder afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="tidemark-postgres-"))
    try:
        server = Postgres(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def leases() -> Iterator[dict[str, str]]:
    """Start a server, and return the variable that puts leases there."""
    with running() as server:
        print(f"leases are locks in a Postgres on port {server.port} of the loopback", flush=True)
        yield {"TIDEMARK_CONTROL": server.url}


if __name__ == "__main__":
    raise SystemExit(run_beside(leases(), "leases are the kernel's"))
