from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakehouse.config.sections import QualitySettings
from lakehouse.engine.local import LocalEngine
from lakehouse.queries.runtime.checks import frames_of
from lakehouse.queries.runtime.recall.reported_misses import ReportedMisses
from lakehouse.queries.runtime.recall.tables import RecallTables, missed_periods
from lakehouse.storage.layout import Home
from quality.rules import load_rules
from tests.queries.joins import ANSWERS, SECOND, Joined, Logged, Pair

TAKEN = {1: (10, 10), 2: (8, 12)}


def opened(folder: Path, joined: Joined, published_us: int | None = None) -> RecallTables:
    found = RecallTables.opened(LocalEngine(), joined.write(Home(folder)), joined.query, -1, published_us)
    assert found is not None
    return found


def well() -> Joined:
    """Two finished batches and a repair of both; a third batch is under way."""
    pairs = [
        Pair(1),
        Pair(SECOND),
        Pair(2, batch=2),
        Pair(3, "repair"),
        Pair(4, batch=3),
        Pair(5, "repair", 2),
    ]
    late = [Logged(1, 1), Logged(2, 1, 2), Logged(3, 0, 2, "refused"), Logged(4, 1, 3)]
    return Joined(pairs, late, batches=2, repairs=(2,))


def frames(opened: RecallTables) -> dict[str, Sequence[dict[str, Any]]]:
    return {frame.table: frame.rows for frame in frames_of(opened, TAKEN)}


def wrong(opened: RecallTables) -> list[tuple[str, str, float]]:
    rules = load_rules()
    return [
        (table, rule.metric, row[rule.metric])
        for table, rows in frames(opened).items()
        for row in rows
        for rule in rules[table]
        if row[rule.metric]
    ]


def test_a_query_without_a_finished_batch_has_nothing_to_judge(tmp_path: Path) -> None:
    home = Joined([Pair(1)], batches=0).write(Home(tmp_path))

    assert RecallTables.opened(LocalEngine(), home, ANSWERS, -1, None) is None
    assert RecallTables.opened(LocalEngine(), Home(tmp_path / "nothing"), ANSWERS, -1, None) is None


def test_right_tables_have_no_deviation_and_what_goes_on_is_not_judged(tmp_path: Path) -> None:
    found = opened(tmp_path, well())

    assert wrong(found) == []
    assert {table: len(rows) for table, rows in frames(found).items()} == {
        "batches": 2,
        "repairs": 1,
        "periods": 1,
    }
    assert (found.through, found.metrics.repaired, found.gone) == (2, 2, 2)


@pytest.mark.parametrize(
    ("table", "more", "told"),
    [
        ("pairs", Pair(9, batch=2), [("batches", "found_gap", 1)]),
        ("pairs", Pair(9, "repair"), [("repairs", "found_gap", 1)]),
        ("late", Logged(9, 9, 2), [("batches", "log_gap", 1), ("repairs", "looked_gap", 1)]),
        ("late", Logged(9, 9, 1, "refused"), [("batches", "log_gap", 1)]),
    ],
)
def test_what_the_figures_do_not_speak_of_is_told(
    tmp_path: Path, table: str, more: Pair | Logged, told: list[tuple[str, str, float]]
) -> None:
    home = well().write(Home(tmp_path))
    rows: Sequence[Any] = [*getattr(well(), table), more]
    changed: dict[str, Any] = {table: rows}
    other = replace(well(), **changed).write(Home(tmp_path / "other"))
    for place in ("pairs", "missed_rows"):
        folder = home.root / place / "answers"
        (other.root / place / "answers" / "part-0.parquet").rename(folder / "part-0.parquet")

    found = RecallTables.opened(LocalEngine(), home, ANSWERS, -1, None)

    assert found is not None
    assert wrong(found) == told


def test_rows_are_told_when_fewer_or_more_than_there_were_to_take(tmp_path: Path) -> None:
    found = opened(tmp_path, well())

    (first, second) = (
        frame.rows for frame in frames_of(found, {1: (12, 15), 2: (1, 7)}) if frame.table == "batches"
    ).__next__()

    assert (first["rows_missing"], first["rows_added"]) == (2, 0)
    assert (second["rows_missing"], second["rows_added"]) == (0, 3)


def periods(*recalls: float, start: int = 0) -> list[Pair]:
    """Return 1000 pairs at each minute, that share of them found online."""
    return [
        Pair(start + minute * 60 * SECOND, "online" if number < recall * 1000 else "repair")
        for minute, recall in enumerate(recalls)
        for number in range(1000)
    ]


def test_the_share_of_periods_below_the_recall_asked_for(tmp_path: Path) -> None:
    joined = Joined([*periods(0.95, 0.89, 0.9, 1.0), Pair(10**9, "repair")], repairs=(1,))

    # Ten periods hold each minute's pairs, but no period begins before the first.
    assert missed_periods(opened(tmp_path, joined))[1] == pytest.approx(10 / 31)


def test_a_period_that_missed_its_recall_fails_the_first_check_and_is_known_to_the_next(
    tmp_path: Path,
) -> None:
    joined = Joined([*periods(0.95, 0.89, 0.9, 1.0), Pair(10**9, "repair")], repairs=(1,))
    first = opened(tmp_path, joined)
    limit = next(rule for rule in load_rules()["periods"] if rule.metric == "missed_share")
    assert frames(first)["periods"][0]["missed_share"] > limit.limit(QualitySettings())
    told = first.report_misses()

    again = opened(tmp_path, joined)

    assert frames(again)["periods"] == [{"missed_share": 0.0, "reported_share": pytest.approx(10 / 31)}]
    assert told["missed_periods"] == 10 and again.report_misses() == told
    # A stretch that comes later is new.
    worse = [*joined.pairs, *periods(0.5, 0.5, start=3600 * SECOND)]
    later = opened(tmp_path / "later", replace(joined, pairs=worse))
    ReportedMisses.read(again.layout.reported_misses("answers")).write(
        later.layout.reported_misses("answers")
    )
    assert frames(later)["periods"][0]["missed_share"] > 0.1
    assert later.report_misses()["missed_periods"] > 10


def test_periods_in_which_a_repair_may_find_more_are_not_counted(tmp_path: Path) -> None:
    pairs = [*periods(0.5), *periods(0.95, start=600 * SECOND)]
    waiting = Joined(pairs, [Logged(SECOND, 0, 2)], batches=2, repairs=(1,), newest_us=1000 * SECOND)

    assert missed_periods(opened(tmp_path / "waiting", waiting))[1] == 0
    assert missed_periods(opened(tmp_path / "repaired", replace(waiting, repairs=(2,))))[1] > 0.4


def test_only_what_is_published_is_audited(tmp_path: Path) -> None:
    joined = Joined([*periods(0.5), *periods(0.95, start=600 * SECOND)], repairs=(1,), newest_us=700 * SECOND)

    assert missed_periods(opened(tmp_path / "all", joined))[1] > 0.4
    assert missed_periods(opened(tmp_path / "late", joined, 500 * SECOND))[1] == 0
