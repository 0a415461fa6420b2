from __future__ import annotations

import pytest

from lakehouse.checks.checks import Tables, measure
from lakehouse.engine.local import LocalEngine
from lakehouse.spark.deviations import Frame
from quality.rules import load_rules
from tests.quality.conftest import SECOND, START, Lake


def frames_of(tables: Tables) -> list[Frame]:
    return measure(tables, LocalEngine())[0]


def _worst(frames: list[Frame]) -> dict[str, float]:
    """Return every metric that is above 0, as table.metric."""
    found: dict[str, float] = {}
    for frame in frames:
        for row in frame.rows:
            for metric in set(row) - set(frame.place) - {"rejected_share"}:
                name = f"{frame.table}.{metric}"
                found[name] = max(found.get(name, 0), row[metric])
    return {name: value for name, value in found.items() if value}


def _share(frames: list[Frame]) -> float:
    (totals,) = (frame for frame in frames if frame.table == "totals")
    return float(totals.rows[0]["rejected_share"])


def test_right_tables_deviate_nowhere(checked_lake: Lake) -> None:
    frames = frames_of(checked_lake.tables())

    assert [frame.table for frame in frames] == ["ledger", "totals", "quarantine", "raw", "rollup"]
    assert _worst(frames) == {}


def test_every_rule_is_about_a_metric_of_its_frame(checked_lake: Lake) -> None:
    for frame in frames_of(checked_lake.tables()):
        metrics = set(frame.rows[0]) - set(frame.place)
        assert {rule.metric for rule in load_rules()[frame.table]} == metrics


def test_each_wrong_count_of_the_ledger_shows_in_its_own_metric(checked_lake: Lake) -> None:
    broken = checked_lake.with_row("ledger", 0, "received", 6)
    broken = broken.with_row("ledger", 1, "reasons", {"clock": 3})
    broken = broken.with_row("ledger", 1, "duplicates", None)

    assert _worst(frames_of(broken.tables())) == {
        "ledger.imbalance": 1,
        "totals.imbalance": 1,
        "ledger.reasons_gap": 2,
        "ledger.negative_counts": 1,
    }


def test_each_wrong_field_of_a_raw_row_shows_in_its_own_metric(checked_lake: Lake) -> None:
    broken = checked_lake.with_row("raw", 0, "event_us", None)
    broken = broken.with_row("raw", 1, "event_us", 1_700_000_000 * SECOND)
    broken = broken.with_row("raw", 3, "temp", float("nan"))
    broken = broken.with_row("raw", 4, "temp", float("-inf"))
    broken = broken.with_row("raw", 1, "source_file", None)
    broken = broken.with_row("raw", 2, "source_line", 0)

    assert _worst(frames_of(broken.tables())) == {
        "raw.without_event_time": 1,
        "raw.out_of_bounds": 1,
        "raw.not_numbers": 2,
        "raw.without_origin": 2,
    }


def test_each_wrong_field_of_a_rejected_record_shows_in_its_own_metric(checked_lake: Lake) -> None:
    broken = checked_lake.with_row("quarantine", 0, "reason", "")
    broken = broken.with_row("quarantine", 0, "source_file", None)
    broken = broken.with_rows("quarantine", [*broken.quarantine, (0, "clock", "landing/a.csv")])

    assert _worst(frames_of(broken.tables())) == {
        "quarantine.without_reason": 1,
        "quarantine.without_origin": 1,
        "quarantine.unknown_batches": 1,
        "totals.quarantine_gap": 1,
    }


def test_rows_in_the_wrong_batch_show_where_they_are(checked_lake: Lake) -> None:
    broken = checked_lake.with_row("raw", 5, "batch", 1).with_row("quarantine", 0, "batch", 2)

    assert _worst(frames_of(broken.tables())) == {
        "raw.gap_to_ledger": 1,
        "ledger.quarantine_gap": 1,
    }


def test_a_lost_raw_row_shows_in_its_batch_and_in_the_total(checked_lake: Lake) -> None:
    broken = checked_lake.with_rows("raw", checked_lake.raw[1:])

    assert _worst(frames_of(broken.tables())) == {"raw.gap_to_ledger": 1, "totals.raw_gap": 1}


def test_a_row_appended_twice_is_a_repeated_identity(checked_lake: Lake) -> None:
    broken = checked_lake.with_rows("raw", [*checked_lake.raw, checked_lake.raw[4]])

    assert _worst(frames_of(broken.tables()))["raw.repeated_identities"] == 1


def test_an_identity_may_come_again_after_the_time_in_which_repeats_are_looked_for(
    checked_lake: Lake,
) -> None:
    within = checked_lake.stream.repeat_distance_us
    far = list(checked_lake.raw[0])
    far[0] += within + 1
    far[6] = 2
    near = [*far]
    near[0] -= 1

    frames_far = frames_of(checked_lake.with_rows("raw", [*checked_lake.raw, far]).tables())
    frames_near = frames_of(checked_lake.with_rows("raw", [*checked_lake.raw, near]).tables())

    assert "raw.repeated_identities" not in _worst(frames_far)
    assert _worst(frames_near)["raw.repeated_identities"] == 1


def test_a_batch_entered_twice_in_the_ledger_is_a_repeat(checked_lake: Lake) -> None:
    broken = checked_lake.with_rows("ledger", [*checked_lake.ledger, checked_lake.ledger[0]])

    assert _worst(frames_of(broken.tables()))["ledger.repeats"] == 1


def test_records_put_through_again_stay_in_quarantine_but_are_no_longer_rejected(checked_lake: Lake) -> None:
    requeued = checked_lake.with_rows("ledger", [*checked_lake.ledger, (3, "requeue", 0, 1, 1, 0, 0, {})])
    reading = (START + 300 * SECOND, "a", START + 300 * SECOND, 18.0, "landing/a.csv", 9, 3, None)
    requeued = requeued.with_rows("raw", [*checked_lake.raw, reading])

    frames = frames_of(requeued.tables())

    assert _worst(frames) == {}
    assert _share(frames) == pytest.approx(1 / 9)


def test_a_rejected_record_that_vanished_shows_in_its_batch_and_in_the_total(checked_lake: Lake) -> None:
    broken = checked_lake.with_rows("quarantine", checked_lake.quarantine[1:])

    assert _worst(frames_of(broken.tables())) == {
        "ledger.quarantine_gap": 1,
        "totals.quarantine_gap": 1,
    }


def test_raw_rows_of_batches_that_passed_are_not_judged_again(checked_lake: Lake) -> None:
    broken = checked_lake.with_row("raw", 0, "temp", float("nan"))

    (raw,) = (frame for frame in frames_of(broken.tables(since=1)) if frame.table == "raw")

    assert [row["batch"] for row in raw.rows] == [2]
    assert raw.rows[0]["not_numbers"] == 0


def test_the_rejected_share_is_of_all_rows_received(checked_lake: Lake) -> None:
    assert _share(frames_of(checked_lake.tables())) == pytest.approx(2 / 9)
