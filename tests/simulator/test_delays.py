from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.simulator.delays import CONNECTION_MS, QUANTILES, RADIO_MS, draw, exactly_late
from lakehouse.simulator.plan import Delay, DelayKind
from lakehouse.simulator.timeline import Ints
from tests.simulator.plans import DELAYS


@given(delay=DELAYS, seed=st.integers(0, 99), tick_us=st.sampled_from((1, 1000)))
def test_no_delay_is_negative_longer_than_its_maximum_or_between_ticks(
    delay: Delay, seed: int, tick_us: int
) -> None:
    drawn = draw(np.random.default_rng(seed), delay, CONNECTION_MS, 500, tick_us)

    assert len(drawn) == 500
    assert 0 <= drawn.min() <= drawn.max() <= delay.max_us
    assert (drawn % tick_us == 0).all()


@pytest.mark.parametrize(("kind", "median_us"), [("exponential", 693_147), ("pareto", 529_134)])
def test_delays_are_distributed_around_the_mean_asked_for(kind: DelayKind, median_us: int) -> None:
    """Medians of distributions whose mean is a second: a Pareto's own mean takes too many draws to settle."""
    drawn = draw(np.random.default_rng(1), Delay(kind, 1_000_000, 10**12), RADIO_MS, 200_000, 1)

    assert np.median(drawn) == pytest.approx(median_us, rel=0.02)


@pytest.mark.parametrize("measured_ms", [RADIO_MS, CONNECTION_MS], ids=["radio", "connection"])
def test_measured_delays_come_back_with_their_quantiles(measured_ms: npt.NDArray[np.float64]) -> None:
    drawn = draw(np.random.default_rng(1), Delay("measured", max_us=10**12), measured_ms, 200_000, 1)

    below = np.mean(drawn <= 1000 * measured_ms[:, np.newaxis], axis=1)
    assert below == pytest.approx(QUANTILES, abs=0.003)


def test_quantiles_are_a_table_from_least_to_most() -> None:
    assert (QUANTILES[0], QUANTILES[-1]) == (0, 1)
    assert (np.diff([QUANTILES, RADIO_MS, CONNECTION_MS]) >= 0).all()


@given(
    gaps=st.lists(st.integers(0, 5), min_size=1, max_size=60),
    usable=st.data(),
    share=st.sampled_from((0.0, 0.3, 0.9)),
    seed=st.integers(0, 99),
)
def test_chosen_rows_are_late_and_no_other(
    gaps: list[int], usable: st.DataObject, share: float, seed: int
) -> None:
    event_us = np.cumsum(np.array(gaps, np.int64))
    is_usable = np.array(usable.draw(st.lists(st.booleans(), min_size=len(gaps), max_size=len(gaps))))

    wait = exactly_late(np.random.default_rng(seed), event_us, np.zeros_like(event_us), is_usable, share, 1)

    able = is_usable & (event_us < event_us[is_usable].max(initial=0))
    assert _late(event_us, wait, is_usable) == min(round(share * is_usable.sum()), able.sum())


def _late(event_us: Ints, wait: Ints, is_usable: npt.NDArray[np.bool_]) -> int:
    order = [row for row in np.argsort(event_us + wait, kind="stable") if is_usable[row]]
    return sum(event_us[row] < event_us[order[: place + 1]].max() for place, row in enumerate(order))
