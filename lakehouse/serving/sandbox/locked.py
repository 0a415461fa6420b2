"""The one way a published file is opened: read-only, no files, network or extensions, and nothing can change that.

Everything is set before a statement can run, and the same everywhere: DuckDB shares one instance per file in a
process, and refuses a second connection that asks for other settings. Segments are attached, read-only, before the
door to other files is shut: attached files are the only ones that stay open.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from lakehouse.serving.sandbox.limits import MEMORY_MB
from lakehouse.serving.segments.segments import attach
from lakehouse.serving.versions.versions import anew, segments_of
from lakehouse.storage.damaged import DamagedFile

MEMORY_LIMIT = f"{MEMORY_MB}MB"
# Threads of one process share DuckDB's instance of a file: only one may attach and lock at a time.
_OPENING = threading.Lock()


def connect_locked(
    path: Path, threads: int = 1, memory_limit: str = MEMORY_LIMIT
) -> duckdb.DuckDBPyConnection:
    """Open a published file, with its segments, so that a statement can read it and do nothing else.

    A range question reads a few thousand rows: a second thread costs it more than it brings. Raises DamagedFile when
    it, or one of its segments, is no whole file of DuckDB.
    """
    with _OPENING, _naming_damage(path):
        connection = duckdb.connect(
            str(path),
            read_only=True,
            config={
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "allow_community_extensions": False,
                "allow_persistent_secrets": False,
                "python_enable_replacements": False,
                "memory_limit": memory_limit,
                "threads": threads,
                # It puts a projection below each step that repeats a term; for few rows that costs more than the term.
                "disabled_optimizers": "common_subexpressions",
                "temp_directory": "",
            },
        )
        try:
            _lock(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def _naming_damage(path: Path) -> Iterator[None]:
    """Let what DuckDB says of a damaged file end with what to do; of two threads' settings it says something else."""
    try:
        yield
    except (duckdb.IOException, duckdb.SerializationException) as error:
        raise DamagedFile(f"{path} is damaged ({error}): {anew(path.parent)}") from error


def _lock(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Attach the segments and shut all doors, unless another connection of this process has."""
    row = connection.execute("SELECT current_setting('lock_configuration')").fetchone()
    if row and row[0]:
        return
    attach(connection, path.parent, segments_of(path))
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
