from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import __version__

from jobs import run_dags
from jobs.running.outcome import reporting
from lakehouse.serving.status import status
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.control.lease import lease, turn
from lakehouse.storage.control.outcomes import last_outcome
from tests.dags.one_dag import dag_run
from tests.support.readings import write
from tests.web.test_alarms import receiving

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

CONFIG = """
[streams.alpha]
event_time = { column = "ts", unit = "s" }
identity = ["device", "ts"]
keys = ["device"]
measures = ["temp"]
groupings = [["device"], []]
levels = ["1s for 1h", "1m forever"]
[streams.alpha.source]
path = "landing/*.csv"
format = "csv"
settle = 0
[streams.alpha.columns]
device = "string"
ts = "int"
"""


@pytest.fixture
def settings(lakehouse_of: Callable[[str], Settings], tmp_path: Path) -> Settings:
    (tmp_path / "landing").mkdir()
    return lakehouse_of(CONFIG)


def _land(settings: Settings, name: str, *lines: str) -> None:
    path = Path(settings.stream("alpha").source.path).with_name(name)
    path.write_text("\n".join(["ts,device,temp", *lines, ""]), encoding="utf-8")


def _figures(outcomes: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {outcome["job"]: outcome["figures"] for outcome in outcomes}


def test_a_run_says_what_spark_did_and_a_second_one_changes_nothing(
    settings: Settings, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A scheduler on this machine may make pods of tasks; this run makes none.
    monkeypatch.setenv("TIDEMARK_POD_TEMPLATE", "/nowhere/pod.yaml")
    _land(settings, "a.csv", "1600000000,x,20.5", "1600000001,y,21", "oops,x,1", "1600000000,x,20.5")
    told: list[str] = []
    monkeypatch.setenv("TIDEMARK_ENGINE__RUNNER", "spark")
    settings = load_settings(settings.config)

    first = run_dags.run(settings, progress=told.append)
    second = run_dags.run(settings, progress=told.append)

    assert [outcome["job"] for outcome in first] == [
        "ingest",
        "build_rollups",
        "check_quality",
        "publish",
        "maintain",
        "merge_raw",
    ]
    assert all(outcome["ok"] for outcome in first + second)
    assert _figures(first)["ingest"]["accepted"] == 2
    assert _figures(second)["ingest"]["batches"] == 0
    assert _figures(second)["build_rollups"]["rows"] == 0
    assert [line for line in told if line.startswith("Spark")] == [f"Spark {__version__} on local[*]"]
    ingests = [line for line in told if line.startswith("ingest ")]
    assert re.search(r"accepted 2.*; Spark: jobs [1-4], tasks \d+, \d+ kB shuffled$", ingests[0])
    assert "Spark" not in ingests[1]
    assert len(told) == 13
    assert "airflow" not in capfd.readouterr().out.lower()


BETA = """
[streams.beta]
event_time = { column = "ts", unit = "s" }
levels = ["1m forever"]
[streams.beta.source]
kind = "kafka"
servers = ["127.0.0.1:1"]
topics = ["beta"]
format = "ndjson"
options = { "default.api.timeout.ms" = "2000", "request.timeout.ms" = "1000" }
"""


def test_a_stream_that_cannot_be_read_stands_still_alone_and_of_queries_those_asked_for_run(
    lakehouse_of: Callable[[str], Settings], tmp_path: Path
) -> None:
    (tmp_path / "landing").mkdir()
    settings = lakehouse_of(CONFIG + BETA)
    _land(settings, "a.csv", "1600000000,x,20.5")

    hot = "SELECT ts, temp FROM alpha WHERE temp > {}"
    write(tmp_path, {"hot": hot.format(30), "warm": hot.format(20)})
    settings = load_settings(settings.config)

    outcomes = run_dags.run(settings, progress=lambda _: None, queries=["warm"])

    failed = [(outcome["job"], outcome["stream"]) for outcome in outcomes if not outcome["ok"]]
    assert failed == [("ingest", "beta")]
    assert {o["stream"] for o in outcomes if o["job"].endswith("queries")} == {"warm"}
    assert (settings.layout.serving / "current").exists()


def test_a_failed_gate_withholds_its_stream_with_its_own_words(settings: Settings) -> None:
    _land(settings, "a.csv", "oops,x,1", "oops,y,1", "1600000000,x,20.5")

    outcomes = run_dags.run(settings, streams=["alpha"], progress=lambda _: None)

    (failed,) = (outcome for outcome in outcomes if not outcome["ok"])
    assert failed["job"] == "check_quality"
    assert failed["error"].startswith("stream alpha: 1 check failed, its last published state stays")
    assert "rejected_share is 0.666667, expected at most 0.5" in failed["error"]
    assert "bad_event_time 2 of 3, such as line 2 of " in failed["error"]
    kept = last_outcome(settings.layout, "check_quality", "alpha")
    assert kept is not None and kept["error"] == failed["error"]
    (withheld,) = status(settings.layout)["withheld"]
    assert withheld["stream"] == "alpha" and "rejected_share is 0.666667" in withheld["because"]

    _land(settings, "b.csv", *(f"160000000{second},x,20.5" for second in range(1, 6)))
    assert all(outcome["ok"] for outcome in run_dags.run(settings, progress=lambda _: None))
    mended = status(settings.layout)
    assert mended["withheld"] == [] and mended["streams"][0]["rows"] == 6


def test_an_unknown_stream_is_refused_before_anything_starts(settings: Settings) -> None:
    with pytest.raises(KeyError, match="no stream 'gamma'; declared: alpha"):
        run_dags.run(settings, streams=["gamma"])

    assert not settings.layout.airflow.exists()


def test_a_run_in_which_a_stream_fails_is_red_and_posted_once_and_the_others_go_on(
    lakehouse_of: Callable[[str], Settings], tmp_path: Path
) -> None:
    (tmp_path / "landing").mkdir()
    gamma = CONFIG.replace("alpha", "gamma").replace("landing/*", "landing/gamma-*")
    with receiving() as receiver:
        settings = lakehouse_of(CONFIG + gamma + f'[alerts]\nurl = "{receiver.url}"\n')
        for name in ("alpha.csv", "gamma-1.csv"):
            _land(settings, name, "1600000000,x,20.5")
        # Only who has begun to correct a table may write it then; a file where its folder should be stops a stream.
        settings.layout.raw("gamma").parent.mkdir(parents=True)
        Path(settings.layout.raw("gamma")).touch()
        ingested = dag_run("ingest", settings)

    assert (ingested["take.alpha"], ingested["take.gamma"], ingested[""]) == ("success", "failed", "failed")
    ((headers, body),) = receiver.found
    posted = json.loads(body)
    assert (posted["dag"], posted["home"]) == ("tidemark_ingest", str(settings.home))
    assert headers["Tidemark-Id"] == f"tidemark_ingest:{posted['run']}"
    ((job, of),) = {(each["job"], each["of"]) for each in posted["failed"]}
    assert (job, of) == ("ingest", "gamma")
    assert str(settings.layout.raw("gamma")) in posted["failed"][0]["error"]


def test_only_what_is_new_is_reported_and_starts_what_follows(
    lakehouse_of: Callable[[str], Settings], tmp_path: Path
) -> None:
    (tmp_path / "landing").mkdir()
    gamma = CONFIG.replace("alpha", "gamma").replace("landing/*", "landing/gamma-*")
    settings = lakehouse_of(CONFIG.replace("landing/*", "landing/alpha-*") + gamma)
    _land(settings, "alpha-1.csv", "1600000000,x,20.5")

    first, second = dag_run("ingest", settings), dag_run("ingest", settings)
    _land(settings, "gamma-1.csv", "1600000000,x,20.5")
    third = dag_run("ingest", settings)

    took = [(states["take.alpha"], states["take.gamma"]) for states in (first, second, third)]
    assert took == [("success", "skipped"), ("skipped", "skipped"), ("skipped", "success")]
    with lease(settings.layout, settings.layout.raw("alpha")):
        _land(settings, "alpha-2.csv", "1600000001,x,20.5")
        assert dag_run("ingest", settings)["take.alpha"] == "skipped"
    assert dag_run("ingest", settings)["take.alpha"] == "success"
    for name in ("rollups", "quality"):
        assert dag_run(name, settings, streams="alpha")[""] == "success"
    published = [dag_run("publish", settings)["release"] for _ in range(2)]
    assert published == ["success", "skipped"]


def test_a_stream_whose_rollup_fails_is_withheld_and_the_others_are_published(
    lakehouse_of: Callable[[str], Settings], tmp_path: Path
) -> None:
    (tmp_path / "landing").mkdir()
    gamma = CONFIG.replace("alpha", "gamma").replace("landing/*", "landing/gamma-*")
    settings = lakehouse_of(CONFIG.replace("landing/*", "landing/alpha-*") + gamma)
    for name in ("alpha-1.csv", "gamma-1.csv"):
        _land(settings, name, "1600000000,x,20.5")
    assert all(outcome["ok"] for outcome in run_dags.run(settings, progress=lambda _: None))
    config = settings.config or tmp_path
    before, _, after = config.read_text(encoding="utf-8").rpartition('"1s for 1h"')
    config.write_text(f'{before}"10s for 1h"{after}', encoding="utf-8")
    for name in ("alpha-2.csv", "gamma-2.csv"):
        _land(settings, name, "1600000001,x,20.5")

    outcomes = run_dags.run(load_settings(config), progress=lambda _: None)

    failed = [(outcome["job"], outcome["stream"]) for outcome in outcomes if not outcome["ok"]]
    assert failed == [("build_rollups", "gamma"), ("maintain", "gamma")]
    assert [one["rows"] for one in status(settings.layout)["streams"]] == [2, 1]
    assert [one["stream"] for one in status(settings.layout)["withheld"]] == ["gamma"]


def test_an_unknown_stream_fails_at_once_and_its_message_begins_and_ends_the_log(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("ERROR")

    states = dag_run("ingest", settings, retries=2, streams="alpha,nope")

    assert (states["choose"], states[""]) == ("failed", "failed")
    message = "no stream 'nope'; declared: alpha"
    lines = [record.getMessage() for record in caplog.records if record.name == "dags._step"]
    assert lines[:2] == [message, message]
    assert message not in lines[2:]


def test_a_repair_that_fails_keeps_no_other_query_from_being_checked(
    settings: Settings, tmp_path: Path
) -> None:
    hot = "SELECT ts, temp FROM alpha WHERE temp > {}"
    joined = "SELECT a.ts FROM alpha [RANGE 1 SECOND] a JOIN alpha b ON a.device = b.device RECALL 0.9 OVER 1 MINUTE"
    write(tmp_path, {"hot": hot.format(30), "pairs": joined, "warm": hot.format(20)})
    settings = load_settings(settings.config)
    outcomes: list[dict[str, Any]] = []
    _land(settings, "a.csv", "1600000000,x,20.5")
    assert set(dag_run("repair", settings).values()) == {"success", "skipped"}
    dag_run("ingest", settings)

    with turn(settings.layout, settings.layout.repairs("pairs"), "repair"), reporting(outcomes.append):
        states = dag_run("repair", settings)

    ended = {(outcome["job"], outcome["stream"]): outcome["ok"] for outcome in outcomes}
    assert ended == {
        ("repair_late", "hot"): True,
        ("check_queries", "hot"): True,
        ("repair_late", "pairs"): False,
        ("repair_late", "warm"): True,
        ("check_queries", "warm"): True,
    }
    assert states[""] == "failed"
