"""Waits of ticks: the least slack that past answers needed, and a last tick that never turns back."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import count, repeat
from typing import Any

import numpy as np
import pytest

from lakehouse.algorithms.late_join.margin import judged_share, usual_margin
from lakehouse.algorithms.late_join.policy_by_stream import StreamSlack
from lakehouse.queries.aggregate.slack import slack_needed
from lakehouse.queries.runtime.progress import Clocks, Progress
from lakehouse.queries.runtime.recall.needed_slack import counted, learned, summed
from tests.oracles.queries.exact_aggregates import plain
from tests.queries.aggregate.exact_queries import SHAPES, Case, asked, case_of, query_of
from tests.queries.aggregate.kept import Kept

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


def with_recall(seed: int, kind: str) -> Case:
    """Return a random case whose ticks wait, in years in which doubles hold every microsecond."""
    cases = (case_of(each, kind) for each in count(seed, 1000))
    case = next(each for each in cases if 0 <= each.base_us < 2**52)
    text, _, _ = case.text.partition(" RECALL ")
    return replace(case, text=f"{text} RECALL 0.9 OVER 12 SECONDS")


def needed_by_definition(case: Case, kept: Kept) -> dict[tuple[int, Any], int]:
    """Return by tick and group the slack that the last row of each answer needed, -1 if all came before any time."""
    seen = [rows for own in kept.seen for rows in own]
    taken = {
        line: batch
        for rows in seen
        for line, batch in zip(rows["source_line"].to_pylist(), rows["taken"].to_pylist(), strict=True)
    }
    sides = [
        [row for row in case.of_side(side, case.rows) if passes(row) is True and row["line"] in taken]
        for side, passes in enumerate(case.filters)
    ]
    found = dict[tuple[int, Any], int]()
    for rows in case.joined.results(sides):
        came = max(kept.came_us[taken[row["line"]]] or 0 for row in rows)
        ends = zip(rows, case.joined.windows, strict=True)
        group = tuple(plain(rows[side][column]) for side, column in case.joined.groups)
        first = -(-max(row["event_us"] for row in rows) // case.every_us) * case.every_us
        last = min(row["event_us"] + window for row, window in ends)
        for tick in range(first, last + 1, case.every_us):
            needed = max(came - tick, -1) if came > 0 else -1
            found[tick, group] = max(found.get((tick, group), -1), needed)
    return found


@pytest.mark.parametrize("kind", SHAPES)
def test_an_answer_needs_the_slack_of_its_last_row_also_when_others_were_repaired_or_retracted(
    kind: str,
) -> None:
    retracted = 0
    for seed in range(12):
        case, drawn = with_recall(seed, kind), random.Random(seed)
        query = query_of(case, drawn)
        kept = asked(case, query, drawn)
        newest = kept.answers.sort_by("revision")
        keys = [newest[name].to_pylist() for name in kept.names]
        groups = (
            (tuple(map(plain, group)) for group in zip(*keys[1:], strict=True)) if keys[1:] else repeat(())
        )
        at = zip(keys[0], groups, strict=False)
        shown = dict(zip(at, slack_needed(query, newest)[1].tolist(), strict=True))
        expected = needed_by_definition(case, kept)
        assert {each: shown[each] for each in expected} == expected, (seed, case.text)
        # What rests on retracted rows alone needs none any more.
        assert all(shown[each] == -1 for each in shown.keys() - expected.keys())
        retracted += len(shown.keys() - expected.keys())
    assert retracted > 0
