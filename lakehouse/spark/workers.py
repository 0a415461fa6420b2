"""Requirements on workers of a cluster: the driver's Python, packages, code, Java, landing folders and tables.

Checked once when a session starts, so that what differs is told by its name before any batch, and not by a batch that
fails or, worse, counts a landed file as unreadable.
"""

from __future__ import annotations

import json
import platform
import socket
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse.spark.package_archive import code_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What tasks import beside the archive of the project's own code.
PACKAGES = ("fastavro", "numba", "numpy", "pandas", "psutil", "pyarrow", "pydantic", "pyspark", "sqlglot")
_INSTALL = (
    "install the packages of requirements.lock in the workers' Python, "
    "which [spark.options] spark.pyspark.python names"
)
# Numbers of which each core gets a share.
_NUMBERS = 100_000


@dataclass(frozen=True)
class Worker:
    """Report of one worker's Python: versions by name, and the folders that it does not see."""

    host: str
    versions: Mapping[str, str]
    unseen: tuple[str, ...]


def versions_here() -> dict[str, str]:
    """Return the versions of Python and of the packages that tasks import, ``none`` where one is not installed."""
    own = {"Python": platform.python_version(), "Tidemark": code_here()}
    return own | {name: _version(name) for name in PACKAGES}


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


def look_at_workers(
    session: SparkSession, home: Path | None, folders: Sequence[Path], task_s: float
) -> list[Worker]:
    """Return what each worker has, by a task on each core of the cluster; about a second once they run.

    ``home``: a file is left in it for as long, which workers must see; None where its tables are on a store.
    ``folders``: those that they must see as well. ``task_s``: how long a task lasts, so that each core gets one.
    """
    with _token_in(home) as tokens:
        seen = [*tokens, *map(str, folders)]
        # Divided as the session does by itself: by cores.
        tasks = session.range(0, _NUMBERS).mapInArrow(lambda rows: _look(rows, seen, task_s), "found string")
        found = [json.loads(text) for text in tasks.toArrow()["found"].to_pylist()]
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


def _look(rows: Iterable[pa.RecordBatch], paths: list[str], task_s: float) -> Iterator[pa.RecordBatch]:
    for _ in rows:
        pass
    time.sleep(task_s)
    lacking = [path for path in paths if not Path(path).exists()]
    found = json.dumps([socket.gethostname(), versions_here(), lacking])
    yield pa.RecordBatch.from_pydict({"found": [found]})


def advice(found: Sequence[str]) -> str:
    """Return what is wrong with workers, and what to do."""
    ways = [_INSTALL] if any(" has " in each for each in found) else []
    if any("does not see" in each for each in found):
        ways.append(
            "put home and landing folders on a file system that driver and workers share, at the same paths, "
            "or tables and landed files on an object store"
        )
    return f"{'; '.join(found)}: {', and '.join(ways)}"
