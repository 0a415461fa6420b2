from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkValueError
from pyspark.sql import SparkSession

from lakehouse.config.problems import EngineEnded
from lakehouse.config.spark_settings import SparkSettings
from lakehouse.settings import Settings
from lakehouse.spark import session
from lakehouse.spark.session import naming_death


@pytest.fixture(params=["exit 137", "exec sleep 60"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """What a process in the place of Spark's JVM does."""
    process = subprocess.Popen(["sh", "-c", request.param])
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    monkeypatch.setattr(session, "_DIES_WITHIN_S", 5.0 if "exit" in request.param else 0.1)
    yield request.param
    process.kill()
    process.wait()


def _umask(process: int | str = "self") -> str:
    """Return the bits that what a process makes does not have."""
    status = Path(f"/proc/{process}/status").read_text()
    return next(line.split()[1] for line in status.splitlines() if line.startswith("Umask:"))


def in_place_of_another() -> Exception:
    """What PySpark raises while it asks a JVM that is gone for the type of a column."""
    error = PySparkValueError("Unable to parse datatype.")
    error.__context__ = ConnectionRefusedError(111)
    return error


@pytest.mark.parametrize(
    "error",
    [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111), in_place_of_another()],
)
def test_what_fails_because_the_jvm_has_ended_says_so(engine: str, error: Exception) -> None:
    expected = EngineEnded if "exit" in engine else type(error)

    with pytest.raises(expected) as raised, naming_death():
        raise error

    assert "exit" not in engine or "status 137" in str(raised.value)


@pytest.mark.parametrize("sign", ["StatusCode.UNAVAILABLE", "INVALID_HANDLE.SESSION_CHANGED"])
def test_what_fails_because_a_server_of_spark_connect_has_ended_says_so(sign: str) -> None:
    pytest.importorskip("grpc_status", reason="the extra connect is not installed")
    from pyspark.errors.exceptions.connect import SparkConnectGrpcException

    with pytest.raises(EngineEnded, match="server of Spark Connect"), naming_death():
        raise SparkConnectGrpcException(f"<_InactiveRpcError: {sign}>")
    with pytest.raises(ValueError, match=sign), naming_death():
        raise ValueError(sign)


def test_other_errors_stay(engine: str) -> None:
    with pytest.raises(KeyError), naming_death():
        raise KeyError("column")


@pytest.mark.spark
def test_a_task_does_not_read_the_archives_of_spark_again(spark: SparkSession) -> None:
    def path_of_worker(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        archives = [path for path in sys.path if path.endswith((".jar", "pyspark.zip", "-src.zip"))]
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"archives": [archives], "frozen": [gc.get_freeze_count() > 0]})

    rows = spark.range(1).mapInArrow(path_of_worker, "archives array<string>, frozen boolean").collect()

    assert {(tuple(row.archives), row.frozen) for row in rows} == {((), True)}


def test_what_spark_makes_is_its_users_alone_whatever_umask_this_process_has(spark: SparkSession) -> None:
    context = spark.sparkContext
    jvm: Any = context._jvm
    gateway: Any = context._gateway
    blocks = jvm.org.apache.spark.SparkEnv.get().blockManager().diskBlockManager().localDirs()
    folders = [Path(each.toString()) for each in blocks] + [Path(context._temp_dir)]

    def of_worker(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"umask": [_umask()]})

    umasks = {row.umask for row in spark.range(1).mapInArrow(of_worker, "umask string").collect()}

    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o700] * len(folders)
    # Of the daemon that workers are forked from, too.
    assert umasks == {"0077"} and _umask(gateway.proc.pid) == "0077"


@pytest.mark.parametrize(("ui", "option"), [(False, "false"), (True, "true")])
def test_the_pages_of_spark_are_served_where_settings_ask_for_them(
    tmp_path: Path, ui: bool, option: str
) -> None:
    settings = Settings(home=tmp_path, spark=SparkSettings(ui=ui))

    assert session._options(settings)["spark.ui.enabled"] == option
