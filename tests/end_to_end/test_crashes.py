"""Dying anywhere and running again gives the same content; the test itself is shown to notice when it does not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lakehouse.declare.settings import load_settings
from lakehouse.home.crashpoint import CRASH_POINTS
from lakehouse.spark import tables
from tests.end_to_end import pipeline
from tests.end_to_end.pipeline import JOBS
from tests.readings import declared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
T0 = 1_590_000_000


def lake(folder: Path, batch_files: int = 1, reverse: bool = False, parts: Iterable[int] = range(3)) -> Path:
    """Make a lakehouse with some of three files; return its configuration."""
    (folder / "landing").mkdir(parents=True)
    (folder / "tidemark.toml").write_text(declared(options=f"batch_files = {batch_files}"))
    land(folder, parts, reverse)
    return folder / "tidemark.toml"


def land(folder: Path, parts: Iterable[int], reverse: bool = False) -> None:
    """Write files with late rows, duplicates and malformed lines."""
    random = np.random.default_rng(11)
    lines = []
    for n in range(240):
        second = n * 5 - (random.integers(0, 900) if n % 4 == 0 else 0)
        reading = {"ts": T0 + int(second) + n / 1000, "device": "abc"[n % 3], "temp": n / 7, "count": n}
        lines.append(json.dumps(reading) if n % 20 else '{"ts": ')
        lines += lines[-2:-1] if n % 10 == 5 else []
    for part in parts:
        name = f"{2 - part if reverse else part}.ndjson"
        (folder / "landing" / name).write_text("\n".join(lines[part::3]) + "\n")


def kill(config: Path, point: str) -> None:
    """Start the job that passes this point in a process of its own, which dies there."""
    environment = os.environ | {"TIDEMARK_CRASH_AT": point}
    command = [sys.executable, "-m", "tests.end_to_end.pipeline", str(config), job_of(point)]
    root = Path(__file__).parents[2]
    ended = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, f"{point} was not passed: {ended.stderr[-3000:]}"


def job_of(point: str) -> str:
    return point.partition(".")[0]


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return pipeline.run(spark, load_settings(lake(tmp_path_factory.mktemp("undisturbed"))))["readings"]


def killed_at(folder: Path, points: Sequence[str], spark: SparkSession) -> Path:
    """Let each of these points in turn kill its job on one lakehouse; return its configuration.

    Jobs that come before a killed one are run to their end, in the session that is there already.
    """
    config = lake(folder, parts=(0, 1))
    for job, of_job in groupby(points, key=job_of):
        if job == "maintain":
            # Folding needs nodes of two builds.
            land(folder, (2,))
        for earlier in JOBS[: JOBS.index(job)]:
            pipeline.run_job(earlier, spark, load_settings(config))
        for point in of_job:
            kill(config, point)
    if "maintain" not in map(job_of, points):
        land(folder, (2,))
    return config


def test_killed_at_every_step_and_run_again_the_content_is_the_same(
    tmp_path: Path, spark: SparkSession, undisturbed: dict[str, Any]
) -> None:
    of_ingest = [name for name in CRASH_POINTS if job_of(name) == "ingest"]
    later = [name for name in CRASH_POINTS if name not in of_ingest]
    with ThreadPoolExecutor(2) as pool:
        folders = (tmp_path / "ingest", tmp_path / "later")
        configs = list(pool.map(partial(killed_at, spark=spark), folders, (of_ingest, later)))

    for config in configs:
        assert pipeline.run(spark, load_settings(config))["readings"] == undisturbed
        assert pipeline.run(spark, load_settings(config))["readings"] == undisturbed


def test_another_order_of_files_in_one_batch_gives_the_same_content(
    tmp_path: Path, spark: SparkSession, undisturbed: dict[str, Any]
) -> None:
    config = lake(tmp_path, batch_files=3, reverse=True)
    assert pipeline.run(spark, load_settings(config))["readings"] == undisturbed


def test_without_idempotency_a_crash_is_noticed(
    tmp_path: Path, spark: SparkSession, undisturbed: dict[str, Any]
) -> None:
    config = lake(tmp_path)
    kill(config, "ingest.raw-appended")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "once", lambda writer, version: {})
        found = pipeline.run(spark, load_settings(config))["readings"]

    assert found["raw"] != undisturbed["raw"] and found["answers"] != undisturbed["answers"]
