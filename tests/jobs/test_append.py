"""Files that grow: their new lines alone are read, whole ones, each once."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from jobs import ingest
from lakehouse.config.checks import stream_problems
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.settings import load_settings
from lakehouse.storage.tables.table_log import read_rows
from tests.ingest.no_session import no_session

DECLARED = """
home = "var"
[streams.readings]
event_time = { column = "ts", unit = "iso" }
measures = ["temp"]
levels = ["1d forever"]
[streams.readings.source]
path = "landing/*"
format = "csv"
header = { line = 2, data = 4 }
append = true
[streams.readings.columns]
temp = "double"
"""
HEAD = "a logger\nts,temp\ntime,degC\n"
ROWS = [f"2026-01-{1 + n // 24:02}T{n % 24:02}:00:00Z,{n}.5\n" for n in range(60)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "landing").mkdir()
    (tmp_path / "tidemark.toml").write_text(DECLARED)
    return tmp_path / "landing" / "log.dat"


def run(log: Path) -> dict[str, Any]:
    settings = load_settings(log.parents[1] / "tidemark.toml", None)
    return ingest.run(settings, no_session(settings), "readings")


def taken_in(log: Path) -> list[tuple[int, float]]:
    layout = load_settings(log.parents[1] / "tidemark.toml", None).layout
    return sorted((row["source_line"], row["temp"]) for row in read_rows(layout.raw("readings")))


def grow(log: Path, more: bytes) -> None:
    with log.open("ab") as file:
        file.write(more)


@pytest.mark.parametrize("seed", range(4))
def test_a_file_that_grows_in_any_pieces_gives_each_of_its_lines_once(log: Path, seed: int) -> None:
    content, dice = (HEAD + "".join(ROWS)).encode(), random.Random(seed)
    cuts = sorted(dice.sample(range(1, len(content)), 5))
    received = 0

    for begin, end in zip([0, *cuts], [*cuts, len(content)], strict=True):
        grow(log, content[begin:end])
        for _ in range(dice.randint(1, 2)):
            found = run(log)
            assert (found["quarantined"], found["duplicates"], found["changed_files"]) == (0, 0, 0)
            received += found["received"]

    assert taken_in(log) == [(4 + n, n + 0.5) for n in range(60)]
    assert received == 60


def test_a_line_that_has_not_ended_waits(log: Path) -> None:
    grow(log, (HEAD + ROWS[0] + ROWS[1][:-1]).encode())

    assert run(log)["accepted"] == 1
    assert run(log)["received"] == 0
    grow(log, b"5\n")
    assert run(log)["accepted"] == 1
    assert taken_in(log) == [(4, 0.5), (5, 1.55)]


@pytest.mark.parametrize("rewritten", [HEAD + "".join(ROWS[:2]), HEAD + "".join(reversed(ROWS[:9]))])
def test_a_file_that_shrank_or_was_rewritten_is_not_read_and_told_of(log: Path, rewritten: str) -> None:
    grow(log, (HEAD + "".join(ROWS[:3])).encode())
    run(log)

    log.write_text(rewritten)
    found = run(log)

    assert (found["received"], found["changed_files"]) == (0, 1)
    assert found["standing"] == ["log.dat changed after it was read, not read again; give it a new name"]


def test_a_file_that_grew_is_opened_no_more_often_than_a_new_one(log: Path) -> None:
    grow(log, (HEAD + "".join(ROWS[:3])).encode())
    _opened.clear()
    run(log)
    new = _opened.count(str(log))
    grow(log, ROWS[3].encode())
    _opened.clear()

    assert run(log)["accepted"] == 1
    assert 0 < _opened.count(str(log)) <= new
    grow(log, ROWS[4][:5].encode())
    assert run(log)["received"] == 0
    _opened.clear()
    assert run(log)["received"] == 0
    assert _opened.count(str(log)) == 0


_opened: list[str] = []


def _note(event: str, what: Any) -> None:
    if event == "open":
        _opened.append(str(what[0]))


sys.addaudithook(_note)


def test_what_is_written_between_listing_and_reading_comes_with_the_next_batch(log: Path) -> None:
    grow(log, (HEAD + "".join(ROWS[:3])).encode())
    settings = load_settings(log.parents[1] / "tidemark.toml", None)
    part = settings.layout.manifests("readings")
    assert ManifestStore(part).add_files(settings.stream("readings").source) == 1

    grow(log, "".join(ROWS[3:5]).encode())

    assert (run(log)["accepted"], run(log)["received"]) == (5, 0)
    layout = settings.layout
    assert {row["batch"] for row in read_rows(layout.ledger("readings"))} == {1, 2}


def test_a_log_that_is_rotated_goes_on_under_its_new_name(log: Path) -> None:
    grow(log, (HEAD + "".join(ROWS[:3])).encode())
    run(log)
    grow(log, "".join(ROWS[3:5]).encode())
    log.rename(log.with_name("log.dat.1"))

    found = run(log)

    assert (found["accepted"], found["duplicates"]) == (2, 3)
    assert taken_in(log) == [(4 + n, n + 0.5) for n in range(5)]


def test_a_file_that_cannot_be_read_stops_no_other(log: Path) -> None:
    grow(log, (HEAD + ROWS[0]).encode())
    os.symlink("/etc/hostname", log.with_name("link.dat"))

    found = run(log)

    assert (found["accepted"], found["quarantined"]) == (1, 1)


@pytest.mark.parametrize("change", [{"format": "zeek"}, {"encoding": "utf-16"}, {"path": "s3://a/b/*.csv"}])
def test_only_plain_text_on_this_machine_grows(log: Path, change: dict[str, str]) -> None:
    stream = load_settings(log.parents[1] / "tidemark.toml", None).stream("readings")
    source = stream.source.model_copy(update=change)

    problems = stream_problems(stream.model_copy(update={"source": source}))

    assert any("source.append" in str(each) for each in problems)
