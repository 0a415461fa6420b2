"""What a run holds does not depend on where its tasks run: in the process, or on the workers of a real cluster.

Workers have a Python without the project and temporary folders of their own, and do not see the driver's code and
temporary files, where this process may hide them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from infra.loopback_cluster import LoopbackCluster, loopback_cluster
from tests.cluster.isolated import CODE, ROOT, bare_python, hiding, knows_the_project
from tests.cluster.life import begin, content, lead
from tests.queries.laws import EXAMPLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Start = Callable[[int], LoopbackCluster]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of workers, which has the packages but not the project."""
    found = bare_python(tmp_path_factory.mktemp("python") / "venv")
    assert not knows_the_project(found)
    return found


@pytest.fixture
def start(tmp_path: Path, python: Path) -> Iterator[Start]:
    """Start a cluster of some workers."""
    with ExitStack() as running:

        def one(workers: int) -> LoopbackCluster:
            apart = hiding(*CODE, _scratch(tmp_path))
            folder = tmp_path / f"cluster-of-{workers}"
            return running.enter_context(loopback_cluster(folder, workers, python=python, around=apart))

        yield one


def _scratch(folder: Path) -> Path:
    """Return where a driver has its temporary files."""
    scratch = folder / "driver"
    scratch.mkdir(exist_ok=True)
    return scratch


def _driver(cluster: LoopbackCluster | None, folder: Path, *words: str) -> subprocess.Popen[str]:
    told = cluster.environment if cluster else {"TIDEMARK_SPARK__MASTER": "local[*]"}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.cluster.life", str(folder), *words],
        cwd=ROOT,
        env=os.environ | told | {"TMPDIR": str(_scratch(folder.parent))},
        stdout=subprocess.PIPE,
        stderr=(folder.parent / f"{folder.name}.log").open("w"),
        text=True,
    )


def _told(driver: subprocess.Popen[str], folder: Path) -> dict[str, Any]:
    said, _ = driver.communicate(timeout=900)
    assert driver.returncode == 0, (folder.parent / f"{folder.name}.log").read_text()[-3000:]
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_two_workers_come_to_what_one_process_comes_to(
    spark: SparkSession, start: Start, tmp_path: Path
) -> None:
    here = begin(tmp_path / "here", ("selection",))
    driver = _driver(start(2), tmp_path / "there", "--kinds", "selection", "--parts", "0")
    lead(spark, here, 80, (0,))

    found = _told(driver, tmp_path / "there")

    assert found["content"] == content(here)
    assert found["cores"] == 2


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_kind_of_query_comes_to_the_same_in_one_process_and_on_one_and_two_workers(
    start: Start, tmp_path: Path
) -> None:
    found = {}
    for name, workers in (("process", 0), ("one", 1), ("two", 2)):
        cluster = start(workers) if workers else None
        found[name] = _told(_driver(cluster, tmp_path / name, "--rows", "400"), tmp_path / name)
        if cluster:
            cluster.stop()

    assert set(EXAMPLES) < set(found["process"]["content"])
    assert found["one"]["content"] == found["process"]["content"]
    assert found["two"]["content"] == found["process"]["content"]
    # The same rows make the same answers, which are what the driver gets.
    assert found["two"]["collected"] < 2 * found["one"]["collected"]


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_worker_that_is_killed_amid_a_batch_loses_and_repeats_nothing(start: Start, tmp_path: Path) -> None:
    words = ("--kinds", "pairs,aggregate", "--rows", "400")
    undisturbed = _told(_driver(None, tmp_path / "process", *words), tmp_path / "process")
    cluster = start(2)
    driver = _driver(cluster, tmp_path / "killed", *words)
    assert driver.stdout is not None
    for line in driver.stdout:
        if line.startswith("part 2: pairs"):
            break
    time.sleep(1)
    cluster.workers[0].kill()

    found = _told(driver, tmp_path / "killed")

    assert cluster.master is not None
    assert "Removing worker" in cluster.master.log.read_text()
    assert found["content"] == undisturbed["content"]
