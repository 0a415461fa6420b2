from __future__ import annotations

import ast
import subprocess
import sys
from contextlib import nullcontext
from copy import deepcopy
from datetime import timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.standard.utils.skipmixin import SkipMixin
from airflow.sdk.api.datamodels._generated import DagRun
from airflow.sdk.exceptions import AirflowFailException

from dags import _step
from jobs import build_rollups
from jobs.running.scheduled import PARAMETERS, configured
from lakehouse.config.problems import ConfigError, EngineEnded, NotDeclared
from lakehouse.ingest.sources.kafka import BrokerFailed
from lakehouse.rollup.rollup import RollupOutdated
from lakehouse.spark.session import EngineIncomplete
from lakehouse.storage.control.database import ControlUnreachable
from lakehouse.storage.control.lease import LeaseHeld
from lakehouse.storage.query_meaning import QueryChanged
from lakehouse.storage.stores.store_access import StoreUnavailable
from quality.gate import GateFailed

pytestmark = pytest.mark.airflow

FOLDER = Path(__file__).parents[2] / "dags"
NAMES = sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))


STREAM = '[streams.{0}]\nsource.path = "landing/{0}/*.csv"\n'
CONFIG = STREAM.format("alpha") + STREAM.format("beta")
QUERIES = ("of_alpha", "of_both")


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a configuration of two streams and two queries, which are known by their names while DAGs are parsed."""
    path = tmp_path / "tidemark.toml"
    path.write_text(CONFIG, encoding="utf-8")
    (tmp_path / "queries").mkdir()
    for name in QUERIES:
        (tmp_path / "queries" / f"{name}.sql").touch()
    (tmp_path / "queries" / "no name.sql").touch()
    monkeypatch.setenv("TIDEMARK_CONFIG", str(path))
    monkeypatch.delenv("TIDEMARK_HOME", raising=False)
    return path


def _dags(name: str) -> list[Any]:
    from lakehouse.config.airflow.homes import airflow_homes

    return [getattr(import_module(f"dags.{name}"), name)(home) for home in airflow_homes()]


def _dag(name: str) -> Any:
    (found,) = _dags(name)
    return found


def _resolve(name: str, param: str, value: str) -> None:
    """Validate a value of a parameter. A parameter keeps the last value, and all DAGs of this process share it."""
    deepcopy(_dag(name).params.get_param(param)).resolve(value)


def _wakes(name: str) -> set[str]:
    return {asset.name.removeprefix("tidemark/") for asset in _dag(name).timetable.asset_condition.objects}


def test_there_is_one_file_for_each_dag() -> None:
    assert NAMES == ["ingest", "maintain", "publish", "quality", "queries", "repair", "rollups", "watch"]


@pytest.mark.parametrize("name", NAMES)
def test_a_dag_is_named_by_prefix_and_file_and_explains_itself(name: str, config: Path) -> None:
    config.write_text('[airflow]\nprefix = "north"\nowner = "ops"\n' + CONFIG)
    dag = _dag(name)

    assert (dag.dag_id, dag.dag_display_name) == (f"north_{name}", f"north: {name}")
    assert "- **If it is late**" in dag.doc_md
    assert "north" in dag.tags
    assert {task.owner for task in dag.tasks} == {"ops"}


def test_checks_also_run_by_the_clock_where_a_rule_may_fail_because_nothing_comes(config: Path) -> None:
    rule = "[[streams.alpha.rules]]\n{}\n"
    config.write_text(CONFIG + rule.format('expect = "column_values_to_be_null"'))
    assert not hasattr(_dag("quality").timetable, "timetable")

    config.write_text(CONFIG + rule.format('freshness = "15m"'))

    assert _dag("quality").timetable.timetable.expression == "*/5 * * * *"
    assert _wakes("quality") == {"rollup/alpha", "rollup/beta"}


def test_two_homes_live_in_one_airflow(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "south" / "tidemark.toml"
    other.parent.mkdir()
    other.write_text('[airflow]\nprefix = "south"\n' + CONFIG)
    monkeypatch.setenv("TIDEMARK_CONFIGS", f"{config}:{other}")

    ours, theirs = _dags("ingest")

    assert (ours.dag_id, theirs.dag_id) == ("tidemark_ingest", "south_ingest")
    assert [dag.params["config"] for dag in (ours, theirs)] == [str(config), str(other)]
    events = [{(o.name, o.uri) for task in dag.tasks for o in task.outlets} for dag in (ours, theirs)]
    assert not events[0] & events[1]
    assert ("south/raw/alpha", f"file://{tmp_path}/south/var/raw/alpha") in events[1]


def test_two_homes_of_one_prefix_are_refused(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_CONFIGS", f"{config}:{config}")

    with pytest.raises(ConfigError, match=r"airflow\.prefix: found 'tidemark'; expected one of its own"):
        _dags("ingest")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ('prefix = "a b"', r"airflow\.prefix: found 'a b'; expected a letter, then"),
        ('task_timeout = "soon"', r"airflow\.task_timeout: found 'soon'"),
        ("timeout = 5", r"airflow\.timeout: "),
    ],
)
def test_a_wrong_section_is_refused_with_its_key(config: Path, wrong: str, message: str) -> None:
    config.write_text(f"[airflow]\n{wrong}\n" + CONFIG)

    with pytest.raises(ConfigError, match=message):
        _dags("ingest")


@pytest.mark.parametrize("name", NAMES)
def test_no_task_and_no_run_goes_on_for_ever_and_what_may_pass_is_tried_again_later_and_later(
    name: str, config: Path
) -> None:
    config.write_text('[airflow]\ntask_timeout = "1h"\nrun_timeout = "3h"\nretries = 5\n' + CONFIG)
    dag = _dag(name)

    assert dag.dagrun_timeout == timedelta(hours=3)
    assert dag.on_failure_callback
    for task in dag.tasks:
        assert task.execution_timeout == timedelta(hours=1)
        assert task.retry_exponential_backoff == 2
        assert task.retries == (0 if name == "watch" else 5)


@pytest.mark.parametrize("name", NAMES)
def test_what_may_start_spark_is_in_the_pool_and_what_only_looks_is_not(name: str, config: Path) -> None:
    config.write_text('[airflow]\npool = "spark"\n' + CONFIG)
    looking = {"choose", "choose_queries", "look"}

    assert {(task.task_id in looking, task.pool) for task in _dag(name).tasks} <= {
        (True, "default_pool"),
        (False, "spark"),
    }


def test_runs_that_read_pile_up_no_further_than_slow_streams_explain() -> None:
    assert [_dag(name).max_active_runs for name in ("ingest", "rollups")] == [3, 16]


class Waiting:
    """Airflow's task instance, in whose DAG one task waits for its retry."""

    dag_id = "tidemark_ingest"

    def get_ti_count(self, dag_id: str, task_ids: list[str], states: list[str]) -> int:
        assert (dag_id, states) == (self.dag_id, ["up_for_retry"])
        return int(task_ids == ["take.alpha"])


@pytest.mark.parametrize(
    ("run_type", "tried"),
    [("scheduled", ["take.beta"]), ("manual", ["take.alpha", "take.beta"])],
)
def test_a_run_of_the_schedule_leaves_a_stream_to_the_run_that_tries_it_again(
    run_type: str, tried: list[str], config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[str] = []
    monkeypatch.setattr(SkipMixin, "skip_all_except", lambda *given: left.extend(given[2]))
    dag = _dag("ingest")
    choose = dag.get_task("choose")
    context = {
        "dag": dag,
        "task": choose,
        "ti": Waiting(),
        "dag_run": DagRun.model_construct(run_type=run_type),
    }

    choose._post_execute_hook(context, ["alpha", "beta"])

    assert sorted(left) == tried


def test_what_has_landed_goes_on_to_be_published_before_more_is_read() -> None:
    order = ("ingest", "rollups", "quality", "publish")
    weights = [{task.priority_weight for task in _dag(name).tasks} for name in order]

    assert weights == [{1}, {2}, {3}, {4}]


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_or_query_has_one_task_at_a_time_and_no_dag_catches_up(name: str) -> None:
    dag = _dag(name)

    assert not dag.catchup
    assert dag.max_active_runs == 1 or all(
        task.max_active_tis_per_dag == 1 for task in dag.tasks if task.task_id != "choose"
    )


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


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"from": "2026-13-01"}, "from: found '2026-13-01'; expected an ISO date or time"),
        ({"from": "2026-01-02", "to": "2026-01-02"}, "to: found '2026-01-02'; expected a time after `from`"),
        ({"to": "2026-01-05T25:00"}, "to: found '2026-01-05T25:00'; expected an ISO date or time"),
    ],
)
def test_a_range_that_is_none_fails_at_once_with_its_parameter(asked: dict[str, str], message: str) -> None:
    with pytest.raises(AirflowFailException, match=message):
        _step.failing_at_once(build_rollups.run_or_rebuild)(asked)


@pytest.mark.parametrize("value", ["", "a b", "a;b", "Telemetry", "a,,b"])
def test_a_stream_parameter_that_is_no_list_of_names_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="does not match"):
        _resolve("ingest", "streams", value)


def test_what_is_new_of_a_stream_wakes_the_dags_that_read_it() -> None:
    assert _wakes("rollups") == _wakes("queries") == {"raw/alpha", "raw/beta"}
    assert _wakes("quality") == {"rollup/alpha", "rollup/beta"}
    results = {"results/of_alpha", "results/of_both"}
    assert _wakes("publish") == {"checked/alpha", "checked/beta"} | results


def test_where_no_query_is_registered_nothing_starts_the_dags_of_queries(tmp_path: Path) -> None:
    assert (_dag("queries").schedule, _dag("repair").schedule) != (None, None)
    for name in QUERIES:
        (tmp_path / "queries" / f"{name}.sql").unlink()

    assert (_dag("queries").schedule, _dag("repair").schedule) == (None, None)


@pytest.mark.parametrize(
    ("name", "task", "table"),
    [
        ("ingest", "take.alpha", "raw/alpha"),
        ("rollups", "build.beta", "rollup/beta"),
        ("quality", "check.alpha", "checked/alpha"),
        ("queries", "join.of_both", "results/of_both"),
        ("repair", "complete.of_both", "results/of_both"),
        ("publish", "release", "serving/all"),
    ],
)
def test_a_task_reports_the_table_that_it_writes(name: str, task: str, table: str) -> None:
    (outlet,) = _dag(name).get_task(task).outlets

    assert (outlet.name, outlet.group) == (f"tidemark/{table}", "tidemark")
    assert outlet.extra == dict(zip(("table", "of"), table.split("/"), strict=True))
    assert outlet.uri.startswith("file:///")


def test_tables_on_a_store_are_named_by_their_place_there(config: Path) -> None:
    config.write_text('[tables]\npath = "s3://lake/prefix"\n' + CONFIG)
    (outlet,) = _dag("ingest").get_task("take.alpha").outlets

    assert outlet.uri == "s3://lake/prefix/raw/alpha"


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
        "heavy = {'pyspark', 'delta', 'great_expectations', 'duckdb', 'pandas', 'numpy', 'sqlglot'}\n"
        "heavy &= set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )

    found = subprocess.run([sys.executable, "-c", script], cwd=FOLDER.parent, capture_output=True, text=True)

    assert found.returncode == 0, found.stderr


def test_airflow_reads_the_dag_files_of_the_folder_and_no_other() -> None:
    from airflow.dag_processing.importers.python_importer import PythonDagImporter

    assert sorted(Path(path).stem for path in PythonDagImporter().list_dag_files(FOLDER)) == NAMES


def test_a_parameter_that_no_dag_has_fails_at_once_with_what_was_meant() -> None:
    assert {param for name in NAMES for param in _dag(name).params} == {*PARAMETERS}

    with pytest.raises(AirflowFailException, match=r"form: found a value; expected .*did you mean from\?"):
        _step.failing_at_once(configured)({"form": "2026-01-05"})
