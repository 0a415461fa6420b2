"""The door for readers: the current version, read-only and locked, and other people's SQL under hard limits.

``open_published`` opens the file without extensions, files or network, and nothing can change that afterwards.
``run_sql`` runs a statement in a process of its own (see worker.py), because single DuckDB functions can ignore both
its memory limit and an interrupt: there the kernel limits memory, CPU time and writing; what does not end is killed.
Cost: 0.1 s for the process; the statement's own time comes on top.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lakehouse.home.layout import Home
from lakehouse.serving.file.versions import Hold, hold_current

if TYPE_CHECKING:
    import duckdb

_ROOT = Path(__file__).resolve().parents[3]
_GRACE_S = 1.0


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
class PublishedReader:
    """The current version, which stays as long as this is open; ``connection`` opens on first use."""

    hold: Hold
    _connection: duckdb.DuckDBPyConnection | None = field(default=None, repr=False)

    @property
    def version(self) -> int:
        """The version that answers."""
        return self.hold.version

    @property
    def home(self) -> Path:
        """The home that was published from."""
        return self.hold.path.parents[1]

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The locked connection."""
        if self._connection is None:
            from lakehouse.serving.sandbox.locked import connect_locked

            self._connection = connect_locked(self.hold.path)
        return self._connection

    def close(self) -> None:
        """Close the connection and let go of the version."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self.hold.close()

    def __enter__(self) -> PublishedReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_published(home: Path | Home) -> PublishedReader:
    """Open the current version of a home.

    Raises:
        NotPublished: when nothing has been published yet.
    """
    layout = home if isinstance(home, Home) else Home(home)
    return PublishedReader(hold_current(layout.serving))


def run_sql(
    published: PublishedReader, text: str, row_limit: int = 10_000, timeout_s: float = 30.0
) -> SqlResult:
    """Run one SELECT of somebody else on a published version.

    Raises:
        SqlFailed: when it is refused, fails, takes longer than ``timeout_s`` or needs more memory than it may.
    """
    request = {"path": str(published.hold.path), "sql": text, "row_limit": row_limit, "timeout_s": timeout_s}
    try:
        ended = subprocess.run(
            [sys.executable, "-E", "-s", "-c", _START, str(_ROOT)],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=timeout_s + _GRACE_S,
            check=False,
            env={"PATH": os.defpath, "LANG": "C.UTF-8", "TZ": "UTC"},
            cwd="/",
        )
    except subprocess.TimeoutExpired:
        raise SqlFailed(f"stopped after {timeout_s:g} s: narrow the range or ask for less") from None
    return _result(ended, timeout_s)


_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from lakehouse.serving.sandbox.worker import main; main()"
)


def _result(ended: subprocess.CompletedProcess[bytes], timeout_s: float) -> SqlResult:
    try:
        answer = json.loads(ended.stdout)
    except ValueError:
        raise SqlFailed(_death(ended, timeout_s)) from None
    if "error" in answer:
        raise SqlFailed(answer["error"])
    return SqlResult(**answer)


def _death(ended: subprocess.CompletedProcess[bytes], timeout_s: float) -> str:
    last = ended.stderr.decode(errors="replace").strip().splitlines()[-1:]
    said = f" ({last[0][:200]})" if last else ""
    return f"stopped: the statement needs more memory or time than it may have ({timeout_s:g} s){said}"
