from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakehouse.home.heartbeats import SILENT_S, Beat, read_beats, write_beat
from lakehouse.home.layout import Home
from lakehouse.home.outcomes import read_all

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def beat(state: str = "running", age_s: float = 1.0, stream: str = "lora") -> Beat:
    return Beat(
        "bridge", stream, state, (NOW - timedelta(seconds=age_s)).isoformat(), NOW.isoformat(), messages=7
    )


def test_the_last_beat_of_each_is_told_with_its_age(tmp_path: Path) -> None:
    layout = Home(tmp_path)
    write_beat(layout, beat(age_s=9))
    write_beat(layout, beat(age_s=2))
    write_beat(layout, beat(stream="air"))

    found = read_beats(layout, NOW)

    assert [(one["stream"], one["state"], one["age_s"]) for one in found] == [
        ("air", "running", 1.0),
        ("lora", "running", 2.0),
    ]
    assert not list(tmp_path.rglob(".*"))


@pytest.mark.parametrize(
    ("state", "told"),
    [("running", "silent"), ("connecting", "silent"), ("stopped", "stopped"), ("failed", "failed")],
)
def test_one_that_should_go_on_and_says_nothing_is_silent(tmp_path: Path, state: str, told: str) -> None:
    write_beat(Home(tmp_path), beat(state, age_s=SILENT_S + 1))

    assert read_beats(Home(tmp_path), NOW)[0]["state"] == told


def test_a_file_that_is_no_beat_is_told_as_silent(tmp_path: Path) -> None:
    layout = Home(tmp_path)
    layout.live.mkdir(parents=True)
    (layout.live / "bridge-lora.json").write_text("half of a")

    [found] = read_beats(layout, NOW)

    assert (found["stream"], found["state"]) == ("lora", "silent") and "expected a sign of life" in found[
        "note"
    ]


def test_beats_are_no_outcomes_of_jobs(tmp_path: Path) -> None:
    write_beat(Home(tmp_path), beat())

    assert read_all(Home(tmp_path)) == []
