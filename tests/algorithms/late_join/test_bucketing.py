from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.late_join.bucketing import place_in_buckets
from lakehouse.algorithms.late_join.conditions import Distance, Equality
from lakehouse.algorithms.late_join.contract import Batch
from tests.algorithms.late_join.streams import CONDITIONS, batches


@settings(deadline=None)
@given(batch=batches(), buckets=st.integers(1, 7), condition=st.sampled_from(sorted(CONDITIONS)))
def test_every_row_is_in_a_bucket_and_a_left_row_in_one_only(
    batch: Batch, buckets: int, condition: str
) -> None:
    rows, bucket = place_in_buckets(CONDITIONS[condition], batch, buckets)

    assert set(rows.tolist()) == set(range(len(batch)))
    assert np.all((bucket >= 0) & (bucket < buckets))
    assert np.all(np.bincount(rows, minlength=len(batch))[batch.side == 0] == 1)


def test_keys_are_spread_evenly() -> None:
    batch = Batch.of(np.zeros(10_000), np.zeros(10_000), key=np.arange(10_000))

    _, bucket = place_in_buckets(Equality(), batch, 8)

    assert np.bincount(bucket).min() > 1000


def test_a_right_point_goes_to_nine_cells_at_most() -> None:
    batch = Batch.of([1], [0], numbers=[[5.0, 5.0]])

    assert len(place_in_buckets(Distance(1.0), batch, 10**6)[0]) == 9


def test_no_bucket_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one bucket"):
        place_in_buckets(Equality(), Batch.of([], []), 0)
