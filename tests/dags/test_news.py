"""News whose event was used up by a task that failed start the DAGs again; no event is sent of what all have done."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from dags import _again
from jobs import build_rollups
from jobs.running.lacking import lacking
from lakehouse.queries.runtime.reset_query import forget
from lakehouse.settings import Settings
from lakehouse.spark.session import build_session
from lakehouse.storage.control.lease import turn
from tests.dags.one_dag import dag_run
from tests.support.standing_airflow import joined_home, land

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(300)]
PARAMS: dict[str, Any] = {"streams": "all", "config": None}
CHAIN = ("rollups", "queries", "quality", "publish")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    settings = joined_home(tmp_path)
    monkeypatch.setenv("TIDEMARK_CONFIG", str(settings.config))
    return settings


def _lacking(settings: Settings) -> list[list[str]]:
    return [lacking(name, PARAMS) for name in settings.streams]


def _take_in(settings: Settings, part: int) -> None:
    for stream in settings.streams:
        land(settings, stream, part)
    dag_run("ingest", settings)


def _taken(settings: Settings) -> tuple[str, str]:
    states = dag_run("ingest", settings)
    return states["take.alpha"], states["take.delta"]


def test_what_is_lacking_is_named_step_by_step_until_all_is_published(home: Settings) -> None:
    publish = ["publish", "all"]
    assert _lacking(home) == [[], []]
    for part in range(2):
        _take_in(home, part)
        assert _lacking(home) == [["rollups", "alpha"], ["rollups", "delta"]]
        dag_run("rollups", home, streams="alpha")
        assert _lacking(home) == [["queries", "near"], ["rollups", "delta"]]
        for name in ("rollups", "queries"):
            dag_run(name, home)
        assert _lacking(home) == [["quality", "alpha"], ["quality", "delta"]]
        dag_run("quality", home)
        assert _lacking(home) == [publish, publish]
        dag_run("publish", home)
        assert _lacking(home) == [[], []]

    dag_run("repair", home)
    assert _lacking(home) == [publish, publish]
    dag_run("publish", home)
    build_rollups.rebuild(home, build_session(home), "alpha")
    assert _lacking(home) == [publish, []]
    dag_run("publish", home)
    forget(home.layout, "near")
    assert _lacking(home) == [["queries", "near"], ["queries", "near"]]


def test_what_only_a_change_helps_is_not_lacking(home: Settings) -> None:
    _take_in(home, 0)
    wrong = Path(home.stream("delta").source.path).parent / "900.csv"
    wrong.write_text("ts,device,temp,n\n" + "oops,x,1,1\n" * 200)
    assert dag_run("ingest", home)["take.delta"] == "success"
    for name in CHAIN:
        dag_run(name, home)

    assert _lacking(home) == [[], []]
    config = Path(str(home.config))
    config.write_text(config.read_text().replace('levels = ["1m forever"]', 'levels = ["2m forever"]', 1))
    land(home, "alpha", 1)
    assert dag_run("ingest", home)["take.alpha"] == "success"
    assert lacking("alpha", PARAMS) == []


def test_news_that_a_failed_task_has_used_up_are_sent_again_later_and_no_others(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    _take_in(home, 0)
    with turn(home.layout, home.layout.rollup("alpha"), "build"):
        states = dag_run("rollups", home)
    assert (states["build.alpha"], states["build.delta"]) == ("failed", "success")
    for name in CHAIN[1:]:
        dag_run(name, home)

    monkeypatch.setattr(_again, "AGAIN", timedelta(hours=1))
    assert _taken(home) == ("skipped", "skipped"), "too early"
    monkeypatch.setattr(_again, "AGAIN", timedelta(0))
    assert _taken(home) == ("success", "skipped")
    assert _taken(home) == ("success", "skipped")
    for name in CHAIN:
        assert dag_run(name, home)[""] == "success"
    assert _taken(home) == ("skipped", "skipped")


def test_a_table_that_cannot_be_read_is_no_fault_of_ingest(home: Settings) -> None:
    _take_in(home, 0)
    # A file where the folder of a table should be stops its job.
    table = Path(home.layout.rollup("alpha"))
    table.parent.mkdir(exist_ok=True)
    table.touch()

    assert lacking("alpha", PARAMS) == []
    assert _taken(home) == ("skipped", "skipped")


def test_an_event_waits_twice_as_long_each_time_and_an_hour_at_most() -> None:
    minutes = [_again.wait_before(times) / timedelta(minutes=1) for times in (0, 1, 2, 5, 6, 10_000)]

    assert minutes == [1, 2, 4, 32, 60, 60]


class GoingOn:
    """Airflow's task instance, beside which a task of another DAG is going on, or a run of it waits."""

    dag_id = "tidemark_ingest"

    def __init__(self, tasks: int, runs: int) -> None:
        self.tasks, self.runs = tasks, runs
        self.asked: list[tuple[str, ...]] = []

    def get_ti_count(self, dag_id: str, task_ids: list[str], states: list[str]) -> int:
        assert {"running", "up_for_retry"} <= {*states}
        self.asked.append((dag_id, *task_ids))
        return self.tasks

    def get_dr_count(self, dag_id: str, states: list[str]) -> int:
        assert (dag_id, states) == (self.asked[-1][0], ["queued"])
        return self.runs


@pytest.mark.parametrize(("dag", "name"), zip(CHAIN, ("alpha", "near", "alpha", "all"), strict=True))
def test_no_event_is_sent_while_the_task_that_it_is_for_goes_on(home: Settings, dag: str, name: str) -> None:
    from lakehouse.config.airflow.homes import airflow_homes

    (made,) = (getattr(import_module(f"dags.{dag}"), dag)(each) for each in airflow_homes())
    going = [GoingOn(*each) for each in ((0, 0), (1, 0), (0, 1))]

    assert [_again.goes_on(each, dag, name) for each in going] == [False, True, True]
    for each in going:
        dag_id, task_id = each.asked[-1]
        assert dag_id == made.dag_id and made.has_task(task_id)
