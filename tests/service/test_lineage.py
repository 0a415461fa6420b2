from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from jobs.running.outcome import recorded
from lakehouse.service import lineage
from lakehouse.settings import Settings
from lakehouse.storage.control.outcomes import read_all
from tests.support.readings import write

ALPHA = """
[lineage]
{lineage}
[streams.alpha]
event_time = {{ column = "ts", unit = "s" }}
levels = ["1m forever"]
[streams.alpha.source]
path = "landing/*.csv"
format = "csv"
"""
# What the spec demands of a run event, of its facets and datasets, said again in a schema.
_NAMED = {
    "type": "object",
    "required": ["namespace", "name"],
    "properties": {
        "namespace": {"type": "string", "minLength": 1},
        "name": {"type": "string", "minLength": 1},
    },
}
_FACETS = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "required": ["_producer", "_schemaURL"],
        "properties": {
            "_producer": {"type": "string", "format": "uri"},
            "_schemaURL": {"type": "string", "format": "uri"},
        },
    },
}
RUN_EVENT = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["eventTime", "producer", "schemaURL", "run", "job"],
    "properties": {
        "eventTime": {"type": "string", "format": "date-time"},
        "producer": {"type": "string", "format": "uri"},
        "schemaURL": {"type": "string", "format": "uri"},
        "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
        "run": {
            "type": "object",
            "required": ["runId"],
            "properties": {"runId": {"type": "string", "format": "uuid"}, "facets": _FACETS},
        },
        "job": {**_NAMED, "properties": {**_NAMED["properties"], "facets": _FACETS}},  # type: ignore[dict-item]
        "inputs": {"type": "array", "items": _NAMED},
        "outputs": {"type": "array", "items": _NAMED},
    },
    "additionalProperties": False,
}


@pytest.fixture(autouse=True)
def _nobody_silent() -> Iterator[None]:
    lineage._silent_until.clear()
    yield
    lineage._silent_until.clear()


def events(path: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for event in found:
        jsonschema.validate(event, RUN_EVENT, format_checker=jsonschema.FormatChecker())
    return found


def test_a_job_tells_its_start_and_end_what_it_reads_and_what_it_writes(
    lakehouse_of: Callable[[str], Settings], tmp_path: Path
) -> None:
    settings = lakehouse_of(ALPHA.format(lineage='file = "lineage.ndjson"'))
    recorded("ingest", settings, "alpha", lambda: {"batches": 1})

    start, end = events(tmp_path / "lineage.ndjson")
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == end["run"]["runId"]
    assert (end["job"]["namespace"], end["job"]["name"]) == ("tidemark", "ingest.alpha")
    assert [each["name"] for each in end["inputs"]] == [str(tmp_path / "landing" / "*.csv")]
    tables = [tmp_path / "var" / table / "alpha" for table in ("raw", "quarantine", "ledger")]
    assert [each["name"] for each in end["outputs"]] == [str(table) for table in tables]
    assert {each["namespace"] for each in (*end["inputs"], *end["outputs"])} == {"file"}


@pytest.mark.parametrize(
    "job", ["ingest", "build_rollups", "check_quality", "maintain", "merge_raw", "requeue", "publish"]
)
def test_every_job_of_a_stream_names_what_it_writes(
    lakehouse_of: Callable[[str], Settings], tmp_path: Path, job: str
) -> None:
    settings = lakehouse_of(ALPHA.format(lineage='file = "lineage.ndjson"'))
    recorded(job, settings, "all" if job == "publish" else "alpha", dict)

    assert events(tmp_path / "lineage.ndjson")[1]["outputs"]


@pytest.mark.parametrize("job", ["run_queries", "repair_late", "check_queries", "maintain_queries"])
def test_a_job_of_a_query_is_not_taken_for_one_of_the_stream_of_that_name(
    lakehouse_of: Callable[[str], Settings], tmp_path: Path, job: str
) -> None:
    write(tmp_path, {"alpha": "SELECT ts FROM alpha WHERE ts > 1"})
    settings = lakehouse_of(
        ALPHA.format(lineage='file = "lineage.ndjson"') + '[streams.alpha.columns]\nts = "int"\n'
    )
    settings.layout.selection("alpha").mkdir(parents=True)
    of_stream = {"check_queries": "check_quality", "maintain_queries": "maintain"}.get(job, "ingest")
    recorded(of_stream, settings, "alpha", dict)
    recorded(job, settings, "alpha", dict)

    assert [(each["job"], each["stream"]) for each in read_all(settings.layout)] == [
        (of_stream, "alpha"),
        (job, "alpha"),
    ]
    told = {
        name: [Path(each["name"]).parts[-2:] for each in events(tmp_path / "lineage.ndjson")[3][name]]
        for name in ("inputs", "outputs")
    }
    assert ("selection", "alpha") in told["inputs"] + told["outputs"]
    assert ("rollup", "alpha") not in told["outputs"]


def test_a_failure_is_told_with_its_own_words(
    lakehouse_of: Callable[[str], Settings], tmp_path: Path
) -> None:
    settings = lakehouse_of(ALPHA.format(lineage='file = "lineage.ndjson"'))

    with pytest.raises(OSError, match="disk"):
        recorded("ingest", settings, "alpha", _fail)

    failed = events(tmp_path / "lineage.ndjson")[1]
    assert failed["eventType"] == "FAIL"
    assert failed["run"]["facets"]["errorMessage"]["message"] == "OSError: the disk is full"


def _fail() -> dict[str, Any]:
    raise OSError("the disk is full")


def test_jobs_of_one_run_of_airflow_have_one_parent(
    lakehouse_of: Callable[[str], Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = lakehouse_of(ALPHA.format(lineage='file = "lineage.ndjson"'))
    # Airflow leaves the names of a run that it tested in this process.
    for name in ("AIRFLOW_CTX_DAG_ID", "AIRFLOW_CTX_DAG_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    recorded("ingest", settings, "alpha", dict)
    for run in ("first", "first", "second"):
        monkeypatch.setenv("AIRFLOW_CTX_DAG_ID", "tidemark_ingest")
        monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", run)
        recorded("ingest", settings, "alpha", dict)
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", "ours/nightly/01a21aa5-dacb-7a47-a5d7-6479394aea06")
    recorded("ingest", settings, "alpha", dict)

    alone, *parts = [each["run"]["facets"] for each in events(tmp_path / "lineage.ndjson")[::2]]
    assert "parent" not in alone
    jobs = [(part["parent"]["job"]["namespace"], part["parent"]["job"]["name"]) for part in parts]
    assert jobs == [("tidemark", "tidemark_ingest")] * 3 + [("ours", "nightly")]
    first, again, second, given = (part["parent"]["run"]["runId"] for part in parts)
    assert first == again != second
    assert given == "01a21aa5-dacb-7a47-a5d7-6479394aea06"


def test_a_topic_is_named_by_its_broker(lakehouse_of: Callable[[str], Settings], tmp_path: Path) -> None:
    text = ALPHA.format(lineage='file = "lineage.ndjson"').replace(
        'path = "landing/*.csv"\nformat = "csv"\n', ""
    )
    text += 'kind = "kafka"\nservers = ["broker:9092"]\ntopics = ["a", "b"]\nformat = "ndjson"\n'
    recorded("ingest", lakehouse_of(text), "alpha", dict)

    inputs = events(tmp_path / "lineage.ndjson")[0]["inputs"]
    assert [(each["namespace"], each["name"]) for each in inputs] == [
        ("kafka://broker:9092", name) for name in ("a", "b")
    ]


@contextmanager
def listening(
    may_answer: threading.Event | None = None,
) -> Iterator[tuple[str, list[tuple[str | None, bytes]]]]:
    """A real server that keeps what is posted to it, with the key that came along."""
    heard: list[tuple[str | None, bytes]] = []

    class Keeps(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(
                (self.headers["Authorization"], self.rfile.read(int(self.headers["Content-Length"])))
            )
            if may_answer is not None:
                may_answer.wait(30)
            self.send_response(201)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Keeps) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/api/v1/lineage", heard
        server.shutdown()
        thread.join()


def test_events_are_posted_with_the_key_of_the_environment(
    lakehouse_of: Callable[[str], Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_LINEAGE__API_KEY", "api-key-4711")
    with listening() as (url, heard):
        settings = lakehouse_of(ALPHA.format(lineage=f'url = "{url}"'))
        recorded("ingest", settings, "alpha", dict)

    assert [json.loads(body)["eventType"] for _, body in heard] == ["START", "COMPLETE"]
    assert {key for key, _ in heard} == {"Bearer api-key-4711"}
    assert "4711" not in repr(settings)


@pytest.mark.parametrize("where", ["http://127.0.0.1:1/lineage", "http://no.such.host.invalid/lineage"])
def test_an_address_that_cannot_be_reached_stops_no_job_and_is_not_asked_again_at_once(
    lakehouse_of: Callable[[str], Settings], caplog: pytest.LogCaptureFixture, where: str
) -> None:
    settings = lakehouse_of(ALPHA.format(lineage=f'url = "{where}"'))
    with caplog.at_level(logging.WARNING):
        for _ in range(20):
            assert recorded("ingest", settings, "alpha", lambda: {"rows": 7}) == {"rows": 7}

    assert len([record for record in caplog.records if "no lineage for 60 s" in record.getMessage()]) == 1


def test_an_address_that_does_not_answer_holds_a_job_up_for_seconds_only(
    lakehouse_of: Callable[[str], Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lineage, "TIMEOUT_S", 0.2)
    may_answer = threading.Event()
    with listening(may_answer) as (url, heard):
        settings = lakehouse_of(ALPHA.format(lineage=f'url = "{url}"'))
        started = time.monotonic()
        recorded("ingest", settings, "alpha", dict)
        took = time.monotonic() - started
        may_answer.set()

        assert took < 20
        assert len(heard) == 1


def test_a_file_that_cannot_be_written_stops_no_job(
    lakehouse_of: Callable[[str], Settings], tmp_path: Path
) -> None:
    settings = lakehouse_of(ALPHA.format(lineage='file = "taken/lineage.ndjson"'))
    (tmp_path / "taken").write_text("a file where a folder should be")

    assert recorded("ingest", settings, "alpha", lambda: {"rows": 7}) == {"rows": 7}


def test_without_configuration_nothing_is_told(
    lakehouse_of: Callable[[str], Settings], tmp_path: Path
) -> None:
    recorded("ingest", lakehouse_of(ALPHA.format(lineage="")), "alpha", dict)

    assert not list(tmp_path.glob("*.ndjson"))
