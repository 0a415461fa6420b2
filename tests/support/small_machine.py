"""Daemon of Spark's Python workers on a machine that seems to have 512 MB for each core: states get a share of it."""

from __future__ import annotations

import os

import psutil

from lakehouse.spark.worker_daemon import main

TASK_MB = 512

if __name__ == "__main__":
    found = psutil.virtual_memory()._replace(total=TASK_MB * 2**20 * (os.cpu_count() or 1))
    vars(psutil)["virtual_memory"] = lambda: found
    main()
