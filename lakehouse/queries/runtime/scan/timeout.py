"""How long a call may take: one that never returns is ended by an error, so that others get their turn."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# A predicate asked row by row may take 36 ms for each of a piece's 8,192.
TIMEOUT_S = 300.0
# Asked again and again, for code that catches whatever is raised and tries once more.
_AGAIN_S = 1.0


@contextmanager
def within(seconds: float, what: str) -> Iterator[None]:
    """End the block after so many seconds by an error, where this is the main thread, as in Spark's Python workers.

    Code that does not come back to the interpreter, as in a library of C, goes on until it does.

    Raises:
        TimeoutError: ``what`` took longer.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: Any) -> None:
        raise TimeoutError(f"{what} took longer than {seconds:g} s")

    handler = signal.signal(signal.SIGALRM, end)
    left, again = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
    begun = time.monotonic()
    try:
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        # Twice, for the alarm that comes in between.
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left:
            # Whoever set an alarm before gets it when it was due.
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - begun), 1e-3), again)
