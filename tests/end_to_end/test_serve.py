"""A service beside everything: rows that land are published, what is broken stands alone, no stop loses or doubles."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import httpx
import psutil
import pytest

from lakehouse.queries.runtime.failure import read_failure
from lakehouse.storage.heartbeats import is_served, service_heartbeat
from tests.end_to_end.serving import ROOT, Lake, command, served, until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]
BROKEN = """
[streams.broken]
event_time = { column = "ts", unit = "s" }
levels = ["1m forever"]
[streams.broken.source]
kind = "kafka"
servers = ["127.0.0.1:1"]
topics = ["none"]
format = "ndjson"
options = { "default.api.timeout.ms" = "2000", "request.timeout.ms" = "1000" }
"""
# Both ask is_even, so they share a scan; what is_warm raises is the join's alone.
QUERIES = {
    "even": "SELECT device, count FROM readings WHERE is_even(count)",
    "pairs": """
        SELECT a.count AS one, b.count AS other FROM readings [RANGE 5 SECONDS] a JOIN readings b
        ON a.device = b.device AND a.count < b.count WHERE is_even(a.count) AND is_warm(b.temp)
        RECALL 0.9 OVER 1 MINUTE
    """,
}
IS_EVEN = "def is_even(count) -> bool:\n    return count % 2 == 0\n"
IS_WARM = "def is_warm(temp) -> bool:\n    return temp > 0\n"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A home in which the broker of another stream never answers."""
    return Lake(tmp_path_factory.mktemp("served"), BROKEN)


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/status.json").status_code == 200
    except httpx.TransportError:
        return False


def test_rows_that_land_are_published_while_another_stream_is_broken_and_sigterm_stops_cleanly(
    lake: Lake,
) -> None:
    lake.land()
    with served(lake) as process:
        until(lambda: lake.published() == lake.landed, lake)
        lake.land()
        until(lambda: lake.published() == lake.landed, lake)
        until(lambda: lake.step("ingest", "broken").get("failures", 0) > 1, lake)

        assert lake.counts() == lake.expected()
        web = f"http://:{lake.token}@{lake.web}"
        answered = httpx.get(f"{web}/latest/ask.json?stream=readings&measure=temp&agg=count")
        assert answered.json()["rows"][0]["value"] == lake.landed
        assert httpx.get(f"{web}/status.json").json()["service"]["is_alive"]
        [answering] = [one for one in psutil.Process(process.pid).children() if "web" in one.cmdline()]
        answering.kill()
        until(lambda: _answers(web), lake)
        assert "Kafka at 127.0.0.1:1" in lake.step("ingest", "broken")["error"]
        assert lake.step("ingest", "readings")["tally"]["failures"] == 0
        until(lambda: lake.fresh()["batches"] == 2, lake)
        assert 0 < lake.fresh()["p50_s"] <= lake.fresh()["p95_s"] < 300
        second = subprocess.run(command(lake, "serve"), capture_output=True, text=True, cwd=ROOT)
        assert second.returncode == 1
        assert f"only one service at a time: `tidemark serve` (process {process.pid}" in second.stderr
        status = subprocess.run(command(lake, "status"), capture_output=True, text=True, cwd=ROOT)
        assert f"served by process {process.pid}" in status.stdout

        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 143

    assert not is_served(lake.home) and not _answers(web)
    assert (service_heartbeat(lake.home) or {})["state"] == "stopped"


def test_killed_in_the_midst_again_and_again_the_last_restart_goes_on_and_every_count_is_exact(
    tmp_path: Path,
) -> None:
    """Each service makes again what the one before died in, before it dies at a point of its own."""
    lake = Lake(tmp_path)
    for point in ("ingest.raw-appended", "rollup.appended", "publish.file-written"):
        with served(lake, TIDEMARK_CRASH_AT=point) as process:
            lake.land()
            assert process.wait(300) == -signal.SIGKILL
        assert not is_served(lake.home)

    with served(lake) as process:
        until(lambda: lake.published() == lake.landed, lake)
        assert lake.counts() == lake.expected()
        process.send_signal(signal.SIGINT)
        assert process.wait(5) == 130
    # Files of so few rows need no Spark, which says a lot when it starts.
    assert (lake.home.service / "spark.log").read_text() == ""


def test_every_line_of_its_log_is_json_with_the_fields_of_what_happened(lake: Lake) -> None:
    lines = [json.loads(line) for line in (lake.folder / "serve.log").read_text().splitlines()]

    outcomes = [line for line in lines if line.get("job") == "publish" and line.get("ok")]
    assert outcomes and all(line["figures"]["version"] >= 1 for line in outcomes)
    assert any(line["level"] == "ERROR" and line["stream"] == "broken" for line in lines)


def test_queries_that_share_a_predicate_are_published_and_one_that_raises_stands_still_alone(
    tmp_path: Path,
) -> None:
    lake = Lake(tmp_path)
    for name, text in QUERIES.items():
        lake.write(f"queries/{name}.sql", text)
    lake.write("predicates/is_even.py", IS_EVEN)
    lake.write("predicates/is_warm.py", IS_WARM)
    lake.land()
    with served(lake) as process:
        until(lambda: lake.found() == lake.expected_found(), lake)
        before = lake.found()
        lake.write("predicates/is_warm.py", IS_WARM.replace("return", "assert temp < 0, temp\n    return"))
        lake.land()
        until(lambda: lake.found()["even"] == lake.expected_found()["even"], lake)
        until(lambda: read_failure(lake.home, "pairs") is not None, lake)
        assert lake.state("pairs") == "stopped"
        stopped = read_failure(lake.home, "pairs")
        assert stopped is not None and (stopped.operator, stopped.place) == (
            "is_warm(temp)",
            "is_warm.py:2",
        )
        assert lake.state("even") == "current"
        assert lake.found()["pairs"] == before["pairs"]
        until(lambda: lake.step("run_queries", "pairs").get("failures", 0) > 0, lake)
        assert lake.step("run_queries", "even")["tally"]["failures"] == 0

        lake.write("predicates/is_warm.py", IS_WARM)
        lake.land()
        until(lambda: lake.found() == lake.expected_found(), lake)
        assert lake.state("pairs") == "current"
        assert lake.counts() == lake.expected()
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 143
