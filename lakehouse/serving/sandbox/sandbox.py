"""The door for readers: the current version, read-only and locked, and other people's SQL under hard limits.

``open_published`` opens the file without extensions, files or network, and nothing can change that afterwards.
``run_sql`` runs a statement in a process of its own (see worker.py), because single DuckDB functions can ignore both
its memory limit and an interrupt: there the kernel limits memory, CPU time and writing; what does not end is killed.
Cost: 0.1 s for the process; the statement's own time comes on top.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from lakehouse.config.config_paths import located, store_url
from lakehouse.serving.sandbox.limits import MEMORY_MB, TIMEOUT_S
from lakehouse.serving.sandbox.together import TooMuchTogether, counted
from lakehouse.serving.versions.downloads import hold_downloaded
from lakehouse.serving.versions.versions import Hold
from lakehouse.storage.layout import Home

_ROOT = Path(__file__).resolve().parents[3]
_GRACE_S = 1.0
_LOGGED = 10_000
log = logging.getLogger(__name__)


class SqlFailed(RuntimeError):
    """A statement that was refused, went wrong, or was stopped; the message says which."""


@dataclass
class SqlResult:
    """Rows as JSON knows them: numbers, text, lists, maps; ``truncated`` when there were more."""

    columns: list[str]
    types: list[str]
    rows: list[list[Any]]
    truncated: bool


@dataclass
class PublishedReader(AbstractContextManager["PublishedReader"]):
    """The current version, which stays as long as this is open; ``connection`` opens on first use."""

    home: Home
    hold: Hold
    _connection: duckdb.DuckDBPyConnection | None = field(default=None, repr=False)
    _raw: duckdb.DuckDBPyConnection | None = field(default=None, repr=False)

    @property
    def version(self) -> int:
        """The version that answers."""
        return self.hold.version

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The locked connection."""
        if self._connection is None:
            from lakehouse.serving.sandbox.locked import connect_locked

            self._connection = connect_locked(self.hold.path)
        return self._connection

    def another(self) -> PublishedReader:
        """Return a reader of the same open version for another thread; this one must stay open as long."""
        return PublishedReader(self.home, self.hold, self.connection.cursor())

    @contextmanager
    def reads_raw(self, raw: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
        """Let a connection that reads raw rows for this reader be interrupted with it, and close it in the end."""
        with raw:
            self._raw = raw
            try:
                yield raw
            finally:
                self._raw = None

    def interrupt(self) -> None:
        """Stop what this reader is doing, from another thread; it fails with DuckDB's InterruptException."""
        import duckdb

        for connection in (self._connection, self._raw):
            if connection is not None:
                # One that is closed meanwhile has nothing to stop.
                with suppress(duckdb.ConnectionException):
                    connection.interrupt()

    def close(self) -> None:
        """Close the connection and let go of the version."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self.hold.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def open_published(home: Path | Home, version: int | None = None) -> PublishedReader:
    """Open a version of a home, by default the current one; the home may be ``Path("s3://bucket/prefix")``.

    Raises NotPublished when nothing has been published yet; VersionGone when the version asked for is not kept.
    """
    layout = home if isinstance(home, Home) else Home(located(home, Path()) if store_url(home) else home)
    return PublishedReader(layout, hold_downloaded(layout, version))


@contextmanager
def reading(published: Path | Home | PublishedReader) -> Iterator[PublishedReader]:
    """Give a version to read: one that is open already stays open; of a home, the current one is opened and closed.

    Raises NotPublished when nothing has been published yet.
    """
    if isinstance(published, PublishedReader):
        yield published
        return
    with open_published(published) as reader:
        yield reader


def run_sql(
    published: PublishedReader,
    text: str,
    row_limit: int = 10_000,
    timeout_s: float = TIMEOUT_S,
    started: Callable[[Callable[[], object]], object] | None = None,
    memory_mb: int = MEMORY_MB,
) -> SqlResult:
    """Run one SELECT of somebody else on a published version; ``started`` is given what kills it.

    Raises SqlFailed when it is refused, fails, takes longer than ``timeout_s`` or needs more memory than it may.
    """
    request = {
        **{"path": str(published.hold.path), "sql": text, "row_limit": row_limit},
        **{"timeout_s": timeout_s, "memory_mb": memory_mb},
    }
    process = subprocess.Popen(
        [sys.executable, "-E", "-s", "-c", _START, str(_ROOT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": os.defpath, "LANG": "C.UTF-8", "TZ": "UTC"},
        cwd="/",
    )
    with process:
        if started is not None:
            started(process.kill)
        try:
            with counted(process):
                output, errors = process.communicate(json.dumps(request).encode(), timeout_s + _GRACE_S)
        except TooMuchTogether:
            raise SqlFailed("stopped: all running statements together need too much memory") from None
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise SqlFailed(f"stopped after {timeout_s:g} s: narrow the range or ask for less") from None
        except BaseException:
            process.kill()
            raise
    return _result(output, errors, timeout_s)


def distinct(columns: Sequence[str]) -> list[str]:
    """Return columns' names with a number where one comes again, so that an object can hold them all.

    >>> distinct(["a", "b", "a"])
    ['a', 'b', 'a_2']
    """
    seen: dict[str, int] = {}
    names = []
    for column in columns:
        seen[column] = seen.get(column, 0) + 1
        names.append(column if seen[column] == 1 else f"{column}_{seen[column]}")
    return names


_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from lakehouse.serving.sandbox.worker import main; main()"
)


def _result(output: bytes, errors: bytes, timeout_s: float) -> SqlResult:
    try:
        answer = json.loads(output)
    except ValueError:
        said = errors.decode(errors="replace").strip()
        stopped = f"stopped: the statement needs more memory or time than it may have ({timeout_s:g} s)"
        raise SqlFailed(f"{stopped}{_logged(said)}" if said else stopped) from None
    if "error" in answer:
        raise SqlFailed(answer["error"])
    if "failed" in answer:
        raise SqlFailed(f"DuckDB failed on this statement{_logged(answer['failed'])}")
    return SqlResult(**answer)


def _logged(said: str) -> str:
    """Log what tells of this machine, and return where it is in the log, as the end of a sentence for anybody."""
    reference = secrets.token_hex(4)
    log.error("statement %s failed: %s", reference, said[-_LOGGED:])
    return f"; the log says more under {reference}"
