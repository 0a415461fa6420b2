"""Requirements on workers of a cluster: the driver's Python, packages, Java, landing folders, and tables in a folder.

Checked once when a session starts, so that what differs is told by its name before any batch, and not by a batch that
fails or, worse, counts a landed file as unreadable.
"""

from __future__ import annotations

import platform
import socket
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

# What tasks import beside the archive of the project's own code.
PACKAGES = ("fastavro", "numba", "numpy", "pandas", "psutil", "pyarrow", "pydantic", "pyspark", "sqlglot")
_INSTALL = (
    "install the packages of requirements.lock in the workers' Python, "
    "which [spark.options] spark.pyspark.python names"
)
# Tasks of the check last so long, so that each core gets one.
_TASK_S = 0.3


@dataclass(frozen=True)
class Worker:
    """Report of one worker's Python: versions by name, and the folders that it does not see."""

    host: str
    versions: Mapping[str, str]
    unseen: tuple[str, ...]


def versions_here() -> dict[str, str]:
    """Return the versions of Python and of the packages that tasks import, ``none`` where one is not installed."""
    return {"Python": platform.python_version()} | {name: _version(name) for name in PACKAGES}


def _version(package: str) -> str:
    if package == "pyspark":
        import pyspark

        # That of the worker's own Spark, which need not be installed as a package.
        return pyspark.__version__
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"


def differences(here: Mapping[str, str], workers: Iterable[Worker]) -> list[str]:
    """Return what is wrong with workers, each named once: versions that differ, folders that are not seen.

    Of Python and Java the feature version counts, of packages the whole: kernels and rows that cross between driver and
    workers must mean the same in both.
    """
    found = []
    for worker in workers:
        for name, version in here.items():
            other = worker.versions.get(name, "none")
            if _that_counts(name, other) != _that_counts(name, version):
                found.append(f"{worker.host} has {name} {other}, the driver {version}")
        found += [f"{worker.host} does not see {path}" for path in worker.unseen]
    return list(dict.fromkeys(found))


def _that_counts(name: str, version: str) -> tuple[str, ...]:
    parts = version.split(".")
    return tuple(parts[: {"Python": 2, "Java": 1}.get(name, len(parts))])


def look_at_workers(context: Any, home: Path | None, folders: Sequence[Path]) -> list[Worker]:
    """Return what each worker has, by a task on each core of the cluster; about a second once they run.

    ``home``: a file is left in it for as long, which workers must see; None where its tables are on a store.
    ``folders``: those that they must see as well.
    """
    with _token_in(home) as tokens:
        cores, seen = max(context.defaultParallelism, 1), [*tokens, *map(str, folders)]
        tasks = context.parallelize(range(cores), cores).mapPartitions(lambda _: _look(seen))
        found: list[tuple[str, dict[str, str], list[str]]] = tasks.collect()
        return [
            Worker(host, versions, tuple(tokens.get(path, path) for path in lacking))
            for host, versions, lacking in found
        ]


@contextmanager
def _token_in(home: Path | None) -> Iterator[dict[str, str]]:
    """Leave a file in the home meanwhile; yield its path, and how it is called where it is not seen."""
    if home is None:
        yield {}
        return
    home.mkdir(parents=True, exist_ok=True)
    token = home / f".workers-{uuid.uuid4().hex}"
    token.touch()
    try:
        yield {str(token): f"the driver's home {home}"}
    finally:
        token.unlink()


def _look(paths: list[str]) -> Iterator[tuple[str, dict[str, str], list[str]]]:
    time.sleep(_TASK_S)
    yield socket.gethostname(), versions_here(), [path for path in paths if not Path(path).exists()]


def advice(found: Sequence[str]) -> str:
    """Return what is wrong with workers, and what to do."""
    ways = [_INSTALL] if any(" has " in each for each in found) else []
    if any("does not see" in each for each in found):
        ways.append(
            "put home and landing folders on a file system that driver and workers share, at the same paths, "
            "or tables and landed files on an object store"
        )
    return f"{'; '.join(found)}: {', and '.join(ways)}"
