"""Garbage between tasks of a reused worker: what stays is looked at once, what is left behind is freed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from lakehouse.spark.worker_daemon import Collector


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    """The test's process collects as before."""
    yield
    gc.unfreeze()


class Kept:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.own = self


def test_what_stays_is_looked_at_once() -> None:
    kept = [Kept() for _ in range(20_000)]
    Collector.collect()

    assert len(gc.get_objects()) < len(kept)
    assert gc.get_freeze_count() > len(kept)


def test_what_a_task_leaves_behind_is_freed() -> None:
    Collector.collect()
    left = weakref.ref(Kept())
    Collector.collect()

    assert left() is None
