"""In how many buckets a query is cut: as asked for, as cores ask for, and of which old ones a new one is made."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.queries.runtime.bucket_answers import in_new_buckets
from lakehouse.queries.runtime.scale import LEAST, Scale, Wanted, changes_at, next_scales, origin

NUMBERS = st.integers(1, 24)


@pytest.mark.parametrize(
    ("wanted", "by_tasks", "expected"),
    [
        (Wanted(), False, (Scale(1, LEAST),)),
        (Wanted(cores=lambda: 2), True, (Scale(1, LEAST),)),
        (Wanted(cores=lambda: 12), False, (Scale(1, LEAST),)),
        (Wanted(cores=lambda: 12), True, (Scale(1, 16),)),
        (Wanted(3), True, (Scale(1, 3),)),
    ],
)
def test_the_first_batch_has_what_is_asked_for_or_enough_for_the_cores_of_its_tasks(
    wanted: Wanted, by_tasks: bool, expected: tuple[Scale, ...]
) -> None:
    assert next_scales((), 1, wanted, by_tasks) == expected


def test_what_follows_cores_grows_and_never_shrinks_and_what_is_asked_for_does_both() -> None:
    many = next_scales((Scale(1, 8),), 5, Wanted(cores=lambda: 32), by_tasks=True)
    assert many == (Scale(1, 8), Scale(5, 32))
    assert changes_at(many, 5) and not changes_at(many, 6) and not changes_at((Scale(1, 8),), 1)
    assert next_scales(many, 6, Wanted(cores=lambda: 1), by_tasks=True) == many
    assert next_scales(many, 7, Wanted(2)) == (*many, Scale(7, 2))


def test_a_process_that_takes_small_batches_on_is_not_asked_for_its_cores() -> None:
    def cores() -> int:
        raise AssertionError("starts a session")

    assert next_scales((Scale(1, 8),), 2, Wanted(cores=cores)) == (Scale(1, 8),)


@given(NUMBERS, NUMBERS, st.integers(0, 10**6))
def test_a_row_is_in_a_new_bucket_that_knows_of_its_old_one(old: int, new: int, number: int) -> None:
    before = pa.table({"bucket": pa.array(range(old), pa.int32())})
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
