"""Messages of the ingest on files that it does not read, and on a landing folder that gives it none."""

from __future__ import annotations

import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobs import ingest, requeue
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.settings import load_settings
from lakehouse.storage.stores.store_access import StoreUnavailable
from lakehouse.storage.tables.table_log import read_rows
from tests.ingest.no_session import no_session
from tests.ingest.sources.test_unmatched import make_too_deep

if TYPE_CHECKING:
    pass

ROWS = "ts,device,temp\n" + "".join(f"2026-01-0{day}T00:00:00Z,a,1.0\n" for day in range(1, 9))
DECLARED = """
home = "var"
[streams.readings]
event_time = {{ column = "ts", unit = "iso" }}
keys = ["device"]
measures = ["temp"]
levels = ["1d forever"]
{options}
[streams.readings.source]
path = "{path}"
format = "csv"
settle = 0
[streams.readings.columns]
device = "string"
ts = "string"
temp = "double"
{columns}
"""


def project(folder: Path, options: str = "", path: str = "landing/*.csv*", columns: str = "") -> Path:
    (folder / "landing").mkdir(parents=True)
    text = DECLARED.format(options=options, path=path, columns=columns)
    (folder / "tidemark.toml").write_text(text)
    return folder


def run(folder: Path) -> dict[str, Any]:
    settings = load_settings(folder / "tidemark.toml", None)
    return ingest.run(settings, no_session(settings), "readings")


def ledger(folder: Path) -> list[dict[str, Any]]:
    layout = load_settings(folder / "tidemark.toml", None).layout
    return sorted(read_rows(layout.ledger("readings")), key=lambda row: row["batch"])


@pytest.mark.parametrize("options", ["", 'identity = ["device", "ts"]\nkeep_raw = "2d"'])
def test_a_project_that_is_moved_is_not_read_again(tmp_path: Path, options: str) -> None:
    before = project(tmp_path / "a", options)
    (before / "landing" / "1.csv").write_text(ROWS)
    assert run(before)["accepted"] == 8

    before.rename(tmp_path / "b")
    os.utime(tmp_path / "b" / "landing" / "1.csv", (7, 7))
    found = run(tmp_path / "b")

    assert (found["files"], found["accepted"], found.get("standing")) == (0, 0, None)


def test_a_rotated_log_without_an_identity_is_counted_once_and_told_of(tmp_path: Path) -> None:
    home = project(tmp_path / "a")
    log = home / "landing" / "log.csv"
    log.write_text(ROWS)
    run(home)

    log.rename(home / "landing" / "log.csv.1")
    log.write_text("ts,device,temp\n2026-01-09T00:00:00Z,a,1.0\n")
    found = run(home)

    rows = ledger(home)
    assert sum(row["accepted"] for row in rows) == 8 and found["repeated_files"] == 1
    assert rows[-1]["repeated_files"] == [
        "log.csv.1 has the content of log.csv read in batch 1; not read again"
    ]
    assert found["standing"] == ["log.csv changed after it was read, not read again; give it a new name"]


def listed(home: Path) -> None:
    """Let an ingest end behind its manifests."""
    settings = load_settings(home / "tidemark.toml", None)
    ManifestStore(settings.layout.manifests("readings")).add_files(settings.streams["readings"].source)


def test_a_file_that_is_swapped_behind_its_manifest_is_rejected_and_the_others_are_read(
    tmp_path: Path,
) -> None:
    home = project(tmp_path / "a")
    landing = home / "landing"
    for name, month in (("1.csv", "-01-"), ("2.csv", "-02-"), ("3.csv", "-03-")):
        (landing / name).write_text(ROWS.replace("-01-", month))
    listed(home)
    (landing / "other").write_text(ROWS.replace("-01-", "-04-"))
    (landing / "other").rename(landing / "2.csv")

    found = run(home)

    assert (found["received"], found["accepted"], found["quarantined"]) == (17, 16, 1)
    [row] = read_rows(load_settings(home / "tidemark.toml", None).layout.quarantine("readings"))
    said = "it changed after it was listed, and is not read: give it a new name"
    assert (row["source_file"], row["reason"], row["detail"]) == ("2.csv", "unreadable_file", said)
    # Neither content was read: each is under a new name.
    (landing / "2.csv").rename(landing / "4.csv")
    (landing / "5.csv").write_text(ROWS.replace("-01-", "-02-"))
    assert run(home)["accepted"] == 16


def test_a_log_that_is_rotated_behind_its_manifest_is_read_under_its_new_name(tmp_path: Path) -> None:
    home = project(tmp_path / "a")
    log = home / "landing" / "log.csv"
    log.write_text(ROWS)
    listed(home)
    log.rename(home / "landing" / "log.csv.1")
    log.write_text("ts,device,temp\n2026-01-09T00:00:00Z,a,1.0\n")

    found = run(home)

    assert (found["accepted"], found["quarantined"], found["repeated_files"]) == (8, 1, 0)
    assert found["standing"] == ["log.csv changed after it was read, not read again; give it a new name"]


@pytest.mark.parametrize("options", ["", 'identity = ["device", "ts"]'])
@pytest.mark.parametrize("rotated", ["log.csv.1", "log.csv-20260109", "log-2026-01-09T00.csv", "log_1.csv"])
def test_of_a_log_that_was_rotated_after_it_had_grown_the_rest_is_taken_in(
    tmp_path: Path, options: str, rotated: str
) -> None:
    home = project(tmp_path / "a", options)
    log = home / "landing" / "log.csv"
    log.write_text(ROWS + "2026-01-09,a,wrong\n")
    run(home)

    more = "2026-01-10,a,1.0\n2026-01-11,a,wrong too\n"
    log.write_text(log.read_text() + more)
    log.rename(home / "landing" / rotated)
    # Of another log, and of one that begins otherwise.
    (home / "landing" / "other.csv.1").write_text(ROWS.replace("-01-", "-02-"))
    (home / "landing" / "log.csv.2").write_text(ROWS.replace("-01-", "-03-"))
    found = run(home)

    assert (found["received"], found["accepted"]) == (11 + 8 + 8, 1 + 8 + 8)
    assert (found["quarantined"], found["duplicates"], found["repeated_files"]) == (1, 9, 1)
    assert ledger(home)[-1]["repeated_files"] == [
        f"{rotated} begins with the content of log.csv read in batch 1; of it the {len(more)} bytes behind that are "
        "taken in"
    ]
    rejected = load_settings(home / "tidemark.toml", None).layout.quarantine("readings")
    places = {(row["source_file"], row["source_line"]) for row in read_rows(rejected)}
    assert places == {("log.csv", 10), (rotated, 12)}


@pytest.mark.parametrize(
    ("cut", "more", "accepted"),
    [
        ("2026-01-09,a,1.2", "5\n2026-01-10,a,1.0\n", 2),
        ("2026-01-09,a,1.2", "\n2026-01-10,a,1.0\n", 1),
        ("2026-01-09,a,1.2", "\r\n2026-01-10,a,1.0\n", 1),
    ],
)
def test_a_line_that_was_cut_when_a_log_was_read_is_taken_in_whole(
    tmp_path: Path, cut: str, more: str, accepted: int
) -> None:
    home = project(tmp_path / "a")
    log = home / "landing" / "log.csv"
    log.write_text(ROWS + cut)
    run(home)

    (home / "landing" / "log.csv.1").write_bytes((ROWS + cut + more).encode())
    log.unlink()

    assert run(home)["accepted"] == accepted


def test_a_rotated_log_is_taken_in_whole_where_its_name_holds_another_value(tmp_path: Path) -> None:
    home = project(tmp_path / "a", columns="room = { type = \"string\", file = 'csv(.*)' }")
    (home / "landing" / "log.csv").write_text(ROWS)
    run(home)

    (home / "landing" / "log.csv.1").write_text(ROWS + "2026-01-09,a,1.0\n")

    assert run(home)["accepted"] == 9


def test_rows_of_a_file_met_again_are_duplicates_where_they_have_an_identity(tmp_path: Path) -> None:
    home = project(tmp_path / "a", 'identity = ["device", "ts"]')
    for name in ("1.csv", "2.csv"):
        (home / "landing" / name).write_text(ROWS)

    found = run(home)

    assert (found["accepted"], found["duplicates"], found["repeated_files"]) == (8, 8, 1)


def test_files_of_one_content_are_no_repeats_where_their_names_hold_values(tmp_path: Path) -> None:
    home = project(tmp_path / "a", columns="room = { type = \"string\", file = 'room_(.+)\\.csv' }")
    for name in ("room_1.csv", "room_2.csv"):
        (home / "landing" / name).write_text(ROWS)

    found = run(home)

    assert (found["accepted"], found["repeated_files"]) == (16, 0)


def test_a_name_may_hold_values_in_folders_above_the_landing_folder(tmp_path: Path) -> None:
    home = project(tmp_path / "room_7", columns="room = { type = \"string\", file = 'room_([0-9]+)/' }")
    (home / "landing" / "1.csv").write_text(ROWS)

    run(home)

    layout = load_settings(home / "tidemark.toml", None).layout
    found = {(row["room"], row["source_file"]) for row in read_rows(layout.raw("readings"))}
    assert found == {("7", "1.csv")}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (
            "landing/zzz/*.csv",
            "there is no folder {0}/landing/zzz; {0}/landing holds 2 entries, such as 1.CSV, x/",
        ),
        ("landing/*.csv", "the folder holds 2 entries, such as 1.CSV, x/"),
        ("landing/x/*.csv", "the folder holds nothing"),
    ],
)
def test_a_path_that_no_file_matches_is_told_of_with_what_the_folder_holds(
    tmp_path: Path, path: str, said: str
) -> None:
    home = project(tmp_path / "a", path=path)
    (home / "landing" / "x").mkdir()
    (home / "landing" / "1.CSV").write_text(ROWS)

    [found] = run(home)["standing"]

    assert found == f"no file matches {home}/{path}; {said.format(home)}"


def test_a_folder_that_was_read_and_is_empty_by_now_is_as_it_should_be(tmp_path: Path) -> None:
    home = project(tmp_path / "a")
    (home / "landing" / "1.csv").write_text(ROWS)
    run(home)
    (home / "landing" / "1.csv").unlink()
    assert "standing" not in run(home)


def test_a_folder_that_cannot_be_listed_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    home = project(tmp_path / "a", path="landing/**/*.csv")
    (home / "landing" / "1.csv").write_text(ROWS)
    make_too_deep(home / "landing")

    for accepted in (8, 0):
        found = run(home)

        [sentence] = found["standing"]
        assert sentence.startswith(f"{home}/landing/xxx")
        assert sentence.endswith("x cannot be listed: File name too long; none of its files is read")
        assert found["accepted"] == accepted


class _Denying(BaseHTTPRequestHandler):
    """A store that lets nobody list."""

    def do_GET(self) -> None:
        body = b"<Error><Code>AccessDenied</Code></Error>"
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def test_a_store_that_denies_listing_fails_the_job_with_what_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "any")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Denying) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        home = project(tmp_path / "a", path='s3://rooms/in/*.csv"\nendpoint = "' + address)

        with pytest.raises(StoreUnavailable) as denied:
            run(home)

        server.shutdown()
    said = f"s3://rooms: {address} refuses (AccessDenied); listing it takes s3:ListBucket"
    assert str(denied.value) == said


@pytest.mark.parametrize("is_touched", [False, True])
def test_a_requeue_reads_headers_as_the_declaration_cuts_them_now(tmp_path: Path, is_touched: bool) -> None:
    home = project(tmp_path / "a")
    file, config = home / "landing" / "1.csv", home / "tidemark.toml"
    file.write_text(ROWS.replace(",", ";"))
    gone = home / "landing" / "2.csv"
    gone.write_text(ROWS.replace(",", ";").replace(";a;", ";b;"))
    assert (found := run(home))["quarantined"] == 16, found

    config.write_text(config.read_text().replace('format = "csv"', 'format = "csv"\nseparator = ";"'))
    gone.unlink()
    if is_touched:
        os.utime(file, (7, 7))
    settings = load_settings(config, None)
    found = requeue.run(settings, no_session(settings), "readings")

    assert (found["requeued"], found["accepted"], found["quarantined"]) == (16, 8, 8)
