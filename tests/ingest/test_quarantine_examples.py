from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from jobs import build_rollups, ingest, publish, requeue
from lakehouse.cli.app import app
from lakehouse.ingest.quarantine import rejected_examples, rejected_reasons
from lakehouse.serving.published_quarantine import PublishedQuarantine
from lakehouse.serving.status import status
from lakehouse.settings import Settings
from tests.support.readings import declared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
LINES = (
    b'{"ts": 1600000000, "device": "a", "temp": 1}\n'
    b'{"device": "b", "temp": 2}\n'
    b"no json \x1b[2J\n"
    b'{"device": "c", "temp": 3}\n'
)


def test_open_records_are_shown_by_reason_and_are_gone_after_a_requeue(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    settings = lakehouse_of(declared())
    folder = settings.home.parent / "landing"
    folder.mkdir()
    (folder / "a.ndjson").write_bytes(LINES)
    ingest.run(settings, spark, "readings")
    stream, layout = settings.stream("readings"), settings.layout

    first, second = rejected_reasons(layout, stream, [], limit=1)
    assert (first["reason"], first["open"], first["requeues"]) == ("no_event_time", 2, True)
    assert (second["reason"], second["open"]) == ("malformed", 1)
    assert second["examples"][0]["record"] == "no json \\x1b[2J"
    assert [len(one["examples"]) for one in rejected_reasons(layout, stream, ["no_event_time"], limit=5)] == [
        2
    ]
    lines = rejected_examples(layout, stream)
    assert lines[0].startswith("no_event_time 2 of 4, such as line 2 of ") and "a.ndjson: " in lines[0]
    assert lines[0].endswith("; the file has: ts, device, temp")

    asked = ["--config", str(settings.config), "quarantine", "readings", "--reason", "malformed"]
    shown = CliRunner().invoke(app, asked).stdout
    assert "tidemark requeue readings --reason malformed" in shown and "\x1b" not in shown
    assert [one["open"] for one in json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)] == [1]

    settings = lakehouse_of(declared().replace('column = "ts", unit = "s"', 'column = "temp", unit = "s"'))
    requeue.run(settings, spark, "readings", ["no_event_time"])
    left = rejected_reasons(settings.layout, settings.stream("readings"), [], limit=0)
    assert sum(one["open"] for one in left if one["reason"] == "malformed") == 1
    assert all(one["open"] <= 2 for one in left)
    assert {one["reason"]: (one["rejected"], one["closed"]) for one in left} == {
        "malformed": (1, 0),
        "no_event_time": (2, 2),
        "out_of_bounds": (2, 0),
    }
    build_rollups.run(settings, spark, "readings")
    publish.run(settings, spark, unchecked=True)
    (found,) = status(layout)["streams"]
    assert (found["received"], found["requeued"], found["open"], found["closed"]) == (4, 2, 3, 2)
    assert found["quarantined"] == found["open"] + found["closed"]
    assert PublishedQuarantine(layout)() == [
        ("readings", "malformed", 1, 0),
        ("readings", "no_event_time", 0, 2),
        ("readings", "out_of_bounds", 2, 0),
    ]
    shown = CliRunner().invoke(app, [*asked[:-1], "no_event_time"]).stdout
    assert "no rejected record is open" in shown and "tidemark requeue" not in shown
