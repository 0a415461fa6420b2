from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakehouse.ingest.sources.manifest import SET_ASIDE, LandedFile, Manifest, OffsetRange
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.serving.status import lateness_quantile, status
from lakehouse.storage.control.outcomes import record
from lakehouse.storage.layout import Home
from tests.serving.conftest import STREAMS, Lakehouse


def test_every_stream_tells_its_rows_levels_and_quarantine(lakehouse: Lakehouse) -> None:
    found = status(lakehouse.home)

    deep = next(stream for stream in found["streams"] if stream["stream"] == "deep")
    assert deep["rows"] == len(STREAMS["deep"].rows)
    assert deep["quarantine"] == {"bad_value": 6, "malformed": 1}
    assert [level["horizon_us"] for level in deep["levels"]][:3] == STREAMS["deep"].horizons[:3]
    assert deep["levels"][3]["to_us"] > STREAMS["deep"].newest_us
    assert (deep["late"], deep["duplicates"], deep["lateness_max_us"]) == (9, 3, 7500)
    # Of those that came, which no retraction makes fewer.
    assert deep["late_share"] == 9 / deep["accepted"]
    assert deep["schema_changes"][0]["change"] == "b.ndjson: gained volts"
    assert (deep["lost"], deep["lag"]) == (3 * 42, None)
    lacking = sum(row.temp is None for row in STREAMS["deep"].rows)
    assert deep["missing"] == [
        {"column": "temp", "missing": lacking, "accepted": deep["accepted"], "last_with": None}
    ]


def test_the_ledger_balances_as_published(lakehouse: Lakehouse) -> None:
    deep = next(stream for stream in status(lakehouse.home)["streams"] if stream["stream"] == "deep")

    assert deep["received"] + deep["requeued"] == deep["accepted"] + deep["quarantined"] + deep["duplicates"]


def test_an_empty_stream_has_no_times(lakehouse: Lakehouse) -> None:
    empty = next(stream for stream in status(lakehouse.home)["streams"] if stream["stream"] == "empty")

    assert (empty["rows"], empty["newest"], empty["lateness_p50_us"]) == (0, None, None)


def test_the_version_its_age_and_size_are_told(lakehouse: Lakehouse) -> None:
    published = status(lakehouse.home)["published"]

    assert (published["version"], published["versions"]) == (1, [1])
    assert published["age_s"] >= 0
    assert published["bytes"] > 0


def test_messages_that_wait_are_told_as_of_the_last_ingest(tmp_path: Path) -> None:
    for stream in ("readings", "files"):
        ManifestStore(Home(tmp_path).manifests(stream)).add_requeue(())
    record(Home(tmp_path), "ingest", "readings", True, datetime.now(UTC), 1.0, {"batches": 1, "lag": 7})
    record(Home(tmp_path), "ingest", "files", True, datetime.now(UTC), 1.0, {"batches": 1})

    assert {s["stream"]: s["lag"] for s in status(tmp_path)["streams"]} == {"readings": 7, "files": None}


def test_a_status_is_plain_json(lakehouse: Lakehouse) -> None:
    found = status(lakehouse.home)

    assert json.loads(json.dumps(found)) == found


def test_before_the_first_publish_it_tells_what_waits(tmp_path: Path) -> None:
    ManifestStore(Home(tmp_path).manifests("telemetry")).add_requeue(())

    found = status(tmp_path)

    assert found["published"] is None
    assert found["streams"] == [
        {"stream": "telemetry", "manifests": {"batches": 1, "waiting": 1}, "lag": None, "set_aside": []}
    ]


def test_what_was_set_aside_is_told_with_its_error(tmp_path: Path) -> None:
    store = ManifestStore(Home(tmp_path).manifests("telemetry"))
    file = LandedFile("/landing/a.csv", 1, 1)
    store.put_in_place(Manifest(1, SET_ASIDE, (file,), error="no codec"))
    lost = OffsetRange("t", 0, 5, 6, "id"), OffsetRange("t", 1, 7, 7, "id")
    store.put_in_place(Manifest(2, SET_ASIDE, ranges=lost, error="no schema"))
    store.put_in_place(Manifest(3, SET_ASIDE, error="requeued since"))

    assert status(tmp_path)["streams"][0]["set_aside"] == [
        {"batch": 1, "place": "/landing/a.csv", "error": "no codec"},
        {"batch": 2, "place": "t/0 offset 5", "error": "no schema"},
    ]


def test_a_job_that_failed_is_told_with_its_error(tmp_path: Path) -> None:
    record(
        Home(tmp_path), "publish", "all", False, datetime(2026, 1, 1, tzinfo=UTC), 1.5, {}, "publish refused"
    )

    assert [(job["job"], job["ok"], job["error"]) for job in status(tmp_path)["jobs"]] == [
        ("publish", False, "publish refused")
    ]


@pytest.mark.parametrize(
    ("histogram", "share", "expected"),
    [
        ([], 0.5, None),
        ([0, 0], 0.5, None),
        ([1, 0, 1], 0.5, 2000),
        ([1, 0, 1], 0.95, 7000),
        ([0, 4], 0.5, 4000),
    ],
)
def test_a_lateness_quantile_is_the_upper_end_of_its_bin(
    histogram: list[int], share: float, expected: int | None
) -> None:
    assert lateness_quantile(histogram, share, 7000) == expected
