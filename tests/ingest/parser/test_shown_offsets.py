"""Offsets of the rows of a file, in however many blocks it is read, beside the rule row by row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from lakehouse.algorithms.ingest.double_hour import FIRST, SECOND, double_hours
from lakehouse.ingest.parser.parser import Parser
from lakehouse.ingest.sources import lines
from lakehouse.ingest.sources.lines import parsed_file
from lakehouse.ingest.sources.manifest import LandedFile
from lakehouse.settings import load_settings
from tests.oracles.ingest.double_hour_by_row import passes_by_row

CONFIG = """
[streams.s]
event_time = { column = "at", unit = "iso", timezone = "Europe/Berlin" }
keys = ["room"]
levels = ["1d forever"]
source = { path = "landing/*", format = "csv" }
columns = { at = "string", room = "string" }
"""
# 2026-10-25 02:00, by the clocks.
BEGIN = 1_792_893_600_000_000
MINUTE = 60_000_000
(HOUR,) = double_hours("Europe/Berlin", np.array([BEGIN]))
OFFSETS = {FIRST: "+02:00", SECOND: "+01:00"}
# Those that Arrow reads, and one that is read alone.
FORMS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M")


def file_of(random: np.random.Generator) -> list[tuple[int, int | None]]:
    """Return rows, a room and a local time or none, in order or nearly so."""
    count = int(random.integers(0, 200))
    minutes = np.sort(random.choice([random.integers(-2000, 2000, count), random.integers(-200, 200, count)]))
    walls = BEGIN + np.where(minutes >= 60, minutes - 60, minutes) * MINUTE
    if count > 2 and random.random() < 0.3:
        walls[[0, 1]] = walls[[1, 0]]
    rooms = random.integers(0, 2, count).tolist()
    return [
        (room, None if random.random() < 0.05 else wall)
        for room, wall in zip(rooms, walls.tolist(), strict=True)
    ]


def text_of(row: int, wall: int | None) -> str:
    """Return a local time as one of the forms has it."""
    if wall is None:
        return "n/a"
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=wall)).strftime(FORMS[row % len(FORMS)])


def expected(rows: list[tuple[int, int | None]]) -> list[str | None]:
    """Return the text of the time of each row as it is stored, None of one that is rejected."""
    timed = [(room, wall) for room, wall in rows if wall is not None]
    shown = iter(passes_by_row(timed, HOUR))
    texts = list[str | None]()
    for number, (_, wall) in enumerate(rows):
        is_double = wall is not None and HOUR.begin_us <= wall < HOUR.end_us
        offset = OFFSETS.get(next(shown)) if wall is not None else None
        is_lost = wall is None or (is_double and offset is None)
        texts.append(None if is_lost else text_of(number, wall) + (offset or ""))
    return texts


@pytest.mark.parametrize("seed", range(20))
def test_rows_get_the_offsets_that_their_own_source_shows_in_however_many_blocks(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(seed)
    monkeypatch.setattr(lines, "BATCH_LINES", int(random.integers(1, 60)))
    (tmp_path / "tidemark.toml").write_text(CONFIG)
    (tmp_path / "landing").mkdir()
    stream = load_settings(tmp_path / "tidemark.toml").stream("s")
    kinds = set()
    for _ in range(10):
        rows = file_of(random)
        text = "".join(f"{text_of(n, wall)},{room}\n" for n, (room, wall) in enumerate(rows))
        (tmp_path / "landing" / "a").write_text(f"at,room\n{text}")
        parser = Parser.of(stream, (("at", "room"),))
        stored = [
            at for block in parsed_file(LandedFile("a", 0, 0), 0, parser) for at in block["at"].to_pylist()
        ]

        assert stored == expected(rows)
        kinds |= {at[-6:] for at in stored if at}

    assert {*OFFSETS.values()} <= kinds
