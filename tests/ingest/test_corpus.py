"""A corpus of hostile inputs through the real ingest: no stream stops, each row is accounted for, memory is bounded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.inputs import taken_in
from tests.faults.report import silent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_no_hostile_input_stops_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    found = taken_in(spark, tmp_path, silent)

    assert found["broken"] == []
    assert found["tried"] >= 200
