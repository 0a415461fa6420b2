"""The one way a published file is opened: read-only, no files, network or extensions, and nothing can change that.

Everything is set while connecting, and the same everywhere: DuckDB shares one instance per file in a process, and
refuses a second connection that asks for other settings.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

MEMORY_LIMIT = "512MB"


def connect_locked(path: Path, threads: int = 1) -> duckdb.DuckDBPyConnection:
    """Open a published file so that a statement can read it and do nothing else.

    A range question reads a few thousand rows: a second thread costs it more than it brings.
    """
    return duckdb.connect(
        str(path),
        read_only=True,
        config={
            "enable_external_access": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "allow_persistent_secrets": False,
            "python_enable_replacements": False,
            "memory_limit": MEMORY_LIMIT,
            "threads": threads,
            # It puts a projection below each step that repeats a term; for few rows that costs more than the term.
            "disabled_optimizers": "common_subexpressions",
            "temp_directory": "",
            "lock_configuration": True,
        },
    )
