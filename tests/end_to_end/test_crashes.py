"""Dying anywhere and running again gives the same content; the test itself is shown to notice when it does not."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lakehouse.engine import parts
from lakehouse.settings import load_settings
from lakehouse.spark import tables
from lakehouse.storage.control import place
from lakehouse.storage.control.seal import PROPERTY, require_leases, seal_tables
from lakehouse.storage.control.session import LeaseLost
from lakehouse.storage.tables import table_commits, table_replacement
from tests.end_to_end import pipeline
from tests.end_to_end.pipeline import JOBS
from tests.storage.control.conftest import server
from tests.storage.control.postgres import Postgres
from tests.support import killing
from tests.support.crash_points import CRASH_POINTS
from tests.support.readings import declared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["server"]
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
T0 = 1_590_000_000
# Where a job dies whose lease a database keeps, and where that database dies under a job.
DIES_AT = ("ingest.raw-appended", "rollup.appended", "publish.pointer-moved")
ENDS_AT = ("ingest.raw-appended", "rollup.before-append", "publish.file-written")
# What this process does when it passes a crash point, once.
PASSING: dict[str, Callable[[], None]] = {}
# Of every job the kill that takes its JVM along.
FRESH = ("ingest.raw-appended", "rollup.appended", "maintain.compacted", "publish.pointer-moved")


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


def kill(spark: SparkSession, config: Path, point: str, is_fresh: bool = False) -> None:
    """Start the job that passes this point in a process that dies there."""
    module, words = "tests.end_to_end.pipeline", (str(config), job_of(point))
    if is_fresh:
        killing.kill_fresh(point, module, *words)
    else:
        killing.kill(spark, point, module, *words)


def job_of(point: str) -> str:
    return point.partition(".")[0]


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return pipeline.run(spark, load_settings(lake(tmp_path_factory.mktemp("undisturbed"))))["readings"]


@pytest.mark.parametrize("killed", [JOBS[:1], JOBS[1:]], ids=["ingest", "later jobs"])
def test_killed_at_every_step_and_run_again_the_content_is_the_same(
    tmp_path: Path, spark: SparkSession, undisturbed: dict[str, Any], killed: Sequence[str]
) -> None:
    """Jobs that come before a killed one are run to their end."""
    folder = tmp_path / "killed"
    config = lake(folder, parts=(0, 1))
    for job in killed:
        if job == "maintain":
            # Folding needs nodes of two builds.
            land(folder, (2,))
        for earlier in JOBS[: JOBS.index(job)]:
            pipeline.run_job(earlier, spark, load_settings(config))
        for point in (name for name in CRASH_POINTS if job_of(name) == job):
            kill(spark, config, point, is_fresh=point in FRESH)
    if "maintain" not in killed:
        land(folder, (2,))

    for _ in range(2):
        assert pipeline.run(spark, load_settings(config))["readings"] == undisturbed


def _passing(event: str, told: tuple[object, ...]) -> None:
    if event == "tidemark.crash_point" and told[0] in PASSING:
        PASSING.pop(str(told[0]))()


def test_where_a_database_keeps_the_leases_neither_a_job_nor_the_database_that_dies_loses_or_doubles_anything(
    tmp_path: Path, spark: SparkSession, undisturbed: dict[str, Any], server: Postgres
) -> None:
    """Hooks of a process cannot be taken away again, so one that finds nothing to do stays."""
    config = lake(tmp_path, parts=(0, 1))
    config.write_text(f'control = "{server.url}"\n{config.read_text()}')
    settings = load_settings(config)
    sys.addaudithook(_passing)
    try:
        for point in DIES_AT:
            kill(spark, config, point)
            # Whoever comes next has the lease once the database has seen that, and seals what the one before wrote.
            server.wait_until_free()
            pipeline.run_job(job_of(point), spark, settings)
        land(tmp_path, (2,))
        for point in ENDS_AT:
            PASSING[point] = server.kill
            with pytest.raises(LeaseLost, match="this process has lost its leases on"):
                pipeline.run_job(job_of(point), spark, settings)
            server.start()
            pipeline.run_job(job_of(point), spark, settings)

        assert pipeline.run(spark, settings)["readings"] == undisturbed
        sealed = table_commits.open_table(settings.layout.raw("readings")).metadata().configuration
        assert PROPERTY in sealed

        # A rebuild pauses between question and commit: a successor seals the table, and the lease is lost.
        table, stream = settings.layout.rollup("readings"), settings.stream("readings")
        held = place.place_of(settings.layout, table)

        def asked_then_sealed() -> None:
            require_leases()
            patched.undo()
            assert held is not None
            seal_tables(held, 99)
            server.kill()
            server.start()

        with (
            pytest.MonkeyPatch.context() as patched,
            pytest.raises(LeaseLost),
            tables.lease(settings.layout, table),
        ):
            patched.setattr(table_replacement, "require_leases", asked_then_sealed)
            tables.replace_rollup(table, stream, [], {})
        assert len(table_commits.open_table(table).to_pyarrow_table()) > 0
        with tables.lease(settings.layout, table):
            tables.replace_rollup(table, stream, [], {})
        assert len(table_commits.open_table(table).to_pyarrow_table()) == 0
    finally:
        PASSING.clear()


def test_another_order_of_files_in_one_batch_gives_the_same_content(
    tmp_path: Path, spark: SparkSession, undisturbed: dict[str, Any]
) -> None:
    config = lake(tmp_path, batch_files=3, reverse=True)
    assert pipeline.run(spark, load_settings(config))["readings"] == undisturbed


def test_without_idempotency_a_crash_is_noticed(
    tmp_path: Path, spark: SparkSession, undisturbed: dict[str, Any]
) -> None:
    config = lake(tmp_path)
    kill(spark, config, "ingest.raw-appended")

    with pytest.MonkeyPatch.context() as patch:
        for module in (tables, table_commits, parts):
            patch.setattr(module, "committed", lambda known, writer: -1)
        found = pipeline.run(spark, load_settings(config))["readings"]

    assert found["raw"] != undisturbed["raw"] and found["answers"] != undisturbed["answers"]
