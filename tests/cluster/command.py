"""The command ``tidemark`` with batches of any size left to Spark's tasks, as large ones are.

    python -m tests.cluster.command run

For a small stream on a cluster, which its job's process would deal with alone.
"""

from __future__ import annotations

from lakehouse.cli import main
from tests.cluster.life import by_tasks

if __name__ == "__main__":
    with by_tasks():
        main()
