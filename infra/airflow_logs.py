"""Bounds of what the logs of a standing Airflow take: long files are cut, old ones are deleted.

Only ``tidemark airflow`` uses this; who runs Airflow in another way has its own means.
"""

import shutil
import time
from contextlib import suppress
from pathlib import Path

# Of a component's log, of which the part before the last cut is kept too.
LONGEST = 20 * 1024 * 1024
# Logs of tasks and of parsed DAG files.
OLDEST_S = 7 * 86_400


def bound_logs(logs: Path) -> None:
    """Cut the logs of components that have become long, and delete those of tasks and DAG files that are old."""
    for log in logs.glob("*.log"):
        if log.stat().st_size > LONGEST:
            shutil.copy2(log, log.with_suffix(".log.1"))
            # The component has it open, and goes on at its new end.
            with log.open("r+b") as file:
                file.truncate(0)
    oldest = time.time() - OLDEST_S
    for path in sorted(logs.rglob("*"), reverse=True):
        with suppress(OSError):
            if path.parent == logs or path.lstat().st_mtime >= oldest:
                continue
            # A folder that is not empty stays; one that Airflow has just made is not old.
            path.rmdir() if path.is_dir() else path.unlink()
