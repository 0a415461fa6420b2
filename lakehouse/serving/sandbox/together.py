"""The memory of all statements that this process has others run, bounded together.

A process of its own bounds each, at some gigabytes of addresses, of which a huge value may fill most. So while some
run, a thread adds up what they hold; when that is too much, the one that holds most is killed.
"""

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Two statements that hold all of DuckDB's memory, their code, and some values beside.
MOST_MB = 2_048
_LOOK_S = 0.02
_PAGE = os.sysconf("SC_PAGE_SIZE")


class _Together:
    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._is_watched = False

    def add(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._running.add(process)
            if not self._is_watched:
                self._is_watched = True
                threading.Thread(target=self._watch, name="statements", daemon=True).start()

    def remove(self, process: subprocess.Popen[bytes]) -> bool:
        """Forget a process; return whether it was killed here."""
        with self._lock:
            self._running.discard(process)
            was_stopped = process in self._stopped
            self._stopped.discard(process)
            return was_stopped

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK_S)
            with self._lock:
                if not self._running:
                    self._is_watched = False
                    return
                held = {process: _resident(process.pid) for process in self._running - self._stopped}
                if sum(held.values()) > MOST_MB * 1024**2:
                    largest = max(held, key=lambda process: held[process])
                    self._stopped.add(largest)
                    largest.kill()


# The memory of a machine is one for all statements of a process.
_TOGETHER = _Together()


class TooMuchTogether(Exception):
    """A statement that was killed since all together held too much memory."""


@contextmanager
def counted(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Count a process among those that run statements.

    Raises TooMuchTogether at the end, when it was killed for the memory of all.
    """
    _TOGETHER.add(process)
    try:
        yield
    finally:
        was_stopped = _TOGETHER.remove(process)
    if was_stopped:
        raise TooMuchTogether


def _resident(pid: int) -> int:
    """Return the bytes of a process in memory, 0 where that is not told, as of one that has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0
