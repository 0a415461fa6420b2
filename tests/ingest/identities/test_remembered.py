"""Repeats of rows that raw no longer has: known for ``duplicates_within``, told and bounded beyond it; no JVM."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs import build_rollups, ingest, maintain, publish
from lakehouse.cli.pages.status_page import print_status
from lakehouse.corrections import corrections
from lakehouse.ingest import ingest as ingesting
from lakehouse.serving.ask.ask import ask
from lakehouse.serving.ask.question import Answer, AskError
from lakehouse.serving.sandbox.sandbox import PublishedReader, open_published
from lakehouse.serving.status import status
from lakehouse.serving.storage_plan import storage_plan
from lakehouse.settings import Settings, load_settings
from lakehouse.spark.session import build_session
from tests.support.crash_points import RETENTION_POINTS, UNCHECKED_POINTS
from tests.support.table_rows import table_rows

POND = """
home = "var"
[streams.pond]
event_time = {{ column = "at", unit = "s" }}
identity = {identity}
keys = ["station"]
measures = ["depth", "flow", "meter"]
counters = ["meter"]
groupings = [["station"], []]
levels = ["1h for 2d", "1d forever"]
{options}
source = {{ path = "land/*.csv", format = "csv", settle = 0 }}
columns = {{ at = "int", depth = "int", flow = "double", meter = "int", number = "string" }}
"""
DAY, T0 = 86_400, 1_767_225_600
US = 1_000_000
Reading = tuple[int, str, int, float, int, str]


class Pond:
    """A home with one stream, and files landed, ingested, published and maintained in it."""

    def __init__(self, folder: Path, options: str, identity: str = '["station", "at"]') -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tidemark.toml").write_text(POND.format(options=options, identity=identity))
        self.settings: Settings = load_settings(folder / "tidemark.toml")
        # Started by what needs it, and nothing here does.
        self.spark = build_session(self.settings)
        self.landed = self.confirmed = 0

    def land(self, readings: Sequence[Reading]) -> None:
        self.landed += 1
        (self.folder / "land").mkdir(exist_ok=True)
        path = self.folder / "land" / f"{self.landed:03d}.csv"
        lines = ["at,station,depth,flow,meter,number", *(",".join(map(str, row)) for row in readings)]
        path.write_text("\n".join(lines) + "\n")

    def ingest(self) -> dict[str, int]:
        return ingest.run(self.settings, self.spark, "pond")

    def run(self, readings: Sequence[Reading] = ()) -> dict[str, int]:
        if readings:
            self.land(readings)
        counts = self.ingest()
        build_rollups.run(self.settings, self.spark, "pond")
        publish.run(self.settings, self.spark, unchecked=True)
        return counts

    def maintain(self) -> None:
        # A batch drops nothing by its own time: one of a rejected record comes after it.
        if self.confirmed < self.landed:
            self.land([(f"no time {self.landed}", "s1", 0, 0.0, 0, "")])  # type: ignore[list-item]
            self.confirmed = self.landed
            self.ingest()
            build_rollups.run(self.settings, self.spark, "pond")
        maintain.run(self.settings, self.spark, "pond")

    def ask(
        self,
        agg: str,
        measure: str = "depth",
        first: float = -1,
        last: float = 400,
        station: str = "",
        of: PublishedReader | None = None,
    ) -> Answer:
        start, end = (int((T0 + DAY * day) * US) for day in (first, last))
        where = {"station": station} if station else None
        (found,) = ask(of or self.settings.home, "pond", measure, agg, start, end, where)
        return found

    def unchecked(self) -> int:
        return int(status(self.settings.home)["streams"][0]["unchecked"])


def reading(hour: int, depth: int = 1, station: str = "s1", number: str = "") -> Reading:
    return T0 + 3600 * hour, station, depth, depth / 8, hour, number or str(hour)


@pytest.fixture(autouse=True, scope="module")
def unsynced() -> Iterator[None]:
    """No power is cut here, and waiting for the disk takes most of the time."""
    with patch("os.fsync"):
        yield


TEN_DAYS = [reading(hour) for hour in range(0, 240, 6)]
NEW = [reading(hour) for hour in range(240, 264, 6)]


def test_a_memory_that_is_sent_again_counts_once_after_its_raw_rows_are_gone(tmp_path: Path) -> None:
    pond = Pond(tmp_path, 'keep_raw = "3d"')
    pond.run(TEN_DAYS)
    pond.maintain()
    assert len(table_rows(pond.settings.layout.raw("pond"), "event_us")) == 16

    counts = pond.run([*TEN_DAYS[:39], reading(234, depth=5), *NEW])

    assert (counts["accepted"], counts["duplicates"], counts["quarantined"]) == (4, 39, 1)
    whole, day = pond.ask("sum"), pond.ask("sum", first=1, last=2)
    assert (whole.value, whole.low, whole.high, whole.exact, whole.unchecked) == (44, 44, 44, True, 0)
    assert (day.value, day.exact, day.final, pond.unchecked()) == (4, True, True, 0)


def test_other_content_for_an_identity_whose_row_is_gone_is_a_conflict(tmp_path: Path) -> None:
    pond = Pond(tmp_path, 'keep_raw = "3d"')
    pond.run(TEN_DAYS)
    pond.maintain()

    counts = pond.run([reading(0, depth=7), reading(6), reading(3)])

    assert (counts["accepted"], counts["duplicates"], counts["quarantined"]) == (1, 1, 1)
    assert pond.ask("sum").value == 41


def test_an_index_that_is_lost_is_made_again_of_raw_and_of_what_is_remembered(tmp_path: Path) -> None:
    pond = Pond(tmp_path, 'keep_raw = "3d"')
    pond.run(TEN_DAYS)
    pond.maintain()
    shutil.rmtree(pond.settings.layout.identities("pond"))

    counts = pond.run([*TEN_DAYS, *NEW])

    assert (counts["accepted"], counts["duplicates"]) == (4, 40)


def test_the_bytes_of_identities_are_told_whether_or_not_raw_has_their_rows(tmp_path: Path) -> None:
    pond = Pond(tmp_path, 'keep_raw = "3d"')
    pond.run(TEN_DAYS)
    pond.maintain()

    plan = storage_plan(pond.settings.layout, pond.settings.stream("pond"))["identities"]

    assert (plan["keep_us"], plan["rows"], plan["remembered"]) == (90 * DAY * US, 40, 24)
    folders = Path(pond.settings.layout.remembered("pond")), pond.settings.layout.identities("pond")
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert plan["bytes"] == sum(path.stat().st_size for path in files if "_delta_log" not in str(path))


def test_rows_beyond_what_is_known_are_told_at_once_and_make_an_interval_that_holds_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pond = Pond(tmp_path, 'keep_raw = "3d"\nduplicates_within = "2d"')
    pond.run(TEN_DAYS)
    pond.maintain()

    counts = pond.run([*TEN_DAYS, *NEW])

    # Before the next maintenance, which is when they leave raw.
    assert (counts["accepted"], pond.unchecked()) == (28, 24)
    for _ in range(2):
        whole, day = pond.ask("sum"), pond.ask("count", first=1, last=2)
        assert (whole.value, whole.low, whole.high) == (68, 44, 68)
        assert (whole.exact, whole.final, whole.unchecked) == (False, False, 24)
        assert (day.value, day.low, day.high, day.exact, day.final) == (8, 4, 8, False, False)
        assert (day.rows_low, day.rows_high) == (4, 8)
        print_status(status(pond.settings.home))
        assert re.search(r"may repeat others\n.*\npond +24\n", capsys.readouterr().out)
        with pytest.raises(AskError, match="24 rows of pond came when identities"):
            ask(pond.settings.home, "pond", "depth", "sum", T0 * US, (T0 + 9 * DAY) * US, exact=True)
        recent = pond.ask("sum", first=8, last=9)
        assert (recent.value, recent.exact, recent.unchecked) == (4, True, 0)
        pond.maintain()
        publish.run(pond.settings, pond.spark, unchecked=True)


def test_an_identity_without_a_time_is_known_as_long_as_it_can_be_repeated(tmp_path: Path) -> None:
    pond = Pond(tmp_path, 'keep_raw = "2d"', '["station", "number"]')
    assert pond.settings.stream("pond").duplicates_within == DAY * US
    pond.run(TEN_DAYS)
    pond.maintain()
    # The same numbers up to a day from where they stood, on either side of where raw begins.
    same = [reading(hour + 20, number=str(hour)) for hour in range(180, 220, 6)]

    counts = pond.run([*same, reading(175, number="180")])

    # The numbers before raw are known for a day more than raw itself; what is older could be a repeat.
    assert (counts["accepted"], counts["quarantined"]) == (0, 8)
    assert pond.unchecked() == 0


def test_history_that_lands_late_for_the_first_time_is_in_doubt_only_before_what_was_forgotten(
    tmp_path: Path,
) -> None:
    pond = Pond(tmp_path, 'keep_raw = "3d"\nduplicates_within = "2d"')
    doubt = []
    for first in (600, 300, 0):
        pond.run([reading(hour) for hour in range(first, first + 96, 6)])
        doubt.append((pond.ask("count").exact, pond.unchecked()))
        pond.maintain()

    assert doubt == [(True, 0), (True, 0), (False, 16)]


def test_a_changed_identity_makes_rows_before_raw_doubtful(tmp_path: Path) -> None:
    pond = Pond(tmp_path, 'keep_raw = "3d"')
    pond.run(TEN_DAYS)
    pond.maintain()
    changed = Pond(tmp_path, 'keep_raw = "3d"', '["station", "at", "number"]')
    changed.landed = pond.landed

    changed.run([*TEN_DAYS, *NEW])

    answer = changed.ask("sum")
    assert (answer.low, answer.high, answer.exact, changed.unchecked()) == (44, 68, False, 24)


class Died(BaseException):
    """The process was killed."""


@pytest.mark.parametrize("point", [*RETENTION_POINTS, "table.files-written"])
def test_retention_that_is_killed_anywhere_forgets_nothing_and_drops_the_same(
    tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pond = Pond(tmp_path, 'keep_raw = "3d"')
    pond.run(TEN_DAYS)

    def die(name: str) -> None:
        if name == point:
            raise Died

    with monkeypatch.context() as patched:
        patched.setattr(corrections, "crash_point", die)
        patched.setattr("lakehouse.storage.tables.table_commits.crash_point", die)
        with pytest.raises(Died):
            pond.maintain()

    assert pond.run([*TEN_DAYS, *NEW])["accepted"] == 4
    pond.maintain()
    remembered = table_rows(pond.settings.layout.remembered("pond"), "event_us", "batch")
    raw = table_rows(pond.settings.layout.raw("pond"), "event_us", "batch")
    assert sorted([*remembered, *raw]) == sorted(
        (row[0] * US, 1 if row in TEN_DAYS else 3) for row in [*TEN_DAYS, *NEW]
    )
    assert pond.ask("sum").value == 44


def test_an_ingest_that_is_killed_before_its_ledger_tells_its_doubtful_rows_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pond = Pond(tmp_path, 'keep_raw = "3d"\nduplicates_within = "2d"')
    pond.run(TEN_DAYS)
    pond.maintain()
    pond.land([*TEN_DAYS, *NEW])

    def die(name: str) -> None:
        if name in UNCHECKED_POINTS:
            raise Died

    with monkeypatch.context() as patched:
        patched.setattr(ingesting, "crash_point", die)
        with pytest.raises(Died):
            pond.ingest()
    pond.run()

    assert (pond.unchecked(), pond.ask("sum").low) == (24, 44)


# Batches: which rows of 12 days, one in eight hours, of two stations and three contents they hold, and whether
# maintenance runs after them.
ROWS = st.tuples(st.integers(0, 35), st.sampled_from(["s1", "s2"]), st.sampled_from([-3, 1, 2]))
BATCHES = st.lists(st.tuples(st.lists(ROWS, min_size=1, max_size=12), st.booleans()), min_size=2, max_size=4)
FOLDERS = iter(range(10**9))


@settings(deadline=None, max_examples=5)
@given(batches=BATCHES, keep=st.sampled_from(["1d", "3d", "9d"]), within=st.sampled_from(["1d", "4d", "30d"]))
def test_each_identity_counts_once_within_what_is_known_and_the_interval_holds_it_beyond(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[tuple[list[tuple[int, str, int]], bool]],
    keep: str,
    within: str,
) -> None:
    options = f'keep_raw = "{keep}"\nduplicates_within = "{within}"'
    pond = Pond(tmp_path_factory.mktemp("pond") / str(next(FOLDERS)), options)
    first: dict[tuple[int, str], int] = {}
    for rows, is_maintained in batches:
        pond.run([reading(8 * turn, depth, station) for turn, station, depth in rows])
        for turn, station, depth in rows:
            first.setdefault((turn, station), depth)
        if is_maintained:
            pond.maintain()
    assert within != "30d" or pond.unchecked() == 0
    for low, high in ((-3, 1200), (6, 24), (13, 19)):
        for station in ("s1", "s2", ""):
            rows_inside = {
                (turn, one): depth
                for (turn, one), depth in first.items()
                if low <= turn < high and one == (station or one)
            }
            hold(pond, (low / 3, high / 3), station, rows_inside)


def hold(pond: Pond, span: tuple[float, float], station: str, rows: dict[tuple[int, str], int]) -> None:
    """Assert that answers over a range hold what each identity counted once gives, exactly where they say so."""
    if not rows:
        return
    depths = [*rows.values()]
    turns = [sorted(turn for turn, one in rows if one == each) for each in ("s1", "s2")]
    truth: dict[tuple[str, str], float] = {
        **{("sum", "depth"): sum(depths), ("count", "*"): len(depths), ("avg", "flow"): mean(depths) / 8},
        **{("min", "depth"): min(depths), ("max", "flow"): max(depths) / 8, ("sum", "flow"): sum(depths) / 8},
        # A meter counts hours.
        ("increase", "meter"): sum(8 * (each[-1] - each[0]) for each in turns if each),
    }
    with open_published(pond.settings.home) as published:
        for (agg, measure), value in truth.items():
            found = pond.ask(agg, measure, *span, station=station, of=published)
            assert found.low is None or found.low <= value
            assert found.high is None or found.high >= value
            assert not found.exact or found.value == pytest.approx(value, rel=1e-12)
            assert not found.unchecked or not (found.exact or found.final)
