"""Two million rows go through ingest, rollups, queries and repairs in tasks of 512 MB."""

from __future__ import annotations

import pytest

from tests.benchmarks.engine.task_memory import measured
from tests.support.small_machine import TASK_MB


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(900)
def test_tasks_of_two_million_rows_hold_few_of_them_at_a_time() -> None:
    found = measured(2_000_000)

    assert found.pop("landed MB") > 100
    assert {step: size for step, size in found.items() if not 100 < size <= TASK_MB} == {}
