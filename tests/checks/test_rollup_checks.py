from __future__ import annotations

import pytest

from lakehouse.checks.checks import measure
from lakehouse.engine.local import LocalEngine
from lakehouse.spark.deviations import Frame
from quality.rules import load_rules
from tests.quality.conftest import SECOND, Lake


def rollup_frames(lake: Lake) -> list[Frame]:
    frames, _ = measure(lake.tables(), LocalEngine())
    return [frame for frame in frames if frame.table == "rollup"]


def _deviations(frames: list[Frame]) -> set[tuple[str, int, int]]:
    """Return every metric above 0 with its level and grouping."""
    (frame,) = frames
    names = {rule.metric for rule in load_rules()["rollup"]}
    return {(name, row["level"], row["grouping"]) for row in frame.rows for name in names if row[name]}


def _index(checked_lake: Lake, level: int, grouping: int) -> int:
    """Return the position of the newest node of a level and grouping."""
    nodes = [(node[2], i) for i, node in enumerate(checked_lake.nodes) if node[:2] == (level, grouping)]
    return max(nodes)[1]


def test_right_nodes_deviate_nowhere(checked_lake: Lake) -> None:
    frames = rollup_frames(checked_lake)

    assert _deviations(frames) == set()
    assert [(row["level"], row["grouping"]) for row in frames[0].rows] == [(1, 0), (1, 1), (2, 0), (2, 1)]


def test_a_table_without_a_marker_is_not_judged(checked_lake: Lake) -> None:
    assert (
        rollup_frames(checked_lake.with_rows("nodes", [node for node in checked_lake.nodes if node[0] > 0]))
        == []
    )


def test_each_wrong_field_of_a_node_shows_in_its_own_metric(checked_lake: Lake) -> None:
    broken = checked_lake.with_row("nodes", _index(checked_lake, 1, 0), "temp__min", 99.0)
    broken = broken.with_row("nodes", _index(checked_lake, 2, 0), "temp__sum", float("nan"))
    broken = broken.with_row("nodes", _index(checked_lake, 1, 1), "temp__n", 4)
    broken = broken.with_row("nodes", _index(checked_lake, 2, 1), "first_us", 0)
    at = checked_lake.nodes[_index(checked_lake, 2, 1)][2]
    broken = broken.with_rows("nodes", [*broken.nodes, (3, 1, at, 2, None, 1, at, at, *[None] * 6)])

    assert _deviations(rollup_frames(broken)) == {
        ("disordered_values", 1, 0),
        ("not_numbers", 2, 0),
        ("disordered_counts", 1, 1),
        ("disordered_times", 2, 1),
        ("undeclared", 3, 1),
    }


@pytest.mark.parametrize(
    ("level", "expected"),
    [(1, {("gap_to_finer", 2, 1)}), (2, {("gap_to_finer", 2, 1), ("gap_to_accepted", 2, 1)})],
)
def test_a_wrong_number_of_rows_shows_between_the_levels(
    checked_lake: Lake, level: int, expected: set[tuple[str, int, int]]
) -> None:
    broken = checked_lake.with_row("nodes", _index(checked_lake, level, 1), "rows", 7)

    assert _deviations(rollup_frames(broken)) == expected


def test_a_node_off_its_grid_is_unaligned(checked_lake: Lake) -> None:
    at = _index(checked_lake, 2, 0)
    broken = checked_lake.with_row("nodes", at, "start_us", checked_lake.nodes[at][2] - SECOND)

    assert ("unaligned", 2, 0) in _deviations(rollup_frames(broken))


def test_a_missing_late_row_shows_only_where_its_level_still_keeps_the_time(checked_lake: Lake) -> None:
    finest = [node for node in checked_lake.nodes if node[0] == 1]
    forgotten = [node for node in finest if node[2] < checked_lake.nodes[0][2] + 60 * SECOND]
    pruned = checked_lake.with_rows("nodes", [node for node in checked_lake.nodes if node not in forgotten])

    assert forgotten
    assert _deviations(rollup_frames(pruned)) == set()


def test_a_grouping_that_was_never_built_lacks_every_row(checked_lake: Lake) -> None:
    pruned = checked_lake.with_rows("nodes", [node for node in checked_lake.nodes if node[1] != 1])

    assert _deviations(rollup_frames(pruned)) == {("gap_to_accepted", 2, 1)}


def test_batches_not_rolled_up_yet_are_not_missed(checked_lake: Lake) -> None:
    first = [node for node in checked_lake.nodes if node[3] == 1]

    assert _deviations(rollup_frames(checked_lake.with_rows("nodes", first))) == set()
