from __future__ import annotations

import re
import socket
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lakehouse.home_checks import Finding, examine_home
from lakehouse.ingest.sources.manifest import LandedFile, Manifest
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.serving.status import status
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.control.outcomes import record
from lakehouse.storage.heartbeats import Heartbeat, write_heartbeat
from lakehouse.storage.layout import Home
from tests.ingest.sources.test_unmatched import make_too_deep
from tests.serving.conftest import Lakehouse
from tests.support.readings import declared

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def _found(layout: Home, now: datetime = NOW) -> dict[str, Finding]:
    return {finding.check: finding for finding in examine_home(layout, None, now)}


def _settings(folder: Path, path: str = "landing/*") -> Settings:
    (folder / "landing").mkdir()
    config = folder / "tidemark.toml"
    config.write_text(declared("csv").replace("landing/*", path))
    return load_settings(config)


def _ended(layout: Home, job: str, ok: bool, at: datetime, error: str | None = None) -> None:
    record(layout, job, "readings", ok, at, 1.0, {}, error)


def test_a_home_whose_jobs_ended_well_is_fine(tmp_path: Path) -> None:
    _ended(Home(tmp_path), "ingest", True, NOW - timedelta(hours=1))

    assert [finding.state for finding in examine_home(Home(tmp_path), None, NOW)] == ["ok"]


def test_a_job_whose_last_run_failed_is_wrong_with_its_error(tmp_path: Path) -> None:
    _ended(Home(tmp_path), "publish", False, NOW - timedelta(hours=1), "no space left\nat a.py")
    _ended(Home(tmp_path), "ingest", True, NOW - timedelta(hours=1))

    found = _found(Home(tmp_path))

    assert list(found) == ["publish of readings"]
    assert found["publish of readings"].state == "wrong"
    assert found["publish of readings"].found.endswith(": no space left")


def test_a_home_without_a_run_for_days_stands_still(tmp_path: Path) -> None:
    _ended(Home(tmp_path), "ingest", True, NOW - timedelta(days=9, hours=1))

    found = _found(Home(tmp_path))["last run"]

    assert (found.state, found.found) == ("warning", "no job has ended for 9 days")


def test_a_clock_before_the_last_run_is_wrong(tmp_path: Path) -> None:
    _ended(Home(tmp_path), "ingest", True, NOW + timedelta(days=1))

    assert _found(Home(tmp_path))["clock"].state == "wrong"


def test_files_that_changed_after_they_were_read_are_named_until_the_next_run(tmp_path: Path) -> None:
    sentence = "a.csv changed after it was read, not read again; give it a new name"
    layout = Home(tmp_path)
    for standing in ([sentence], []):
        figures = {"files": 0, "standing": standing}
        record(layout, "ingest", "t", True, NOW, 1.0, figures, None)
        told = {name: each.found for name, each in _found(layout).items() if each.state == "warning"}
        assert told == ({"files of t": sentence} if standing else {})
        assert [each["what"] for each in status(layout)["standing"]] == standing


def test_a_path_that_no_file_matches_is_named_with_what_the_folder_holds(tmp_path: Path) -> None:
    settings = _settings(tmp_path, "landing/*.csv")
    (tmp_path / "landing" / "a.CSV").write_text("")

    found = {each.check: each for each in examine_home(settings.layout, settings, NOW)}

    said = f"no file matches {tmp_path}/landing/*.csv; the folder holds 1 entry, such as a.CSV"
    assert (found["path of readings"].state, found["path of readings"].found) == ("warning", said)


def test_a_folder_that_cannot_be_listed_is_named_whatever_was_read(tmp_path: Path) -> None:
    settings = _settings(tmp_path, "landing/**/*.csv")
    make_too_deep(tmp_path / "landing")

    found = {each.check: each for each in examine_home(settings.layout, settings, NOW)}

    finding = found["folders of readings"]
    assert (finding.state, finding.found.count("cannot be listed: File name too long")) == ("warning", 1)
    assert "path of readings" not in found


def test_a_bridge_that_says_nothing_more_is_wrong(tmp_path: Path) -> None:
    at = NOW.isoformat(timespec="milliseconds")
    write_heartbeat(Home(tmp_path), Heartbeat("bridge", "meters", "running", at, at, 1))

    found = _found(Home(tmp_path))["bridge of meters"]

    assert (found.state, found.found[:12]) == ("wrong", "silent since")
    assert "`tidemark bridge`" in found.fix


def test_landed_files_that_are_gone_before_they_were_read_are_named(tmp_path: Path) -> None:
    settings = _settings(tmp_path)
    (tmp_path / "landing" / "there.csv").write_text("a")
    files = (LandedFile("there.csv", 1, 0), LandedFile("gone.csv", 1, 0))
    ManifestStore(settings.layout.manifests("readings")).put_in_place(Manifest(1, "data", files=files))

    found = {each.check: each for each in examine_home(settings.layout, settings, NOW)}["files of readings"]

    gone = tmp_path / "landing" / "gone.csv"
    assert (found.state, found.found) == ("warning", f"gone before they were read: {gone}")


def test_quarantine_shares_and_times_ahead_of_the_clock_are_told(lakehouse: Lakehouse) -> None:
    found = _found(lakehouse.home, datetime(1970, 1, 1, tzinfo=UTC) - timedelta(days=3))

    assert "bad_value 6" in found["quarantine of deep"].found
    assert found["quarantine of deep"].state in ("warning", "wrong")
    assert "3d ahead of this machine" in found["clock of deep"].found


def test_a_broker_that_does_not_answer_is_told_of_before_the_first_run(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    text = declared().replace(
        'path = "landing/*"', f'kind = "kafka"\nservers = ["127.0.0.1:{port}"]\ntopics = ["a"]'
    )
    config = tmp_path / "tidemark.toml"
    config.write_text(re.sub(r"(?m)^settle = .*$", "", text))
    settings = load_settings(config)
    started = time.monotonic()

    [found] = examine_home(settings.layout, settings, NOW)

    assert (found.check, found.state) == ("topics of readings", "wrong")
    assert found.found.startswith(f"Kafka at 127.0.0.1:{port}: ") and "\n" not in found.found
    assert time.monotonic() - started < 12
