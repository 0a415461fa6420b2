"""A predicate of the operator's own, called on Arrow batches; its code runs in Spark's Python workers as any code does.

The text of its file is sent along and run once a task, so a mended file counts from the next task on. A call that
never returns is ended by an error, so that others get their turn.
"""

from __future__ import annotations

import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

# A predicate asked row by row may take 36 ms for each of a piece's 8,192.
TIMEOUT_S = 300.0
# Asked again and again, for code that catches whatever is raised and tries once more.
_AGAIN_S = 1.0


@dataclass(frozen=True)
class Source:
    """A predicate as it is sent to a task: its function, the columns it is given, its file's name and text."""

    name: str
    columns: tuple[str, ...]
    by_row: bool
    path: str
    text: str

    @classmethod
    def of(cls, name: str, columns: tuple[str, ...], by_row: bool, path: Path) -> Source:
        """Return a predicate with what its file says now; one that cannot be read raises that when it is asked."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            text = f"raise OSError({str(error)!r})"
        return cls(name, columns, by_row, str(path), text)


class Call:
    """The predicate of one task. Its file is run before it is first asked; what that raises is raised when it is."""

    def __init__(self, source: Source, timeout_s: float) -> None:
        self.source, self.timeout_s = source, timeout_s
        self._function: Callable[..., Any] | None = None

    def __call__(self, rows: pa.RecordBatch) -> Any:
        """Return one truth value a row.

        Raises TypeError when it returned something else than truth values; TimeoutError when it took longer than
        ``timeout_s``; Exception: whatever the predicate raises.
        """
        function = self._loaded()
        arrays = [rows.column(name) for name in self.source.columns]
        with within(self.timeout_s, f"{self.source.name} of {rows.num_rows:,} rows"):
            found = _by_row(function, arrays) if self.source.by_row else function(*arrays)
        return _truths(found, self.source.name)

    def load(self) -> None:
        """Run the file, if that has not been done; what it raises is left to the first call."""
        with suppress(Exception):
            self._loaded()

    def _loaded(self) -> Callable[..., Any]:
        if self._function is None:
            module = ModuleType(f"predicate_{self.source.name}")
            module.__file__ = self.source.path
            with within(self.timeout_s, f"running {Path(self.source.path).name}"):
                exec(compile(self.source.text, self.source.path, "exec"), module.__dict__)
            self._function = getattr(module, self.source.name)
        return self._function


def place_of(error: BaseException, paths: Sequence[str]) -> str | None:
    """Return the innermost file and line of one of these files in which an error was raised, None for none."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in paths]
    if isinstance(error, SyntaxError) and error.filename in paths:
        return f"{Path(str(error.filename)).name}:{error.lineno}"
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else None


def _by_row(function: Callable[..., Any], arrays: Sequence[pa.Array]) -> Any:
    values = (array.to_pylist() for array in arrays)
    # None counts as not, as null does.
    return np.fromiter((bool(function(*row)) for row in zip(*values, strict=True)), np.bool_, len(arrays[0]))


def _truths(found: Any, name: str) -> Any:
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    if isinstance(found, pa.BooleanArray):
        return found.fill_null(False)
    if isinstance(found, np.ndarray) and found.dtype == np.bool_:
        return found
    kind = found.type if isinstance(found, pa.Array) else getattr(found, "dtype", type(found).__name__)
    raise TypeError(
        f"{name} returned {kind}; expected a boolean Arrow array, or annotate it as returning bool"
    )


@contextmanager
def within(seconds: float, what: str) -> Iterator[None]:
    """End the block after so many seconds by an error, where this is the main thread, as in Spark's Python workers.

    Code that does not come back to the interpreter, as in a library of C, goes on until it does. Raises TimeoutError:
    ``what`` took longer.
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
        # The alarm may have ended the call above before it stopped the timer.
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left:
            # Whoever set an alarm before gets it when it was due.
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - begun), 1e-3), again)
