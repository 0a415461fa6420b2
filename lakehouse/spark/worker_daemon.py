"""Daemon of Spark's Python workers, ``spark.python.daemon.module``, without the fixed cost of each task.

A task of a reused worker otherwise costs about 110 ms of a processor: ``importlib.invalidate_caches`` reads again the
directory of every archive on ``sys.path``, Spark's jar of 5,359 entries and ``pyspark.zip`` among them, and the worker
then collects garbage among all that the daemon imported. Where pyspark is installed as a package, nothing needs these
archives.
"""

from __future__ import annotations

import gc
import sys
from importlib.machinery import PathFinder

# Archives that Spark puts on the path itself; others may be the project's own code, sent to a cluster.
_OF_SPARK = (".jar", "/pyspark.zip", "-src.zip")


def main() -> None:
    """Serve workers until Spark closes the standard input."""
    installed = [path for path in sys.path if not path.endswith(_OF_SPARK)]
    if PathFinder.find_spec("pyspark", installed):
        sys.path[:] = installed
    from pyspark import daemon

    # What the daemon has imported stays as long as its workers do: no collection needs to look at it.
    gc.collect()
    gc.freeze()
    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
