"""Random small streams for the tests of window joins: rows, conditions, policies, and joins made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lakehouse.algorithms.late_join.conditions import Band, Comparison, Condition, Distance, Equality
from lakehouse.algorithms.late_join.contract import Batch, Clock, Log, Outcome, Pairs
from lakehouse.algorithms.late_join.policy import SlackPolicy
from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
from lakehouse.algorithms.late_join.policy_paper import PaperSlack
from lakehouse.algorithms.late_join.policy_per_source import PerSource
from tests.oracles.late_join.constant_slack import ConstantSlack
from tests.oracles.late_join.contract import LateJoin
from tests.oracles.late_join.whole_join import WholeJoin

WINDOW = 6
CONDITIONS: dict[str, Condition] = {
    "equality": Equality(),
    "band": Band(1.5),
    "distance": Distance(2.0),
    "equality_where": Equality((Comparison(0, "<=", 1, 1.0), Comparison(1, "!=", 1))),
    "band_where": Band(0.0, column=1, where=(Comparison(0, ">", 0),)),
    "distance_where": Distance(3.0, (1, 0), (Comparison(0, "<", 0, 0.5),)),
}
POLICIES: dict[str, Callable[[], SlackPolicy]] = {
    "none": lambda: ConstantSlack(0, 0, 1000),
    "constant": lambda: ConstantSlack(2, 5, 4),
    "needed_slack": lambda: NeededSlack(0.8, 16, 4, granularity_us=1, remembered=2),
    "per_source": lambda: PerSource(0.8, 16, 4, granularity_us=1, remembered=2, gaps=1.0, seen=2),
    "sparing": lambda: PerSource(
        0.8, 16, 4, granularity_us=1, remembered=2, gaps=1.0, seen=2, spared=0.5, few=0
    ),
    "paper_history": lambda: PaperSlack(0.8, 16, 4, basic_us=2, granularity_us=1),
    "paper_recent": lambda: PaperSlack(0.8, 16, 4, basic_us=2, granularity_us=1, reading="recent"),
}
NUMBERS = st.integers(-6, 6).map(lambda number: number / 2) | st.sampled_from(
    [np.nan, np.inf, -np.inf, 1e300]
)
ROW = st.tuples(st.integers(0, 1), st.integers(-25, 2), st.integers(0, 2), st.booleans(), NUMBERS, NUMBERS)


@st.composite
def batches(draw: Any, max_size: int = 40) -> Batch:
    """Rows whose time goes on by one a row, each late by up to 25 or early by up to 2; some keys are null."""
    rows = draw(st.lists(ROW, max_size=max_size))
    side, behind, key, odd, x, y = zip(*rows, strict=True) if rows else ((),) * 6
    event = np.arange(len(rows)) + np.array(behind, np.int64)
    missing = [flag and number == 2 for flag, number in zip(odd, key, strict=True)]
    numbers = np.array([x, y]).T.reshape(-1, 2)
    return Batch.of(side, event, arrival_us=np.arange(len(rows)), key=key, missing=missing, numbers=numbers)


def join_of(condition: str, policy: str = "constant", clock: Clock | None = None) -> WholeJoin:
    """Return an empty join."""
    return WholeJoin(CONDITIONS[condition], WINDOW, POLICIES[policy](), clock)


def parts(batch: Batch, cuts: Iterable[int]) -> list[Batch]:
    """Return a batch cut at some places."""
    ends = [0, *sorted(min(cut, len(batch)) for cut in cuts), len(batch)]
    return [batch[start:end] for start, end in pairwise(ends)]


def outcome_of(join: LateJoin, pieces: Iterable[Batch]) -> list[Any]:
    """Return everything that came out of some batches, as plain lists."""
    found = [join.process(piece) for piece in pieces]
    return columns(found)


def columns(found: list[Outcome]) -> list[Any]:
    """Return pairs and log as one list per column."""
    pairs = [
        [value for each in found for value in getattr(each.pairs, name).tolist()]
        for name in Pairs.__dataclass_fields__
    ]
    log = [
        [value for each in found for value in getattr(each.log, name).tolist()]
        for name in Log.__dataclass_fields__
    ]
    return [*pairs, *log]
