"""Local times that the clocks of a zone show twice, or never: none is placed at a moment that it may not mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.declare.settings import load_settings
from tests.readings_lake import Lake
from tests.streams.no_session import no_session

CONFIG = """
home = "var"
[streams.readings]
event_time = {{ column = "at", unit = "iso", timezone = "{zone}" }}
measures = ["kwh"]
levels = ["15m for 7d", "1d forever"]
source = {{ path = "landing/*", format = "csv", settle = 0 }}
columns.at = "string"
columns.kwh = "int"
"""


@pytest.mark.parametrize(
    ("zone", "good", "twice", "never"),
    [
        (
            "Europe/Berlin",
            {
                "2025-10-26 01:59:59": 1_761_436_799,
                "2025-10-26 03:00:00": 1_761_444_000,
                "2025-10-26T02:30:00+02:00": 1_761_438_600,
                "2025-10-26T02:30:00+01:00": 1_761_442_200,
                "2025-03-30 01:59:59": 1_743_296_399,
                "2025-03-30 03:00:00": 1_743_296_400,
            },
            ["2025-10-26 02:00:00", "2025-10-26T02:59:59.999999"],
            ["2025-03-30 02:00:00", "2025-03-30T02:59:59"],
        ),
        # Half an hour, in the other half of the year.
        (
            "Australia/Lord_Howe",
            {"2025-04-06 01:29:59": 1_743_863_399, "2025-04-06 02:00:00": 1_743_867_000},
            ["2025-04-06 01:30:00", "2025-04-06 01:59:59"],
            ["2025-10-05 02:00:00", "2025-10-05 02:29:59"],
        ),
        ("Asia/Kolkata", {"2025-10-26 02:30:00": 1_761_426_000}, [], []),
    ],
)
def test_only_local_times_that_mean_one_moment_are_accepted(
    tmp_path: Path, zone: str, good: dict[str, int], twice: list[str], never: list[str]
) -> None:
    (tmp_path / "tidemark.toml").write_text(CONFIG.format(zone=zone))
    settings = load_settings(tmp_path / "tidemark.toml")
    stream = Lake(no_session(settings), settings)
    stream.land("a.csv", "at,kwh\n" + "".join(f"{time},1\n" for time in (*good, *twice, *never)))
    stream.ingest()

    accepted = {time: event_us for time, event_us in stream.rows("raw", "at", "event_us")}
    assert accepted == {time: seconds * 10**6 for time, seconds in good.items()}
    told = f"in {zone}; expected an offset, such as +01:00"
    assert stream.rows("quarantine", "reason", "detail") == sorted(
        [("ambiguous_time", f"at is '{time}', which comes twice {told}") for time in twice]
        + [("skipped_time", f"at is '{time}', which the clocks skip {told}") for time in never],
        key=repr,
    )
