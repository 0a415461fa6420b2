from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.catalog.ledger import Entry
from lakehouse.catalog.plans import Plan, QueryChanged, next_spans, read_plans, require_same, write_plan


def entries(*rows: int) -> list[Entry]:
    return [Entry(number, count, 0, 0, 0) for number, count in enumerate(rows, start=1)]


def test_plans_are_read_back_in_order(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        write_plan(tmp_path / "q", "batch", Plan(number, ((0, 1), (number, number + 1))))
    write_plan(tmp_path / "q", "repair", Plan(1, ((0, 2),)))

    assert [plan.number for plan in read_plans(tmp_path / "q", "batch")] == [1, 2, 10]
    assert read_plans(tmp_path / "q", "repair") == [Plan(1, ((0, 2),))]
    assert read_plans(tmp_path / "other", "batch") == []


def test_which_repairs_a_batch_is_told_of_is_read_back_and_none_where_its_plan_does_not_say(
    tmp_path: Path,
) -> None:
    write_plan(tmp_path, "batch", Plan(1, ((0, 1), (0, 1))))
    write_plan(tmp_path, "batch", Plan(2, ((1, 2), (1, 2)), told=3))
    (tmp_path / "batch-00000003").write_text('{"number": 3, "spans": [[2, 3], [2, 3]]}')

    assert [plan.told for plan in read_plans(tmp_path, "batch")] == [0, 3, 0]


@pytest.mark.parametrize(
    ("taken", "left", "right", "most", "expected"),
    [
        (((0, 0), (0, 0)), entries(), entries(), 10, None),
        (((2, 2), (1, 1)), entries(5, 5), entries(5), 10, None),
        (((0, 0), (0, 0)), entries(5, 5, 5), entries(1), 10, ((0, 2), (0, 1))),
        (((0, 0), (0, 0)), entries(50), entries(), 10, ((0, 1), (0, 0))),
        (((1, 1), (0, 0)), entries(5, 50, 1), entries(0, 0, 3), 10, ((1, 2), (0, 3))),
    ],
)
def test_a_batch_takes_whole_ingest_batches_up_to_a_number_of_rows(
    taken: tuple[tuple[int, int], ...],
    left: list[Entry],
    right: list[Entry],
    most: int,
    expected: tuple[tuple[int, int], ...] | None,
) -> None:
    assert next_spans(taken, (left, right), most) == expected


def test_another_meaning_is_refused_and_the_same_is_not(tmp_path: Path) -> None:
    require_same(tmp_path / "q", "q", "a JOIN b")
    require_same(tmp_path / "q", "q", "a JOIN b")

    with pytest.raises(QueryChanged, match=r"it was a JOIN b, it is a JOIN c now; .*--forget q"):
        require_same(tmp_path / "q", "q", "a JOIN c")
