from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.config.problems import ConfigError
from lakehouse.simulator.timeline import heavy_choice, irregular, regular

HOUR_US = 3_600_000_000
GAPS = st.sampled_from((0.0, 0.01, 0.3, 0.9))


@given(rows=st.integers(1, 500), sources=st.integers(1, 20), gaps=GAPS, seed=st.integers(0, 99))
def test_a_schedule_has_exactly_the_rows_asked_for_and_no_two_of_a_source_at_once(
    rows: int, sources: int, gaps: float, seed: int
) -> None:
    found = regular(np.random.default_rng(seed), rows, HOUR_US, sources, gaps, 1000)

    assert len(found.event_us) == rows
    assert len(np.unique(np.column_stack([found.event_us, found.source]), axis=0)) == rows
    assert (np.diff(found.event_us) >= 0).all()
    assert found.event_us.min() >= 0
    assert found.event_us.max() < HOUR_US
    assert (found.event_us % 1000 == 0).all()
    assert found.source.max() < sources


@given(rows=st.integers(1, 500), sources=st.integers(1, 20), gaps=GAPS, seed=st.integers(0, 99))
def test_irregular_rows_are_in_order_and_as_many_as_asked_for(
    rows: int, sources: int, gaps: float, seed: int
) -> None:
    found = irregular(np.random.default_rng(seed), rows, HOUR_US, sources, gaps, 1)

    assert (len(found.event_us), len(found.source)) == (rows, rows)
    assert (np.diff(found.event_us) >= 0).all()
    assert 0 <= found.event_us.min() <= found.event_us.max() < HOUR_US
    assert found.withheld == pytest.approx(rows * gaps / (1 - gaps), abs=1)


def test_a_gap_silences_a_device_for_several_readings_in_a_row() -> None:
    found = regular(np.random.default_rng(7), 2000, HOUR_US, 1, 0.2, 1000)

    steps = np.diff(found.event_us)
    assert steps.max() > 20 * np.median(steps)


def test_more_rows_than_a_device_can_send_are_refused() -> None:
    with pytest.raises(ConfigError, match="10000 us or more between a device's rows"):
        regular(np.random.default_rng(1), 1_000_000, HOUR_US, 1, 0.0, 1000)


def test_more_rows_than_microseconds_are_refused() -> None:
    with pytest.raises(ConfigError, match="no more rows than microseconds"):
        irregular(np.random.default_rng(1), 11, 10, 1, 0.0, 1)


def test_heavy_choice_prefers_the_first_as_one_over_rank() -> None:
    counts = np.bincount(heavy_choice(np.random.default_rng(3), 10, 100_000), minlength=10)

    assert counts[0] / counts[4] == pytest.approx(5, rel=0.1)
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.1)
