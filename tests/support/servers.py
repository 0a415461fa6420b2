"""Servers that tests start, stop and kill: a free port of the loopback, and a process on it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

_TO_START_S, _TO_END_S = 60, 30


def free_port() -> int:
    """Return a port that nobody listens at now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def answers(port: int) -> bool:
    """Return whether somebody takes connections at a port."""
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def run_beside(server: AbstractContextManager[dict[str, str]], without: str) -> int:
    """Run the command that follows on the command line while a server runs; return the command's exit code.

    The server is entered as the variables that it adds to the command's environment. Where it cannot be had, the
    reason and ``without`` are printed, and the command runs without it.
    """
    try:
        with server as told:
            return subprocess.run(sys.argv[1:], env=os.environ | told, check=False).returncode
    except pytest.skip.Exception as reason:
        print(f"{reason}; {without}", flush=True)
    return subprocess.run(sys.argv[1:], check=False).returncode


class Server:
    """A server on a port of its own; its folder stays while it is stopped."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def begin(self, words: Sequence[str | Path], is_up: Callable[[], bool] | None = None, **how: Any) -> None:
        """Start its program, and wait until it takes connections, or until what is given says that it is up."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, cwd=self.folder, **how)
        end = time.monotonic() + _TO_START_S
        while not (is_up() if is_up else answers(self.port)):
            assert time.monotonic() < end and self.process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.05)

    def end(self, how: signal.Signals) -> None:
        """Send it a signal, and wait until it and its children have ended; nothing where it does not run."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(how)
        self.process.wait(_TO_END_S)
        # Children end when they see that; a new server waits for them.
        end = time.monotonic() + _TO_END_S
        while answers(self.port):
            assert time.monotonic() < end
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill it with all that it does, as a machine that loses power would."""
        self.end(signal.SIGKILL)
