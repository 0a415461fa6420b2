"""The end of a command by SIGTERM or SIGINT: within five seconds, whatever the command does at that time.

The first signal interrupts the main thread, whose blocks then close what they hold. A process that still runs after
``WITHIN_S``, or gets a second signal, ends at once, and so do its children: everything that is written survives a kill.
The exit code is 128 and the signal's number, as a shell has it.

A thread hears of signals by a descriptor that the interpreter writes to. So neither a library that sets a handler of
its own, as Airflow's task runner does, nor a long call of compiled code keeps a command from ending.
"""

import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

# An orderly end may take so long, and children that are asked to end so long.
WITHIN_S, CHILDREN_WITHIN_S = 3.0, 0.5
_ENDING = (signal.SIGTERM, signal.SIGINT)
# Sent by this process to its own main thread; no library used here handles it.
_INTERRUPTING = signal.SIGUSR2


class _State:
    number = 0
    is_interrupted = False
    is_in_jobs = False


def heard() -> int:
    """Return the number of the signal that ends this process, 0 before there was one."""
    return _State.number


def listen() -> None:
    """Let SIGTERM and SIGINT end this process; to be called once, in the main thread."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (*_ENDING, _INTERRUPTING):
        # What a shell starts in the background ignores SIGINT.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    threading.Thread(target=_obey, args=(reading,), name="end", daemon=True).start()


@contextmanager
def interrupting_jobs() -> Iterator[None]:
    """Interrupt the main thread in this block even if a library handles SIGTERM in another way there."""
    _State.is_in_jobs = True
    try:
        yield
    finally:
        _State.is_in_jobs = False


def leave_if_heard() -> None:
    """End this process if a signal has asked for it in a block of ``interrupting_jobs``."""
    if _State.number and _State.is_in_jobs:
        leave(128 + _State.number)


def leave(code: int) -> NoReturn:
    """End the process and its children now, without taking the interpreter down."""
    # Compiled code that other threads are in would crash an interpreter that is taken down.
    import psutil

    children = psutil.Process().children(recursive=True)
    for child in children:
        with suppress(psutil.NoSuchProcess):
            child.terminate()
    for child in psutil.wait_procs(children, CHILDREN_WITHIN_S)[1]:
        with suppress(psutil.NoSuchProcess):
            child.kill()
    os._exit(code)


def _interrupt(number: int, _: object) -> None:
    _State.number = _State.number or number
    # Once: the blocks that close then are not interrupted themselves.
    if not _State.is_interrupted:
        _State.is_interrupted = True
        raise KeyboardInterrupt(f"ended by {signal.Signals(_State.number).name}")


def _obey(reading: int) -> None:
    _State.number = _next(reading, None)
    if _State.is_in_jobs and _State.number == signal.SIGTERM:
        signal.pthread_kill(threading.main_thread().ident or 0, _INTERRUPTING)
    _next(reading, WITHIN_S)
    leave(128 + _State.number)


def _next(reading: int, timeout_s: float | None) -> int:
    """Return the next signal that asks for the end, 0 if there is none in time."""
    while select.select([reading], [], [], timeout_s)[0]:
        for number in os.read(reading, 64):
            if number in _ENDING:
                return number
    return 0
