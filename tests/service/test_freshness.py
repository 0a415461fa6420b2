from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.service.freshness import SAMPLES, Freshness, quantile


@settings(deadline=None)  # a busy machine
@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_quantile_is_the_least_value_that_enough_are_not_above(values: list[float], share: float) -> None:
    assert quantile(values, share) == np.quantile(values, share, method="inverted_cdf")


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 100)), max_size=60))
def test_every_batch_is_measured_once_by_the_version_that_first_holds_it(
    steps: list[tuple[int, float]],
) -> None:
    fresh, measured, through = Freshness(3), list[int](), 3
    for more, delay in steps:
        through += more
        batches = fresh.unmeasured(through)
        measured += batches
        fresh.add(through, [1000.0 for _ in batches], 1000.0 + delay)

    assert measured == list(range(4, through + 1))
    assert fresh.snapshot()["published_batch"] == through
    assert len(fresh.samples) == min(SAMPLES, len(measured))


def test_after_a_long_catch_up_only_the_last_batches_are_looked_at() -> None:
    assert Freshness(0).unmeasured(10_000) == range(10_001 - SAMPLES, 10_001)


def test_batches_without_an_arrival_and_clocks_that_jump_back_do_no_harm() -> None:
    fresh = Freshness(0)
    fresh.add(3, [None, 100.0, 99.0], 99.5)

    assert fresh.snapshot() == {"published_batch": 3, "last_s": 0.5, "p50_s": 0.0, "p95_s": 0.5, "batches": 2}
