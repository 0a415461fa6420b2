"""Independence of a run's content from the place of its tasks: in the process, or on the workers of a real cluster.

Workers have a Python without the project and temporary folders of their own, and do not see the driver's code and
temporary files, where this process may hide them.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from infra.loopback_cluster import LIGHTLY, LoopbackCluster, free_port, loopback_cluster
from jobs import maintain, maintain_queries
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.tables.table_log import files_between
from tests.cluster.isolated import CODE, ROOT, bare_python, hiding, knows_the_project, with_faults
from tests.cluster.life import begin, content, lead, streams_of
from tests.queries.laws import EXAMPLES
from tests.support.crash_points import TASK_POINTS
from tests.support.stores.s3 import BUCKET, require_jars, running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "TIDEMARK_SPARK__MASTER"
FAULTS = Path(__file__).parent / "faulty_tasks.py"


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
        told = cluster.environment if cluster else {MASTER: os.environ.get(MASTER, "local[*]")}
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
@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is an address of Linux alone")
def test_tasks_that_die_and_tasks_that_run_twice_lose_and_repeat_nothing(
    session: SparkSession, runs: Runs, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    here = begin(tmp_path / "here", ("pairs",))
    faulty = replace(runs, python=with_faults(tmp_path / "faulty", FAULTS))
    options = {
        "spark.executorEnv.FAULTY_TASKS": str(marks),
        "spark.executorEnv.FAULTY_POINT": TASK_POINTS[0],
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "1s",
        # Also where a stage has but one task.
        "spark.speculation.task.duration.threshold": "1s",
    }
    cluster = faulty.cluster(1)
    # No second attempt at a task is made on the host of the first.
    cluster.start_worker(host="127.0.0.2")
    driver = faulty.driver(cluster, "there", "--kinds", "pairs", "--parts", "0", options=options)
    lead(session, here, 80, (0,))

    found = faulty.told(driver, "there")

    assert found["content"] == content(here)
    stages = {fault: {each.stem for each in marks.glob(f"*.{fault}")} for fault in ("died", "slept")}
    again = {fault: [len(list(marks.glob(f"{s}.*.written"))) > 1 for s in stages[fault]] for fault in stages}
    assert len(again["died"]) >= 2 and all(again["died"])
    assert any(again["slept"])
    there = load_settings(tmp_path / "there" / "tidemark.toml")
    left = orphans(there)
    assert len(left) >= len(stages["died"])
    for path in left:
        os.utime(path, (0, 0))
    maintained(session, there)
    assert [path for path in left if path.exists()] == []
    assert content(there) == found["content"]


def orphans(settings: Settings) -> list[Path]:
    """Return the Parquet files of a home's tables that no table's log names."""
    tables = [log.parent for log in settings.layout.root.rglob("_delta_log")]
    return [
        path
        for table in tables
        for path in set(table.rglob("*.parquet")) - set(files_between(table, None))
        if "_delta_log" not in path.parts
    ]


def maintained(session: SparkSession, settings: Settings) -> None:
    """Run the jobs that vacuum tables."""
    for stream in streams_of(settings):
        maintain.run(settings, session, stream)
    for query in settings.registered:
        maintain_queries.run(settings, session, query)


@contextmanager
def served(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Start the server of Spark Connect that the environment names; end it, and its JVM, with the block."""
    begin(folder, ())
    server = subprocess.Popen(
        [sys.executable, "-m", "lakehouse.cli", "spark", "--connect"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        assert server.stdout is not None and "sc://" in server.stdout.readline()
        yield server
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_server_of_spark_connect_that_is_killed_amid_a_batch_loses_and_repeats_nothing(
    session: SparkSession, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed, words = begin(tmp_path / "undisturbed", ("pairs",)), ("--kinds", "pairs", "--parts", "0")
    lead(session, undisturbed, 80, (0,))
    monkeypatch.setenv("TIDEMARK_SPARK__SECRET", "of-a-test")
    monkeypatch.setenv(MASTER, f"sc://127.0.0.1:{free_port()}")
    with served(tmp_path / "server") as server:
        driver = runs.driver(None, "killed", *words)
        assert driver.stdout is not None
        for line in driver.stdout:
            if line.startswith("part 0: pairs"):
                break
        os.killpg(server.pid, signal.SIGKILL)

        assert driver.wait(120) == 1
    assert "EngineEnded: the server of Spark Connect has ended" in (tmp_path / "killed.log").read_text()
    with served(tmp_path / "server"):
        found = runs.told(runs.driver(None, "killed", *words), "killed")

    assert found["content"] == content(undisturbed)


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
