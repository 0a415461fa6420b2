"""The limits of one question: the same time as for ``sql``. Memory is limited where a connection is opened.

A version is opened with ``MEMORY_LIMIT`` (locked.py), and so are raw rows (raw.py).
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lakehouse.serving.ask.question import AskError
from lakehouse.serving.sandbox.limits import TIMEOUT_S
from lakehouse.serving.sandbox.sandbox import PublishedReader

__all__ = ["TIMEOUT_S", "limited"]
# A question is several statements, and an interrupt between two of them has no effect: it is repeated.
_AGAIN_S = 0.02


@contextmanager
def limited(published: PublishedReader, timeout_s: float | None) -> Iterator[None]:
    """Interrupt reads from a version after so many seconds; None: another part watches the time.

    Cost: a waiting thread, a quarter of a millisecond. Raises AskError if the reads took longer, or needed more
    memory than a reader may have.
    """
    import duckdb

    is_over, stopped_after = threading.Event(), list[float]()
    began = time.monotonic()

    def watch() -> None:
        if not is_over.wait(timeout_s):
            stopped_after.append(time.monotonic() - began)
        while not is_over.is_set():
            published.interrupt()
            is_over.wait(_AGAIN_S)

    watcher = None if timeout_s is None else threading.Thread(target=watch, name="timeout", daemon=True)
    try:
        if watcher is not None:
            watcher.start()
        yield
    except duckdb.Error as error:
        # An interrupt between two steps of a statement raises another error than an interrupt.
        if stopped_after:
            raise AskError(
                f"stopped after {stopped_after[0]:.3g} s: narrow the range, ask for fewer keys or points, or give it "
                "more time (--timeout, in Python timeout_s)"
            ) from None
        if not isinstance(error, duckdb.OutOfMemoryException):
            raise
        raise AskError(
            "stopped: the question needs more memory than it may have: narrow the range, ask for fewer keys or points"
        ) from None
    finally:
        is_over.set()
        if watcher is not None:
            watcher.join()
