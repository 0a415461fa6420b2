"""Waits of ticks: the least slack that past answers needed, and a last tick that never turns back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from lakehouse.algorithms.late_join.margin import judged_share, usual_margin
from lakehouse.algorithms.late_join.policy_by_stream import StreamSlack
from lakehouse.queries.runtime.progress import Clocks, Progress
from lakehouse.queries.runtime.recall.needed_slack import counted, learned, summed

SECOND = 1_000_000
RECALL = 0.9


@dataclass(frozen=True)
class Asked:
    """A query of two streams that wait for each other."""

    name: str = "asked"
    streams: tuple[str, ...] = ("a", "b")
    idle_us: int | None = None
    ahead_us: int | None = None


def policy() -> StreamSlack:
    return StreamSlack([10 * SECOND], RECALL, 60 * SECOND, SECOND)


@pytest.mark.parametrize("seed", range(5))
def test_slack_is_the_least_that_covers_the_share_of_past_answers(seed: int) -> None:
    dice, one = np.random.default_rng(seed), policy()
    needed = np.where(dice.random(500) < 0.5, -1, dice.exponential(20 * SECOND, 500)).astype(np.int64)
    results = counted(one, np.zeros_like(needed), needed)
    lags = counted(one, np.zeros(9, np.int64), -np.ones(9, np.int64))
    learned(one, 100 * SECOND, (0,), [results], [lags])
    covered = np.array([np.count_nonzero(needed < most) for most in one.grid])
    share = judged_share(RECALL, usual_margin(RECALL))
    assert one.latest_us(100 * SECOND) == (one.grid[np.argmax(covered >= share * len(needed))],)


def test_an_answer_that_is_revised_counts_with_what_it_needs_now_and_no_longer_with_what_it_needed() -> None:
    one, side = policy(), np.zeros(10, np.int64)
    was, now = np.full(10, -1), np.full(10, 7 * SECOND)
    moved = [counted(one, side, was), counted(one, side, now) + counted(one, side, was, -1)]
    assert (summed(one, moved) == summed(one, [counted(one, side, now)])).all()


def test_the_last_tick_never_turns_back_and_a_restart_changes_no_choice() -> None:
    one = policy()
    before, nothing = Progress((90 * SECOND, 80 * SECOND), 75 * SECOND), Progress((None, None), None)
    newest = 110 * SECOND, 100 * SECOND
    assert Clocks(Asked(), before, newest, 30 * SECOND).reached().until_us == 75 * SECOND
    assert Clocks(Asked(), before, newest, 5 * SECOND).reached().until_us == 95 * SECOND
    assert Clocks(Asked(), nothing, newest, 30 * SECOND).reached().until_us == 70 * SECOND
    assert Clocks(Asked(), nothing, (None, None), 30 * SECOND).reached() == nothing

    needed = np.arange(0, 40, dtype=np.int64) * SECOND
    results = counted(one, np.zeros_like(needed), needed)
    state = learned(one, 100 * SECOND, (30 * SECOND,), [results], [])
    again = policy()
    again.restore(state)
    assert again.latest_us(101 * SECOND) == one.latest_us(101 * SECOND) != (0,)
