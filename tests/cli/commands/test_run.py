from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse.cli.output import time_text
from lakehouse.simulator.truth import read_truth
from tests.cli.conftest import Tidemark, Tour, command_in

COUNTS = ("received", "accepted", "quarantined", "duplicates", "late")


def test_without_a_configuration_it_says_how_to_get_one(tidemark: Tidemark) -> None:
    ended = tidemark("run")

    assert ended.returncode == 2
    assert "`tidemark init` writes one" in ended.stderr


def test_an_undeclared_stream_is_refused_before_anything_starts(called: Tidemark) -> None:
    called("init")

    ended = called("run", "--stream", "rivers")

    assert ended.returncode == 2
    assert ended.stderr == "tidemark: no stream 'rivers'; declared: flows, telemetry\n"


def test_a_query_that_is_not_registered_or_lacks_a_stream_is_refused(
    called: Tidemark, tmp_path: Path
) -> None:
    called("init")
    of_two = "SELECT COUNT(*) FROM flows [1 HOUR] f, telemetry [1 HOUR] t WHERE f.event_us = t.event_us EVERY 1 HOUR"
    (tmp_path / "queries").mkdir(exist_ok=True)
    (tmp_path / "queries" / "both.sql").write_text(of_two)

    unknown = called("run", "--query", "bot")
    lacking = called("run", "--stream", "flows", "--query", "both")

    assert (unknown.returncode, lacking.returncode) == (2, 2)
    assert unknown.stderr.startswith("tidemark: no query 'bot'; registered: ") and "both" in unknown.stderr
    assert lacking.stderr.startswith("tidemark: query 'both' reads telemetry too: give --stream for each")


@pytest.mark.parametrize("named", [("--stream", "flows"), ("--query", "sound")])
def test_a_run_of_some_names_the_queries_that_are_set_aside(
    called: Tidemark, tmp_path: Path, named: tuple[str, str]
) -> None:
    called("init")
    (tmp_path / "queries").mkdir(exist_ok=True)
    sound = "SELECT COUNT(*) FROM flows [1 HOUR] f, telemetry [1 HOUR] t WHERE f.event_us = t.event_us EVERY 1 HOUR"
    (tmp_path / "queries" / "sound.sql").write_text(sound)
    (tmp_path / "queries" / "torn.sql").write_text(sound.replace("flows [", "rivers ["))
    # The run ends there, before it begins anything.
    home = tmp_path / "var"
    home.mkdir(exist_ok=True)
    (home / "airflow").write_text("")

    ended = called("run", *named)

    assert ended.returncode == 1
    [line] = [line for line in ended.stderr.splitlines() if "set aside" in line]
    assert (
        "query torn is set aside until its file is mended: queries/torn.sql:1:" in line and "rivers" in line
    )


@pytest.mark.spark
@pytest.mark.airflow
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_finds_what_was_simulated_and_answers_with_it(tour: Tour) -> None:
    outcomes, tidemark = tour.outcomes, command_in(tour.folder)

    assert [outcome["error"] for outcome in outcomes] == [None] * len(outcomes)
    status = json.loads(tidemark("status", "--json").stdout)
    files = {o["stream"]: o["figures"]["files"] for o in outcomes if o["job"] == "ingest"}
    found = [_as_promised(stream, files[stream["stream"]]) for stream in status["streams"]]
    assert sorted(line.split() for line in tour.promised) == sorted(found)
    for stream in status["streams"]:
        truth = read_truth(tour.folder / "landing", stream["stream"])
        assert truth is not None
        assert [stream[name] for name in (*COUNTS, "lateness_max_us")] == [
            *(truth.received, truth.accepted, truth.quarantined, truth.duplicates, truth.late),
            truth.max_lateness_us,
        ]
        assert stream["quarantine"] == truth.reasons
    answer = json.loads(tidemark("ask", "flows", "bytes", "--json").stdout)
    truth = read_truth(tour.folder / "landing", "flows")
    assert truth is not None
    assert (answer["exact"], answer["value"]) == (True, float(truth.sums["bytes"]))


def _as_promised(stream: dict[str, Any], files: int) -> list[str]:
    """Return what status says of a stream as ``simulate`` prints what it wrote."""
    counts = [f"{count:,}" for count in (files, *(stream[name] for name in COUNTS))]
    times = [time_text(stream[name]) for name in ("earliest_us", "newest_us")]
    return [stream["stream"], *counts, *(word for time in times for word in str(time).split())]
