from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jobs import ingest
from lakehouse.settings import load_settings
from tests.cli.conftest import Tidemark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = (
    '{"ts": 1767225600000, "received": 1767225601000, "device": "a", "location": "hall", "temp": 1.5}',
    '{"ts": 1767225610000, "received"',
)


def test_without_a_configuration_it_says_how_to_get_one(tidemark: Tidemark) -> None:
    ended = tidemark("requeue", "telemetry")

    assert ended.returncode == 2
    assert "`tidemark init` writes one" in ended.stderr


def test_an_undeclared_stream_is_refused_before_anything_starts(called: Tidemark) -> None:
    called("init")

    ended = called("requeue", "rivers")

    assert ended.returncode == 2
    assert ended.stderr == "tidemark: no stream 'rivers'; declared: flows, telemetry\n"


@pytest.mark.spark
def test_a_process_that_has_not_started_spark_takes_a_rejected_line_through_again(
    tidemark: Tidemark, tmp_path: Path, spark: SparkSession
) -> None:
    # In a process that has a session already, what is asked of Spark before this one is used would not fail.
    tidemark("init")
    landed = tmp_path / "landing" / "telemetry" / "day.ndjson"
    landed.parent.mkdir(parents=True)
    landed.write_text("\n".join(ROWS) + "\n")
    os.utime(landed, (0, 0))
    settings = load_settings(tmp_path / "tidemark.toml")
    taken = ingest.run(settings, spark, "telemetry")

    unknown = tidemark("requeue", "telemetry", "--reason", "malfromed", "--json")
    ended = tidemark("requeue", "telemetry", "--json")

    assert unknown.returncode == 0
    assert (
        unknown.stderr
        == "no record of telemetry waits that was rejected as 'malfromed'; waiting: malformed 1\n"
    )
    assert (taken["accepted"], taken["quarantined"]) == (1, 1)
    assert (ended.returncode, ended.stderr) == (0, "")
    figures = json.loads(ended.stdout)
    assert (figures["batches"], figures["requeued"], figures["quarantined"]) == (1, 1, 1)
