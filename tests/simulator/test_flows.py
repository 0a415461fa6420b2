from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lakehouse.simulator.flows import FLOWS, UNSET_DURATION
from lakehouse.simulator.form import ABSENT
from lakehouse.simulator.plan import DAY_US


def _flows(start_us: int, rows: int = 50_000) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    timeline = FLOWS.timeline(rng, rows, DAY_US, 100, 0.0, FLOWS.tick_us)
    return FLOWS.columns(rng, timeline, start_us, 100)


def test_sizes_have_a_heavy_tail() -> None:
    size = np.sort(_flows(0)["bytes"])

    assert size[-500:].sum() > size[:-500].sum()
    assert size[0] >= 60


def test_no_identity_comes_twice_even_in_the_next_run() -> None:
    both = [*_flows(0)["uid"].to_pylist(), *_flows(DAY_US)["uid"].to_pylist()]

    assert len(set(both)) == len(both)


def test_some_connections_have_no_duration() -> None:
    assert np.mean(_flows(0)["duration"] == ABSENT) == pytest.approx(UNSET_DURATION, rel=0.1)
