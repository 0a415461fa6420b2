"""What a run holds does not depend on where its tasks run: in the process, or on the workers of a real cluster.

Workers have a Python without the project and temporary folders of their own, and do not see the driver's code and
temporary files, where this process may hide them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from infra.loopback_cluster import LIGHTLY, LoopbackCluster, loopback_cluster
from tests.cluster.isolated import CODE, ROOT, bare_python, hiding, knows_the_project
from tests.cluster.life import begin, content, lead
from tests.queries.laws import EXAMPLES
from tests.stores.s3 import BUCKET, require_jars, running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of workers, which has the packages but not the project."""
    found = bare_python(tmp_path_factory.mktemp("python") / "venv")
    assert not knows_the_project(found)
    return found


@dataclass
class Runs:
    """Clusters and drivers of a test, which end with it."""

    folder: Path
    python: Path
    ends: ExitStack

    def cluster(self, workers: int, *hidden: Path) -> LoopbackCluster:
        """Start a cluster whose workers see neither the code nor the driver's temporary files, nor what is hidden."""
        around = hiding(*CODE, self.scratch, *hidden)
        folder = self.folder / f"cluster-of-{workers}"
        return self.ends.enter_context(loopback_cluster(folder, workers, python=self.python, around=around))

    @property
    def scratch(self) -> Path:
        """Where drivers have their temporary files."""
        scratch = self.folder / "driver"
        scratch.mkdir(exist_ok=True)
        return scratch

    def driver(
        self,
        cluster: LoopbackCluster | None,
        name: str,
        *words: str,
        options: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Start a driver in a folder of this name, in the process where there is no cluster."""
        told = cluster.environment if cluster else {"TIDEMARK_SPARK__MASTER": "local[*]"}
        # Executors of short runs compile lightly, as drivers do.
        java = {"spark.executor.extraJavaOptions": LIGHTLY}
        told = {**told, "TIDEMARK_SPARK__OPTIONS": json.dumps(java | dict(options or {}))}
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.life", str(self.folder / name), *words],
            cwd=ROOT,
            env={**os.environ, **told, "TMPDIR": str(self.scratch)},
            stdout=subprocess.PIPE,
            stderr=(self.folder / f"{name}.log").open("w"),
            text=True,
        )
        self.ends.callback(driver.kill)
        return driver

    def told(self, driver: subprocess.Popen[str], name: str) -> dict[str, Any]:
        """Return what a driver has said at its end."""
        said, _ = driver.communicate(timeout=1800)
        assert driver.returncode == 0, (self.folder / f"{name}.log").read_text()[-3000:]
        found: dict[str, Any] = json.loads(said.splitlines()[-1])
        return found


@pytest.fixture
def runs(tmp_path: Path, python: Path) -> Iterator[Runs]:
    """Start clusters and drivers."""
    with ExitStack() as ends:
        yield Runs(tmp_path, python, ends)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_two_workers_come_to_what_one_process_comes_to(
    spark: SparkSession, runs: Runs, tmp_path: Path
) -> None:
    here = begin(tmp_path / "here", ("selection",))
    driver = runs.driver(runs.cluster(2), "there", "--kinds", "selection", "--parts", "0")
    lead(spark, here, 80, (0,))

    found = runs.told(driver, "there")

    assert found["content"] == content(here)
    assert found["cores"] == 2


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_query_comes_to_the_same_where_tables_are_on_a_store(
    runs: Runs, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_jars()
    expected = runs.told(runs.driver(None, "folder", "--kinds", kind), "folder")
    with running() as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL", store.endpoint)
        for name, workers in (("process", 0), ("one", 1), ("two", 2)):
            monkeypatch.setenv("TIDEMARK_TABLES__PATH", f"s3://{BUCKET}/{name}")
            home = runs.folder / name / "var"
            home.mkdir(parents=True)
            cluster = runs.cluster(workers, home) if workers else None
            found = runs.told(runs.driver(cluster, name, "--kinds", kind), name)
            if cluster:
                cluster.stop()
            assert found["content"] == expected["content"], name
            assert not list((runs.folder / name).rglob("*.parquet"))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_query_comes_to_the_same_in_one_process_and_on_one_and_two_workers(runs: Runs, kind: str) -> None:
    found = {}
    for name, workers in (("process", 0), ("one", 1), ("two", 2)):
        cluster = runs.cluster(workers) if workers else None
        found[name] = runs.told(runs.driver(cluster, name, "--kinds", kind), name)
        if cluster:
            cluster.stop()

    assert kind in found["process"]["content"]
    assert found["one"]["content"] == found["process"]["content"]
    assert found["two"]["content"] == found["process"]["content"]


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_executors_that_come_and_go_with_the_work_come_to_the_same(runs: Runs) -> None:
    words = ("--kinds", "pairs", "--rows", "20")
    undisturbed = runs.told(runs.driver(None, "process", *words), "process")
    cluster = runs.cluster(2)
    # Each is given up as soon as it has nothing to do, with the state of buckets that it keeps in memory.
    options = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "0",
        "spark.dynamicAllocation.executorIdleTimeout": "4s",
        "spark.dynamicAllocation.cachedExecutorIdleTimeout": "1s",
        "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
        "spark.executor.cores": "1",
    }
    found = runs.told(runs.driver(cluster, "dynamic", *words, options=options), "dynamic")

    assert found["content"] == undisturbed["content"]
    assert cluster.master is not None
    started = re.findall(r"Launching executor (\S+) on worker", cluster.master.log.read_text())
    assert len(set(started)) > 2


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_worker_that_is_killed_amid_a_batch_loses_and_repeats_nothing(runs: Runs) -> None:
    undisturbed = runs.told(runs.driver(None, "process", "--kinds", "pairs"), "process")
    cluster = runs.cluster(2)
    driver = runs.driver(cluster, "killed", "--kinds", "pairs")
    assert driver.stdout is not None and cluster.master is not None
    for line in driver.stdout:
        if line.startswith("part 0: pairs"):
            break
    time.sleep(1)
    cluster.workers[0].kill()

    found = runs.told(driver, "killed")

    assert "Removing worker" in cluster.master.log.read_text()
    assert found["content"] == undisturbed["content"]
