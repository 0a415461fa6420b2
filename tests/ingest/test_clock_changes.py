"""Local times that the clocks of a zone show twice, or never: none is placed at a moment that it may not mean."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from lakehouse.settings import load_settings
from tests.ingest.no_session import no_session
from tests.support.readings_lake import Lake

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


CHANGE = datetime(2025, 10, 26, 1, tzinfo=UTC)


def quarters(low: int = -8, high: int = 8, form: str = "%Y-%m-%d %H:%M:%S") -> list[str]:
    """Return quarter hours around the change, by the clocks of Berlin."""
    moments = (CHANGE + timedelta(minutes=15 * n) for n in range(low, high))
    return [moment.astimezone(ZoneInfo("Europe/Berlin")).strftime(form) for moment in moments]


def seconds(row: int) -> int:
    """Return the microseconds of the first or a later of these quarter hours."""
    return round((CHANGE + timedelta(minutes=15 * row)).timestamp()) * 10**6


def berlin(tmp_path: Path, options: str = "") -> Lake:
    config = CONFIG.format(zone="Europe/Berlin").replace("columns.kwh", f"{options}\ncolumns.kwh")
    (tmp_path / "tidemark.toml").write_text(config)
    settings = load_settings(tmp_path / "tidemark.toml")
    return Lake(no_session(settings), settings)


@pytest.mark.parametrize(
    "options", ["", 'identity = ["at"]', 'identity = ["*"]', 'keys = ["room"]', 'identity = ["room", "at"]']
)
def test_the_order_of_a_file_shows_the_passes_of_the_double_hour(tmp_path: Path, options: str) -> None:
    stream = berlin(tmp_path, options)
    # Values repeat: only the pass makes rows of the same text two.
    one = [f"{time},{n % 4},a" for n, time in enumerate(quarters())]
    # Of another room the order shows nothing.
    other = [f"{time},7,b" for time in quarters(0, 2)] if "room" in options else []
    lines = [*one[:5], *other[:1], *one[5:], *other[1:]]
    stream.land("a.csv", "\n".join(["at,kwh,room", *lines, ""]))
    stream.land("b.csv", f"at,kwh,room\n{quarters()[5]},9,c\n")
    stream.ingest()

    offsets = ["" if abs(n + 0.5) > 4 else "+01:00" if n >= 0 else "+02:00" for n in range(-8, 8)]
    at = [f"{time}{offset}" for time, offset in zip(quarters(), offsets, strict=True)]
    expected = [(seconds(n - 8), at[n], n % 4) for n in range(16)]
    assert stream.rows("raw", "event_us", "at", "kwh") == expected
    lost = [("ambiguous_time", "a.csv")] * len(other) + [("ambiguous_time", "b.csv")]
    rejected = [
        (reason, Path(file).name) for reason, file in stream.rows("quarantine", "reason", "source_file")
    ]
    assert sorted(rejected) == lost


@pytest.mark.parametrize("form", ["%Y-%m-%dT%H:%M:%S.125", "%Y-%m-%d %H:%M"])
def test_rows_are_judged_by_the_moment_that_the_order_shows(tmp_path: Path, form: str) -> None:
    arrival = 'arrival_time = { column = "got", unit = "s" }\nclock_bounds = { ahead = "1m", behind = "1m" }'
    stream = berlin(tmp_path, arrival)
    got = [seconds(n) // 10**6 for n in range(-8, 8)]
    lines = [f"{time},{n},{got[n]}" for n, time in enumerate(quarters(form=form))]
    lines[6] = lines[6].replace(",6,", ",six,")
    lines[9] = lines[9].replace(str(got[9]), str(got[9] - 3600))
    stream.land("a.csv", "\n".join(["at,kwh,got", *lines, ""]))
    stream.ingest()

    more = 125_000 if "125" in form else 0
    expected = [(seconds(n - 8) + more, n) for n in range(16) if n not in (6, 9)]
    assert stream.rows("raw", "event_us", "kwh") == expected
    assert stream.rows("quarantine", "reason", "source_line") == [("bad_value", 8), ("clock", 11)]


def test_a_row_that_was_ambiguous_in_its_file_stays_so(tmp_path: Path) -> None:
    stream = berlin(tmp_path)
    stream.land("a.csv", "\n".join(["at,kwh", *(f"{time},1" for time in quarters()[4:8]), ""]))
    stream.ingest()

    rejected = stream.rows("quarantine", "reason", "source_line")
    assert rejected == [("ambiguous_time", line) for line in (2, 3, 4, 5)]
    assert stream.rows("raw", "kwh") == []


def test_the_two_hours_of_a_file_that_writes_the_clock_s_time_have_the_sums_of_their_rows(
    tmp_path: Path,
) -> None:
    stream = berlin(tmp_path)
    # Quarter hours of which the values are 1, 2, 3 ...: 5 to 8 and 9 to 12 are those of the double hour.
    rows = "".join(f"{time},{n}\n" for n, time in enumerate(quarters(), 1))
    stream.land("a.csv", f"at,kwh\n{rows}")
    stream.ingest()

    sums = [0, 0]
    for event_us, kwh in stream.rows("raw", "event_us", "kwh"):
        hour = (event_us - seconds(-4)) // 3_600_000_000
        if hour in (0, 1):
            sums[hour] += kwh
    assert sums == [5 + 6 + 7 + 8, 9 + 10 + 11 + 12]
