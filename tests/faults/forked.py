"""One attempt in a process of its own, where every change of a file in a folder is a step that can fail.

Python tells a hook of each file that it opens for writing, renames or removes; ``storage.crashpoint`` tells it
of each named place, which lie around what compiled code writes: the files and commits of tables. A step is told
before it is done. The process is forked from one that has imported everything and opened nothing.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

_CHANGES = {
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.truncate",
}
_NAMED = "tidemark.crash_point"
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Far above what an attempt takes where kernels are compiled first and many other processes run.
TIMEOUT_S = 1_200.0
# What is done at a step: its number, from 0, and what it is.
AtStep = Callable[[int, str], None]


@dataclass(frozen=True)
class Ended:
    """How an attempt ended: killed, with an error, or with a result; ``steps`` passed."""

    result: Any = None
    error: str | None = None
    is_killed: bool = False
    steps: tuple[str, ...] = ()


class Hung(RuntimeError):
    """An attempt has not ended in time."""


def attempt(
    work: Callable[[], Any], folder: Path | None = None, at_step: AtStep = lambda number, what: None
) -> Ended:
    """Run ``work`` in a forked process; ``at_step`` hears of each change below ``folder``, and may raise or kill.

    Raises:
        Hung: when it takes longer than ``TIMEOUT_S``; it is killed.
    """
    receiver, sender = Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        receiver.close()
        _run(work, folder, at_step, sender)
    sender.close()
    told: tuple[Any, str | None, tuple[str, ...]] = (None, None, ())
    try:
        if not receiver.poll(TIMEOUT_S):
            os.kill(child, signal.SIGKILL)
            raise Hung(f"no end after {TIMEOUT_S:.0f} s")
        told = receiver.recv()
    except EOFError:
        pass
    finally:
        receiver.close()
        _, status = os.waitpid(child, 0)
    return Ended(told[0], told[1], os.WIFSIGNALED(status), told[2])


def kill_at(step: int) -> AtStep:
    """Return what kills the process before a step."""

    def at_step(number: int, what: str) -> None:
        if number == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return at_step


def fail_from(step: int, code: int) -> AtStep:
    """Return what lets every step from one on fail with an error of the system."""

    def at_step(number: int, what: str) -> None:
        if number >= step:
            raise OSError(code, os.strerror(code), what)

    return at_step


def _run(work: Callable[[], Any], folder: Path | None, at_step: AtStep, sender: Connection) -> None:
    """Run ``work``, send what came of it, and end without the interpreter's own end."""
    steps: list[str] = []
    is_on = [folder is not None]
    try:
        # What a job logs of a fault is not of interest, and much.
        null = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(null, stream)
        sys.addaudithook(hook_of(str(folder), steps, at_step, is_on))
        found, error = work(), None
    except BaseException as failure:
        found, error = None, "".join(traceback.format_exception(failure)[-3:])
    is_on[0] = False
    try:
        sender.send((found, error, tuple(steps)))
        sender.close()
    finally:
        os._exit(0)


def hook_of(folder: str, steps: list[str], at_step: AtStep, is_on: list[bool]) -> Callable[[str, Any], None]:
    def hook(event: str, told: Any) -> None:
        if is_on[0] and (what := step_of(event, told, folder)):
            # What is done at a step is none.
            is_on[0] = False
            try:
                steps.append(what)
                at_step(len(steps) - 1, what)
            finally:
                is_on[0] = True

    return hook


def step_of(event: str, told: Any, folder: str) -> str:
    """Return what a change below the folder is, nothing for any other event."""
    if event == _NAMED:
        return f"at {told[0]}"
    if event == "open":
        path, mode, flags = told
        is_write = bool(set(mode or "") & set("wax+")) or bool((flags or 0) & _WRITES)
        return _named("write", path, folder) if is_write and not isinstance(path, int) else ""
    return _named(event.removeprefix("os."), told[0], folder) if event in _CHANGES else ""


def _named(what: str, path: Any, folder: str) -> str:
    text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
    # A name without a folder is one below a folder that is being removed.
    is_inside = text.startswith(folder) or not text.startswith("/")
    return f"{what} {text.removeprefix(folder).lstrip('/')}" if text and is_inside else ""
