"""Two million rows go through ingest, rollup, queries and repairs in tasks of 512 MB: what is more is cut smaller."""

from __future__ import annotations

import pytest

from tests.benchmarks.engine.task_memory import measured
from tests.support.small_machine import TASK_MB


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_task_of_two_million_rows_holds_more_than_half_a_gigabyte() -> None:
    found = measured(2_000_000)

    assert found.pop("landed MB") > 100
    assert all(100 < size <= TASK_MB for size in found.values()), found
