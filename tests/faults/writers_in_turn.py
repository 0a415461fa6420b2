"""Processes that write one home and are moved on by hand: each stops before every change of a file until told to go on.

So one interleaving of many is chosen, not met by chance. A process that does not come to its next stop within
``WAIT_S`` waits for another, or is in the midst of long work: the others may go on meanwhile.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from tests.faults.forked import hook_of

WAIT_S, PATIENCE_S = 0.25, 600.0
# Steps that a process makes at once when all are brought to their end.
STRIDE = 20


class Writer:
    """A forked process with some work to do; it stands before its first step."""

    def __init__(self, name: str, work: Callable[[], Any], folder: Path) -> None:
        self.name, self.steps, self.result, self.error = name, 0, None, ""
        self.has_ended = self._is_waiting = False
        self._told, sender = Pipe()
        self._child = os.fork()
        if self._child == 0:
            self._told.close()
            _run(work, folder, sender)
        sender.close()
        self._hear(WAIT_S)

    def move(self, steps: int) -> None:
        """Let it make some steps, or as many as it can before it waits for another process or ends."""
        for _ in range(steps):
            if self._is_waiting and not self.has_ended:
                self._is_waiting = False
                self.steps += 1
                self._told.send(None)
            if not self._hear(WAIT_S):
                return

    def kill(self) -> None:
        """End it where it stands."""
        if not self.has_ended:
            os.kill(self._child, signal.SIGKILL)
            self._end()

    def _hear(self, wait_s: float) -> bool:
        """Whether it has come to its next stop."""
        if self._is_waiting or self.has_ended:
            return not self.has_ended
        if not self._told.poll(wait_s):
            return False
        try:
            ended = self._told.recv()
        except EOFError:
            ended = (None, "it died")
        if ended is None:
            self._is_waiting = True
            return True
        self.result, self.error = ended
        self._end()
        return False

    def _end(self) -> None:
        self.has_ended = True
        self._told.close()
        os.waitpid(self._child, 0)


def bring_to_end(writers: Sequence[Writer]) -> None:
    """Move each in turn until all have ended.

    Raises:
        TimeoutError: when none has come any further for ``PATIENCE_S``: each waits for another.
    """
    steps, since = -1, time.monotonic()
    while waiting := [writer for writer in writers if not writer.has_ended]:
        for writer in waiting:
            writer.move(STRIDE)
        done = sum(writer.steps + writer.has_ended for writer in writers)
        if done != steps:
            steps, since = done, time.monotonic()
        elif time.monotonic() - since > PATIENCE_S:
            raise TimeoutError(f"none of {', '.join(writer.name for writer in waiting)} goes on")


def _run(work: Callable[[], Any], folder: Path, sender: Any) -> None:
    """Do the work, stopping before each step; tell what came of it."""
    one, is_on = threading.Lock(), [True]

    def at_step(number: int, what: str) -> None:
        # Threads of one process stop one after the other.
        with one:
            sender.send(None)
            sender.recv()

    found, error = None, ""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(null, stream)
        sys.addaudithook(hook_of(str(folder), [], at_step, is_on))
        found = work()
    except BaseException:
        error = traceback.format_exc(limit=-4)
    is_on[0] = False
    try:
        sender.send((found, error))
    finally:
        os._exit(0)
