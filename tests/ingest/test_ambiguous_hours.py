"""Rows of the hour that comes twice, which nothing places: answers over it hold them, and say so; no JVM."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch
from zoneinfo import ZoneInfo

import pytest

from jobs import accept_loss, build_rollups, ingest, maintain, publish, requeue
from lakehouse.cli.app import call
from lakehouse.ingest import ingest as ingesting
from lakehouse.serving.ask.ask import ask
from lakehouse.serving.ask.doubt import doubts
from lakehouse.serving.ask.question import Answer, AskError, Question
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.settings import load_settings
from lakehouse.spark.session import build_session
from lakehouse.web.prometheus.evaluate import evaluated
from lakehouse.web.prometheus.promql import RangeQuestion, parsed
from lakehouse.web.questions import ask_rows
from tests.support.crash_points import AMBIGUOUS_POINTS
from tests.support.table_rows import table_rows

CONFIG = """
home = "var"
[streams.readings]
event_time = {{ column = "at", unit = "iso", timezone = "{zone}" }}
keys = ["room"]
measures = ["kwh", "heat", "meter"]
counters = ["meter"]
groupings = [["room"], []]
levels = ["15m for 7d", "1d forever"]
{options}
source = {{ path = "land/*.csv", format = "csv", settle = 0 }}
columns = {{ at = "string", kwh = "int", heat = "double", meter = "int" }}
"""
CHANGE = datetime(2025, 10, 26, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
MEASURES = {"sum": "kwh", "count": "*", "avg": "heat", "min": "kwh", "max": "heat", "increase": "meter"}


class Rooms:
    """A home with one stream of readings by the clocks of a zone."""

    def __init__(self, folder: Path, zone: str = "Europe/Berlin", options: str = "") -> None:
        self.folder, self.zone = folder, ZoneInfo(zone)
        (folder / "land").mkdir(parents=True, exist_ok=True)
        self.declare(zone, options)

    def declare(self, zone: str, options: str = "") -> None:
        (self.folder / "tidemark.toml").write_text(CONFIG.format(zone=zone, options=options))
        self.settings = load_settings(self.folder / "tidemark.toml")
        self.spark = build_session(self.settings)

    def land(self, name: str, moments: list[datetime], offset: str = "") -> None:
        """Land a row for each moment, by the clocks; the first of them holds 1, the second 2."""
        times = [f"{moment.astimezone(self.zone):%Y-%m-%d %H:%M:%S}{offset}" for moment in moments]
        rows = [f"{time},a,{n},{n / 8},{10 * n}" for n, time in enumerate(times, 1)]
        (self.folder / "land" / name).write_text("\n".join(["at,room,kwh,heat,meter", *rows, ""]))

    def run(self) -> None:
        ingest.run(self.settings, self.spark, "readings")
        self.publish()

    def publish(self) -> None:
        build_rollups.run(self.settings, self.spark, "readings")
        publish.run(self.settings, self.spark, unchecked=True)

    def ask(self, agg: str, low: datetime, high: datetime, **options: bool) -> Answer:
        (found,) = ask(self.settings.home, "readings", MEASURES[agg], agg, low, high, **options)  # type: ignore[arg-type]
        return found

    def doubts(self, low: datetime, high: datetime) -> list[str]:
        start, end = (round(each.timestamp() * 10**6) for each in (low, high))
        with open_published(self.settings.home) as published:
            return doubts(published.connection, Question("readings", "*", "count", start, end))


@pytest.fixture(autouse=True, scope="module")
def unsynced() -> Iterator[None]:
    """No power is cut here, and waiting for the disk takes most of the time."""
    with patch("os.fsync"):
        yield


def rooms_of_hours(folder: Path) -> Rooms:
    """Publish rows once an hour, whose times never step back: the fourth and the fifth show 02:00."""
    rooms = Rooms(folder)
    rooms.land("a.csv", [CHANGE + n * HOUR for n in range(-4, 4)])
    rooms.run()
    return rooms


@pytest.fixture(scope="module")
def hourly(tmp_path_factory: pytest.TempPathFactory) -> Rooms:
    """Such rows, for questions."""
    return rooms_of_hours(tmp_path_factory.mktemp("hourly"))


@pytest.fixture
def changing(tmp_path: Path) -> Rooms:
    """The same, for changes."""
    return rooms_of_hours(tmp_path)


DAY = (CHANGE - 12 * HOUR, CHANGE + 12 * HOUR)


@pytest.mark.parametrize("low", [DAY[0], CHANGE - HOUR, CHANGE])
@pytest.mark.parametrize("agg", MEASURES)
def test_an_answer_over_a_double_hour_is_not_exact_and_holds_the_rows_that_nothing_places(
    hourly: Rooms, agg: str, low: datetime
) -> None:
    found = hourly.ask(agg, low, DAY[1])

    # Whatever moments the two rows mean, the truth has the others and any of the two.
    inside = [n for n in range(1, 9) if n not in (4, 5) and CHANGE + (n - 5) * HOUR >= low]
    truths = [[*inside, *more] for more in ([], [4], [5], [4, 5])]
    of_aggregates: dict[str, list[float]] = {
        "sum": [sum(each) for each in truths],
        "count": [len(each) for each in truths],
        "avg": [sum(each) / len(each) / 8 for each in truths],
        "min": [min(each) for each in truths],
        "max": [max(each) / 8 for each in truths],
        "increase": [10 * (max(each) - min(each)) for each in truths],
    }
    values = of_aggregates[agg]
    assert found.low is not None and found.high is not None
    assert found.low <= min(values) <= max(values) <= found.high
    if agg in ("sum", "count", "min", "max"):
        assert (found.low, found.high) == (min(values), max(values))
    assert (found.exact, found.final, found.ambiguous, found.unchecked) == (False, False, 2, 0)
    with pytest.raises(AskError, match=r"2 rows of 2025-10-26 02:00-03:00 Europe/Berlin, which comes twice"):
        hourly.ask(agg, low, DAY[1], exact=True)


def test_answers_beside_a_double_hour_stay_exact(hourly: Rooms) -> None:
    for low, high in ((DAY[0], CHANGE - HOUR), (CHANGE + HOUR, DAY[1])):
        found = hourly.ask("sum", low, high)
        assert (found.exact, found.ambiguous, found.low) == (True, 0, found.high)
        assert hourly.doubts(low, high) == []


def test_the_sentence_names_the_hour_and_what_ends_the_doubt(hourly: Rooms) -> None:
    (told,) = hourly.doubts(*DAY)

    assert told.startswith("2 rows of 2025-10-26 02:00-03:00 Europe/Berlin, which comes twice, in quarantine")
    assert told.endswith(
        "Land them with an offset, then `tidemark accept-loss readings --reason ambiguous_time`"
    )


def test_every_surface_says_why_an_answer_is_not_exact(
    hourly: Rooms, capsys: pytest.CaptureFixture[str]
) -> None:
    start, end = (round(each.timestamp() * 10**6) for each in DAY)
    begins = "2 rows of 2025-10-26 02:00-03:00 Europe/Berlin"
    home = ["--home", str(hourly.settings.home)]
    times = ["--from", f"{DAY[0]:%Y-%m-%dT%H:%M}", "--to", f"{DAY[1]:%Y-%m-%dT%H:%M}"]
    assert call([*home, "ask", "readings", "kwh", "--agg", "sum", *times]) == 0
    assert begins in " ".join(capsys.readouterr().out.split())
    with open_published(hourly.settings.home) as published:
        document = ask_rows(published, Question("readings", "kwh", "sum", start, end))
        row = dict(zip(document.columns, document.rows[0], strict=True))
        assert (row["exact"], row["final"], row["ambiguous"]) == (False, False, 2)
        assert document.about["doubts"][0].startswith(begins)
        asked = parsed("sum_over_time(readings:kwh[1d])")
        assert isinstance(asked, RangeQuestion)
        assert any(each.startswith(begins) for each in evaluated(published, asked, [end]).warnings)
        rows = published.connection.execute(
            f"SELECT low, high, exact, ambiguous FROM range_sum('readings', 'kwh', '{DAY[0]}', '{DAY[1]}')"
        )
        assert rows.fetchall() == [(27.0, 36.0, False, 2)]


def test_rows_of_both_years_and_of_a_range_without_any_other_row_are_held(tmp_path: Path) -> None:
    rooms = Rooms(tmp_path)
    earlier = datetime(2024, 10, 27, 1, tzinfo=UTC)
    rooms.land("a.csv", [earlier, CHANGE])
    rooms.run()

    both = rooms.ask("sum", earlier - HOUR, CHANGE + HOUR)
    assert (both.value, both.low, both.high, both.exact, both.ambiguous) == (None, 0, 3, False, 2)
    for agg, low, high in (("count", 0, 1), ("avg", 0.25, 0.25), ("min", 2, 2), ("max", 0.25, 0.25)):
        one = rooms.ask(agg, CHANGE - HOUR, CHANGE + HOUR)
        assert one.low is not None and one.high is not None
        assert (one.low, one.high) == pytest.approx((low, high)), agg
        assert not one.exact
    (told,) = rooms.doubts(earlier - HOUR, CHANGE + HOUR)
    assert re.match(r"2 rows of 2024-10-27 02:00-03:00, 2025-10-26 02:00-03:00 Europe/Berlin,", told)


def test_rows_landed_with_an_offset_and_the_loss_accepted_make_the_answer_exact(changing: Rooms) -> None:
    changing.land("first.csv", [CHANGE - HOUR], "+02:00")
    changing.land("second.csv", [CHANGE], "+01:00")
    changing.run()
    assert changing.ask("sum", *DAY).ambiguous == 2

    lost = accept_loss.close(changing.settings, changing.spark, "readings", ["ambiguous_time", "clock"])
    changing.publish()

    assert lost == {"lost": 2, "reasons": {"ambiguous_time": 2}}
    found = changing.ask("sum", *DAY)
    assert (found.value, found.low, found.high, found.exact, found.ambiguous) == (29, 29, 29, True, 0)
    again = accept_loss.close(changing.settings, changing.spark, "readings", ["ambiguous_time"])
    assert again == {"lost": 0, "reasons": {}}
    maintain.run(changing.settings, changing.spark, "readings")
    assert table_rows(changing.settings.layout.unchecked("readings"), "batch") == []
    requeue.run(changing.settings, changing.spark, "readings")
    changing.publish()
    assert changing.ask("sum", *DAY).exact


def test_a_requeue_keeps_the_mark_until_the_rows_have_one_moment(changing: Rooms) -> None:
    requeue.run(changing.settings, changing.spark, "readings")
    changing.publish()
    found = changing.ask("sum", *DAY)
    assert (found.ambiguous, found.low, found.high) == (2, 27, 36)

    changing.declare("UTC")
    requeue.run(changing.settings, changing.spark, "readings", ["ambiguous_time"])
    changing.publish()

    found = changing.ask("sum", *DAY)
    assert (found.value, found.exact, found.ambiguous, changing.doubts(*DAY)) == (36, True, 0, [])


def test_maintenance_joins_what_is_open_and_removes_what_is_closed(changing: Rooms) -> None:
    changing.land("b.csv", [CHANGE])
    changing.run()
    maintain.run(changing.settings, changing.spark, "readings")
    changing.publish()
    assert (changing.ask("sum", *DAY).high, changing.ask("sum", *DAY).ambiguous) == (37, 3)

    requeue.run(changing.settings, changing.spark, "readings")
    for _ in range(2):
        changing.publish()
        assert (changing.ask("sum", *DAY).high, changing.ask("sum", *DAY).ambiguous) == (37, 3)
        maintain.run(changing.settings, changing.spark, "readings")


class Died(BaseException):
    """The process was killed."""


@pytest.mark.parametrize("point", [*AMBIGUOUS_POINTS, "ingest.quarantine-appended"])
def test_an_ingest_that_is_killed_marks_its_rows_once(
    tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms = Rooms(tmp_path)
    rooms.land("a.csv", [CHANGE + n * HOUR for n in range(-4, 4)])

    def die(name: str) -> None:
        if name == point:
            raise Died

    with monkeypatch.context() as patched:
        patched.setattr(ingesting, "crash_point", die)
        with pytest.raises(Died):
            ingest.run(rooms.settings, rooms.spark, "readings")
    # The file is gone when the batch is read again.
    if point != "ingest.ambiguous-appended":
        (tmp_path / "land" / "a.csv").unlink()
    rooms.run()

    found = rooms.ask("count", *DAY)
    assert (found.exact, found.ambiguous) == (False, 2)


def test_wrong_values_of_an_ambiguous_row_widen_no_interval(tmp_path: Path) -> None:
    rooms = Rooms(tmp_path)
    rows = ["2025-10-26 02:10,a,x,1,1", "2025-10-26 02:20,a,5,,1", "2025-10-26 12:00,a,1,1,1"]
    (tmp_path / "land" / "a.csv").write_text("\n".join(["at,room,kwh,heat,meter", *rows, ""]))
    rooms.run()

    assert (rooms.ask("sum", *DAY).high, rooms.ask("sum", *DAY).ambiguous) == (6, 1)
    assert rooms.ask("count", *DAY).ambiguous == 2
