"""While a service runs on the home the DAGs leave its streams to it; the watch fails when it does not get on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs import run_dags
from jobs.running.chosen import unserved
from lakehouse.settings import Settings
from lakehouse.storage.control.lease import lease
from tests.dags.one_dag import dag_run
from tests.support.heartbeats import served
from tests.support.readings import declared

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(600)]
OTHER = """
[streams.other]
event_time = { column = "ts", unit = "s" }
levels = ["1m forever"]
[streams.other.source]
path = "other/*"
format = "ndjson"
"""


@pytest.fixture
def settings(lakehouse_of: Callable[[str], Settings], tmp_path: Path) -> Settings:
    (tmp_path / "landing").mkdir()
    row = {"ts": 1_600_000_000, "device": "a", "temp": 1.0, "count": 1}
    (tmp_path / "landing" / "a.ndjson").write_text(json.dumps(row) + "\n")
    return lakehouse_of(declared() + OTHER)


@pytest.mark.parametrize("name", ["ingest", "rollups", "queries", "publish"])
def test_what_a_service_does_is_left_to_it(settings: Settings, name: str) -> None:
    with lease(settings.layout, settings.layout.service):
        served(
            settings.layout,
            pid=4711,
            streams={"readings": {}, "other": {}},
        )
        states = dag_run(name, settings)

    assert states.pop("") == "success"
    assert set(states.values()) == {"skipped"}


def test_streams_that_a_service_leaves_alone_are_done_all_the_same(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_CONFIG", str(settings.config))
    asked: dict[str, Any] = {"streams": "all", "config": None}

    assert unserved(asked, "stream") == (["readings", "other"], None)
    with lease(settings.layout, settings.layout.service):
        served(settings.layout, pid=4711, streams={"readings": {}})
        left, who = unserved(asked, "stream")
    assert left == ["other"] and "`tidemark serve` (process 4711" in str(who)


@pytest.mark.spark
def test_a_run_beside_a_service_checks_and_maintains_only(settings: Settings) -> None:
    told: list[str] = []
    dag_run("ingest", settings)
    with lease(settings.layout, settings.layout.service):
        served(
            settings.layout,
            pid=4711,
            streams={"readings": {}, "other": {}},
        )
        outcomes = run_dags.run(settings, progress=told.append)

    assert {outcome["job"] for outcome in outcomes} == {"check_quality", "maintain", "merge_raw"}
    assert all(outcome["ok"] for outcome in outcomes)
    assert "left to it are ingest, rollups, queries and publish" in told[0]
    assert "4711" in (settings.layout.airflow / "logs" / "run.log").read_text()


def test_the_watch_skips_where_nothing_is_served(settings: Settings) -> None:
    states = dag_run("watch", settings)

    assert states == {"look": "skipped", "": "success"}


def test_the_watch_has_what_a_living_service_takes_in_checked(settings: Settings) -> None:
    with lease(settings.layout, settings.layout.service):
        served(settings.layout, pid=4711, streams={"readings": {}})
        states = dag_run("watch", settings)

    assert states == {"look": "success", "": "success"}


def test_the_watch_fails_when_the_heartbeat_is_old(settings: Settings) -> None:
    served(settings.layout, pid=4711, age_s=3600, streams={"readings": {}})

    states = dag_run("watch", settings)

    assert (states["look"], states[""]) == ("failed", "failed")
