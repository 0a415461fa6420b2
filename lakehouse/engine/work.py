"""Counts of the work that Spark does for a job: each call of the engine adds to those of its thread."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class SparkWork:
    """Spark's jobs, their tasks, and the bytes of rows that met by key, as they crossed the shuffle."""

    jobs: int = 0
    tasks: int = 0
    shuffled_bytes: int = 0

    def add(self, jobs: int, tasks: int, shuffled_bytes: int = 0) -> None:
        """Add the work of a call."""
        self.jobs += jobs
        self.tasks += tasks
        self.shuffled_bytes += shuffled_bytes


_WORK: ContextVar[SparkWork | None] = ContextVar("spark_work", default=None)


@contextmanager
def counted() -> Iterator[SparkWork]:
    """Count what Spark does for this thread during the block."""
    work = SparkWork()
    before = _WORK.set(work)
    try:
        yield work
    finally:
        _WORK.reset(before)


def work_here() -> SparkWork:
    """Return the counts of this thread, which nobody reads where none are kept."""
    return _WORK.get() or SparkWork()
