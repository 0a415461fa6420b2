from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.queries.runtime.batch_manifest import (
    LEAST,
    BatchManifest,
    ManifestMissing,
    Scale,
    Wanted,
    changes_at,
    last_manifest,
    next_scales,
    next_spans,
    origin,
    read_manifest,
    require_manifest,
    write_manifest,
)
from lakehouse.queries.runtime.logged import in_new_buckets
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import Entry

NUMBERS = st.integers(1, 24)


def entries(*rows: int) -> list[Entry]:
    return [Entry(number, count, 0, 0, 0, 0) for number, count in enumerate(rows, start=1)]


def test_the_last_plan_is_the_one_begun_else_the_finished_one_and_one_that_is_gone_is_missed(
    tmp_path: Path,
) -> None:
    plans = [BatchManifest(number, ((number - 1, number), (0, number))) for number in (1, 2)]
    for plan in plans:
        write_manifest(Home(tmp_path).batch_manifests("q"), "batch", plan)
    write_manifest(Home(tmp_path).batch_manifests("q"), "repair", BatchManifest(1, ((0, 2),)))

    assert [last_manifest(Home(tmp_path).batch_manifests("q"), "batch", done) for done in (0, 1, 2)] == [
        plans[0],
        plans[1],
        plans[1],
    ]
    assert last_manifest(Home(tmp_path).batch_manifests("q"), "repair", 1) == BatchManifest(1, ((0, 2),))
    assert last_manifest(Home(tmp_path).batch_manifests("other"), "batch", 0) is None
    with pytest.raises(
        ManifestMissing, match=r"batch manifest 3 of query q is not in the control store.*--forget q"
    ):
        last_manifest(Home(tmp_path).batch_manifests("q"), "batch", 3)


def test_which_repairs_a_batch_is_told_of_is_read_back(tmp_path: Path) -> None:
    write_manifest(Home(tmp_path).batch_manifests("q"), "batch", BatchManifest(1, ((0, 1), (0, 1))))
    write_manifest(
        Home(tmp_path).batch_manifests("q"), "batch", BatchManifest(2, ((1, 2), (1, 2)), through_repair=3)
    )

    assert [
        require_manifest(Home(tmp_path).batch_manifests("q"), "batch", number).through_repair
        for number in (1, 2)
    ] == [0, 3]


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


def test_a_manifest_is_written_once(tmp_path: Path) -> None:
    folder = Home(tmp_path).batch_manifests("q")
    write_manifest(folder, "batch", BatchManifest(1, ((0, 1),)))

    with pytest.raises(FileExistsError):
        write_manifest(folder, "batch", BatchManifest(1, ((0, 2),)))
    assert read_manifest(folder, "batch", 1) == BatchManifest(1, ((0, 1),))


@pytest.mark.parametrize(
    ("wanted", "tasks", "expected"),
    [
        (Wanted(), 1, (Scale(1, LEAST),)),
        (Wanted(least=1), 1, (Scale(1, 1),)),
        (Wanted(cores=lambda: 3, least=1, divides_rows=False), 40, (Scale(1, 4),)),
        (Wanted(cores=lambda: 3, least=1), 8, (Scale(1, 4),)),
        (Wanted(3, least=1), 40, (Scale(1, 3),)),
        (Wanted(cores=lambda: 2), 17, (Scale(1, LEAST),)),
        (Wanted(cores=lambda: 2), 18, (Scale(1, 2 * LEAST),)),
        (Wanted(cores=lambda: 2), 65, (Scale(1, 4 * LEAST),)),
        (Wanted(cores=lambda: 12), 1, (Scale(1, LEAST),)),
        (Wanted(cores=lambda: 12), 33, (Scale(1, 16),)),
        (Wanted(3), 40, (Scale(1, 3),)),
    ],
)
def test_the_first_batch_has_what_is_asked_for_or_enough_for_cores_and_memory_of_its_tasks(
    wanted: Wanted, tasks: int, expected: tuple[Scale, ...]
) -> None:
    assert next_scales((), 1, wanted, tasks) == expected


def test_what_follows_cores_grows_and_never_shrinks_and_what_is_asked_for_does_both() -> None:
    many = next_scales((Scale(1, 8),), 5, Wanted(cores=lambda: 32), tasks=40)
    assert many == (Scale(1, 8), Scale(5, 32))
    assert changes_at(many, 5) and not changes_at(many, 6) and not changes_at((Scale(1, 8),), 1)
    assert next_scales(many, 6, Wanted(cores=lambda: 1), tasks=40) == many
    assert next_scales(many, 7, Wanted(2)) == (*many, Scale(7, 2))


def test_a_batch_that_one_task_runs_asks_for_no_cores() -> None:
    def cores() -> int:
        raise AssertionError("starts a session")

    assert next_scales((Scale(1, 8),), 2, Wanted(cores=cores)) == (Scale(1, 8),)


@given(NUMBERS, NUMBERS, st.integers(0, 10**6))
def test_a_row_is_in_a_new_bucket_that_knows_of_its_old_one(old: int, new: int, number: int) -> None:
    number_of = pa.array(range(old), pa.int32())
    before = pa.table({"bucket": number_of, "parent": number_of})
    places = pa.table(in_new_buckets(before, old, new)).to_pylist()
    assert {"bucket": number % new, "parent": number % old} in places
    assert len({tuple(row.values()) for row in places}) == len(places)
    if new % old == 0:
        assert [row["bucket"] for row in sorted(places, key=lambda row: row["bucket"])] == list(range(new))


def test_a_bucket_goes_on_with_what_one_bucket_of_each_scale_has_learned() -> None:
    scales = (Scale(1, 8), Scale(5, 2), Scale(9, 6))
    assert [origin(bucket, scales, 10) for bucket in range(6)] == list(range(6))
    assert [origin(bucket, scales, 8) for bucket in range(6)] == [0, 1] * 3
    assert [origin(bucket, scales, 4) for bucket in range(6)] == [0, 1] * 3
