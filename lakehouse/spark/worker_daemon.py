"""Daemon of Spark's Python workers, ``spark.python.daemon.module``, without the fixed cost of each task.

A task of a reused worker otherwise costs about 110 ms of a processor: ``importlib.invalidate_caches`` reads again the
directory of every archive on ``sys.path``, Spark's jar of 5,359 entries and ``pyspark.zip`` among them, and the worker
then collects garbage among all that the daemon and its own tasks have imported, up to 40 ms for kernels. Where pyspark
is installed as a package, nothing needs these archives.
"""

import gc
import sys
from importlib.machinery import PathFinder

# Archives that Spark puts on the path itself; others may be the project's own code, sent to a cluster.
_OF_SPARK = (".jar", "/pyspark.zip", "-src.zip")


# A collection looks at so many objects in some milliseconds.
_FEW = 10_000


class Collector:
    """Garbage collection between tasks, which looks once at what stays, such as modules, and then no more."""

    @staticmethod
    def collect() -> None:
        """Free what nothing refers to; let many objects that are left be as they are."""
        gc.collect()
        if len(gc.get_objects()) > _FEW:
            gc.freeze()


def main() -> None:
    """Serve workers until Spark closes the standard input."""
    installed = [path for path in sys.path if not path.endswith(_OF_SPARK)]
    if PathFinder.find_spec("pyspark", installed):
        sys.path[:] = installed
    from pyspark import daemon

    Collector.collect()
    vars(daemon)["gc"] = Collector
    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
