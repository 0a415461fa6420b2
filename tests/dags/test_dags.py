from __future__ import annotations

import ast
import subprocess
import sys
from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from dags import _step
from lakehouse.config.problems import ConfigError, EngineEnded, NotDeclared
from lakehouse.ingest.sources.kafka import BrokerFailed
from lakehouse.rollup.rollup import RollupOutdated
from lakehouse.spark.session import EngineIncomplete
from lakehouse.storage.control.database import ControlUnreachable
from lakehouse.storage.control.lease import LeaseHeld
from lakehouse.storage.query_meaning import QueryChanged
from lakehouse.storage.stores.store_client import StoreUnavailable
from quality.gate import GateFailed

pytestmark = pytest.mark.airflow

FOLDER = Path(__file__).parents[2] / "dags"
NAMES = sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))


def _dag(name: str) -> Any:
    return getattr(import_module(f"dags.{name}"), name)()


def _resolve(name: str, param: str, value: str) -> None:
    """Validate a value of a parameter. A parameter keeps the last value, and all DAGs of this process share it."""
    deepcopy(_dag(name).params.get_param(param)).resolve(value)


def _wakes(name: str) -> set[str]:
    return {asset.name for asset in _dag(name).timetable.asset_condition.objects}


def test_there_is_one_file_for_each_dag() -> None:
    assert NAMES == ["ingest", "maintain", "publish", "quality", "queries", "repair", "rollups", "watch"]


@pytest.mark.parametrize("name", NAMES)
def test_a_dag_is_named_like_its_file_and_explains_itself(name: str) -> None:
    dag = _dag(name)

    assert dag.dag_id == name
    assert "- **If it is late**" in dag.doc_md
    assert "tidemark" in dag.tags


@pytest.mark.parametrize("name", NAMES)
def test_a_dag_runs_one_at_a_time_and_never_catches_up(name: str) -> None:
    dag = _dag(name)

    assert (dag.max_active_runs, dag.catchup) == (1, False)


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_typed_and_described(name: str) -> None:
    params = _dag(name).params

    own = {"rollups": {"from", "to"}} | {of: {"queries"} for of in ("queries", "repair", "maintain")}
    assert set(params) == {"streams", "config"} | own.get(name, set())
    for param in params:
        assert params.get_param(param).schema["type"]
        assert params.get_param(param).description


@pytest.mark.parametrize(
    ("value", "is_right"), [("2026-01-05", True), ("2026-01-05T06:00+01:00", True), ("5.1.", False)]
)
def test_a_range_to_build_again_is_given_in_iso_times(value: str, is_right: bool) -> None:
    with nullcontext() if is_right else pytest.raises(ValueError, match="does not match"):
        for end in ("from", "to"):
            _resolve("rollups", end, value)


@pytest.mark.parametrize("value", ["", "a b", "a;b", "Telemetry", "a,,b"])
def test_a_stream_parameter_that_is_no_list_of_names_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="does not match"):
        _resolve("ingest", "streams", value)


def test_assets_chain_the_dags_from_ingest_to_publish() -> None:
    assert _wakes("rollups") == {"raw"}
    assert _wakes("quality") == {"rollup"}
    assert _wakes("publish") == {"checked"}


def test_only_the_last_task_of_a_dag_tells_its_asset() -> None:
    for name, asset in (
        ("ingest", "raw"),
        ("rollups", "rollup"),
        ("quality", "checked"),
        ("publish", "serving"),
        ("watch", "rollup"),
    ):
        telling = {task.task_id: [o.name for o in task.outlets] for task in _dag(name).tasks if task.outlets}
        assert list(telling.values()) == [[asset]]
        assert not _dag(name).get_task(next(iter(telling))).downstream_task_ids


def test_what_a_retry_does_not_change_is_not_tried_again() -> None:
    for error in (GateFailed, ConfigError, NotDeclared, QueryChanged, RollupOutdated, EngineIncomplete):
        with pytest.raises(AirflowFailException):
            _step.failing_at_once(partial(_raise, error))()
    for passing in (LeaseHeld, StoreUnavailable, BrokerFailed, ControlUnreachable, EngineEnded):
        with pytest.raises(passing):
            _step.failing_at_once(partial(_raise, passing))()


def _raise(kind: type[Exception]) -> None:
    # The constructors of some take what is of no account here.
    raise kind.__new__(kind)


@pytest.mark.parametrize("name", NAMES)
def test_every_job_a_dag_names_exists_and_runs(name: str) -> None:
    tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    jobs = [
        a.name
        for n in ast.walk(tree)
        if isinstance(n, ast.ImportFrom) and n.module == "jobs"
        for a in n.names
    ]

    assert jobs
    for job in jobs:
        assert callable(import_module(f"jobs.{job}").run)


def test_dag_files_import_in_less_than_a_second_and_leave_spark_out() -> None:
    script = (
        "import sys, time, importlib, airflow.sdk\n"
        f"for name in {NAMES!r}:\n"
        "    started = time.process_time()\n"
        "    importlib.import_module('dags.' + name)\n"
        "    assert time.process_time() - started < 1, (name, time.process_time() - started)\n"
        "heavy = {'pyspark', 'delta', 'great_expectations', 'duckdb', 'pandas', 'lakehouse'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )

    found = subprocess.run([sys.executable, "-c", script], cwd=FOLDER.parent, capture_output=True, text=True)

    assert found.returncode == 0, found.stderr
