"""Two million rows go through ingest and rollups in tasks of 512 MB, through queries and repairs in larger ones.

A query's task holds the rows of its bucket, copies of the states of others, and compiled kernels.
"""

from __future__ import annotations

import pytest

from tests.benchmarks.engine.task_memory import measured
from tests.support.small_machine import TASK_MB

MOST_MB = {"ingest MB": TASK_MB, "rollup MB": TASK_MB, "queries MB": 640, "repairs MB": 704}


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(900)
def test_tasks_of_two_million_rows_hold_few_of_them_at_a_time() -> None:
    found = measured(2_000_000)

    assert found.pop("landed MB") > 100
    assert {step: size for step, size in found.items() if not 100 < size <= MOST_MB[step]} == {}
