"""``tidemark spark``: the home's tables have names in sessions of a shell, a file, a statement and Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Tidemark
from tests.cluster.life import begin, content, lead
from tests.support.servers import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIG = """
[streams.pond]
event_time = { column = "at", unit = "iso" }
columns = { station = "string", depth = "int" }
keys = ["station"]
measures = ["depth"]
levels = ["1s for 1h", "1h forever"]
source = { path = "landing/*.csv", format = "csv", settle = "0s" }
"""
REPORT = """
import json, sys
deepest = spark.sql("SELECT station, max(depth) AS depth FROM raw.pond GROUP BY station ORDER BY station")
before = spark.sql("SELECT count(*) FROM raw.pond VERSION AS OF 1").head()[0]
deepest.write.format("delta").save(sys.argv[1])
mine = spark.read.format("delta").load(sys.argv[1])
print(json.dumps([mine.count(), before, __name__, spark.table("ledger.pond").count()]))
"""
CLIENT = """
import sys
from pyspark.sql import SparkSession
print(SparkSession.builder.remote(sys.argv[1]).getOrCreate().table("raw.pond").count())
"""


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a configuration, and a home of two ingest batches: two rows, then one."""
    folder = tmp_path_factory.mktemp("pond")
    (folder / "tidemark.toml").write_text(CONFIG)
    (folder / "landing").mkdir()
    for name, lines in (
        ("1", "2026-01-01T00:00:00Z,a,3\n2026-01-01T00:00:01Z,b,4"),
        ("2", "2026-01-01T00:00:02Z,a,5"),
    ):
        (folder / "landing" / f"{name}.csv").write_text(f"at,station,depth\n{lines}\n")
        subprocess.run(
            [sys.executable, "-m", "jobs.ingest", "pond"], check=True, cwd=folder, capture_output=True
        )
    return folder


@pytest.fixture
def in_pond(pond: Path) -> Tidemark:
    """The command in that folder, in a process of its own."""

    def run(*words: str, typed: str | None = None) -> subprocess.CompletedProcess[str]:
        called = [sys.executable, "-m", "lakehouse.cli", *words]
        return subprocess.run(called, cwd=pond, capture_output=True, text=True, timeout=240, input=typed)

    return run


def test_two_things_to_do_are_refused_before_spark_starts(called: Tidemark) -> None:
    ended = called("spark", "--sql", "SELECT 1", "--connect")

    assert (ended.returncode, ended.stderr) == (2, "tidemark: a file, --sql and --connect: choose one\n")


def test_a_file_that_is_not_there_is_refused_before_spark_starts(called: Tidemark) -> None:
    ended = called("spark", "nope.py")

    assert (ended.returncode, ended.stderr) == (
        2,
        "tidemark: nope.py: no such file; expected a Python file\n",
    )


@pytest.mark.spark
@pytest.mark.slow
def test_a_file_reads_tables_by_name_and_of_earlier_versions(in_pond: Tidemark, pond: Path) -> None:
    (pond / "report.py").write_text(REPORT)

    ended = in_pond("spark", "report.py", str(pond / "mine"))

    assert (ended.returncode, json.loads(ended.stdout)) == (0, [2, 2, "__main__", 2])


@pytest.mark.spark
@pytest.mark.slow
def test_a_statement_prints_its_first_rows_and_leaves_a_log_of_events(
    in_pond: Tidemark, pond: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_SPARK__EVENT_LOG", "events")

    ended = in_pond("spark", "--limit", "1", "--sql", "SELECT station, depth FROM raw.pond ORDER BY depth")

    assert (ended.returncode, ended.stdout.split()[-2:]) == (0, ["a", "3"])
    assert "only the first 1 rows" in ended.stderr
    assert list((pond / "var" / "events").iterdir())


@pytest.mark.spark
@pytest.mark.slow
def test_a_shell_names_the_tables_and_ends_with_its_input(in_pond: Tidemark) -> None:
    ended = in_pond("spark", typed="print('rows', spark.table('raw.pond').count())\n")

    assert (ended.returncode, "rows 3" in ended.stdout) == (0, True)
    assert "`spark` is the session. Tables:" in ended.stderr and "raw.pond" in ended.stderr


@pytest.fixture(scope="module")
def served(pond: Path) -> Iterator[str]:
    """The address of a session that serves Spark Connect."""
    called = [sys.executable, "-m", "lakehouse.cli", "spark", "--connect", "--port", str(free_port())]
    with subprocess.Popen(
        called, cwd=pond, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().split('"')[1]
        server.terminate()


@pytest.mark.spark
@pytest.mark.slow
def test_clients_of_spark_connect_need_the_token(served: str) -> None:
    address, _, token = served.partition(";token=")
    # A refused client would try again for minutes.
    environment = {**os.environ, "SPARK_CONNECT_AUTHENTICATE_TOKEN": "guessed"}

    def count(remote: str) -> subprocess.CompletedProcess[str]:
        called = [sys.executable, "-c", CLIENT, remote]
        return subprocess.run(called, env=environment, capture_output=True, text=True, timeout=120)

    assert token and count(served).stdout == "3\n"
    assert "UNAUTHENTICATED" in count(address).stderr


@pytest.mark.spark
@pytest.mark.slow
def test_jobs_on_a_server_that_others_share_come_to_what_one_process_comes_to(
    session: SparkSession, served: str, tmp_path: Path
) -> None:
    address, _, token = served.partition("/;token=")
    told = {"TIDEMARK_SPARK__MASTER": address, "TIDEMARK_SPARK__SECRET": token}
    kinds = ("pairs", "selection")
    called = ["tests.cluster.life", str(tmp_path / "there"), "--kinds", ",".join(kinds), "--parts", "0"]
    driver = subprocess.Popen(
        [sys.executable, "-m", *called], env={**os.environ, **told}, stdout=subprocess.PIPE, text=True
    )
    here = begin(tmp_path / "here", kinds)
    lead(session, here, 80, (0,))

    said, _ = driver.communicate(timeout=120)

    assert driver.returncode == 0
    assert json.loads(said.splitlines()[-1])["content"] == content(here)
