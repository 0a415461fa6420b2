from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakehouse.simulator.truth import read_truth
from tests.cli.conftest import Tidemark


def test_without_a_configuration_it_says_how_to_get_one(tidemark: Tidemark) -> None:
    ended = tidemark("run")

    assert ended.returncode == 2
    assert "`tidemark init` writes one" in ended.stderr


def test_an_undeclared_stream_is_refused_before_anything_starts(tidemark: Tidemark) -> None:
    tidemark("init")

    ended = tidemark("run", "--stream", "rivers")

    assert ended.returncode == 2
    assert ended.stderr == "tidemark: no stream 'rivers'; declared: flows, telemetry\n"


@pytest.mark.spark
@pytest.mark.airflow
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_finds_what_was_simulated_and_answers_with_it(tidemark: Tidemark, tmp_path: Path) -> None:
    tidemark("init")
    tidemark("simulate", "--rows", "5000")

    ran = tidemark("run", "--json")

    outcomes = json.loads(ran.stdout)
    assert (ran.returncode, [outcome["error"] for outcome in outcomes]) == (0, [None] * len(outcomes))
    status = json.loads(tidemark("status", "--json").stdout)
    for stream in status["streams"]:
        truth = read_truth(tmp_path / "landing", stream["stream"])
        assert truth is not None
        assert [stream[name] for name in ("received", "accepted", "quarantined", "duplicates", "late")] == [
            *(truth.received, truth.accepted, truth.quarantined, truth.duplicates),
            truth.late + truth.late_conflicts,
        ]
        assert stream["quarantine"] == truth.reasons
    answer = json.loads(tidemark("ask", "flows", "bytes", "--json").stdout)
    truth = read_truth(tmp_path / "landing", "flows")
    assert truth is not None
    assert (answer["exact"], answer["value"]) == (True, float(truth.sums["bytes"]))
