from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.algorithms.ingest.confirmed import FEW, Reach, confirmed

STEP, LEAST = 100, -(10**6)
Times = st.lists(st.integers(-3000, 3000), max_size=40)


def plainly(times: Sequence[int]) -> int | None:
    """From the lower median on, in steps of at most ``STEP``: sorted, one time after the other."""
    ordered, found = sorted(times), None
    for place, time in enumerate(ordered):
        if found is not None and place > (len(ordered) - 1) // 2 and time - found > STEP:
            break
        found = time
    return found


def reached(times: Sequence[int]) -> int | None:
    return Reach(STEP).add(np.array(times, np.int64)).newest_us


def followed(batches: Sequence[Sequence[int]]) -> list[int | None]:
    """What is confirmed after each batch."""
    newest: int | None = None
    earlier: int | None = None
    found = []
    for times in batches:
        own = reached(times)
        newest = confirmed((newest, earlier), own, len(times), STEP, LEAST)
        earlier = earlier if own is None else own
        found.append(newest)
    return found


@given(Times, st.integers(0, 40))
def test_a_batch_reaches_the_same_time_in_any_pieces_and_order(times: list[int], cut: int) -> None:
    pieces = Reach(STEP)
    for piece in (times[cut:], times[:cut]):
        pieces.add(np.array(piece, np.int64))
    assert pieces.newest_us == reached(times) == plainly(times)


@given(st.lists(st.integers(0, STEP), min_size=1, max_size=20), st.data())
def test_fewer_rows_than_the_others_move_no_batch(times: list[int], data: st.DataObject) -> None:
    ahead = st.integers(2 * STEP + 1, 10**12)
    wrong = data.draw(st.lists(ahead, max_size=len(times)))
    before = data.draw(st.lists(st.integers(-(10**12), -STEP), max_size=max(0, len(times) - len(wrong) - 1)))
    assert reached([*wrong, *times, *before]) in range(max(times) + 1)
    assert reached([*wrong, *times]) in range(max(times) + 1)


@pytest.mark.parametrize(
    ("batches", "after"),
    [
        ([[0, 1, 2]], [2]),
        ([[0, 1, 2], [90]], [2, 90]),
        ([[0, 1, 2], [5000], [7], [8]], [2, 2, 7, 8]),
        # An outage: the second batch confirms what both have reached.
        ([[0, 1, 2], [5000, 5001, 5002], [5050], [5060]], [2, 2, 5002, 5060]),
        ([[0, 1, 2], [9000], [], [8000, 8001]], [2, 2, 2, 8001]),
        ([[0, 1, 2], [9000], [3], [9000], [4], [9000]], [2, 2, 3, 3, 4, 4]),
        # Nothing before the first row tells whether it is right.
        ([[9000], [0, 1, 2], [3]], [LEAST, 2, 3]),
        ([[0], [9000], [3]], [LEAST, 0, 3]),
        ([[], [0]], [None, LEAST]),
    ],
)
def test_a_jump_is_held_until_the_next_batch_has_made_it_too(
    batches: list[list[int]], after: list[int | None]
) -> None:
    assert followed(batches) == after


@given(
    st.lists(st.lists(st.integers(0, STEP), min_size=FEW, max_size=9), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 8), st.integers(-(10**9), 10**9)), max_size=3),
)
def test_what_is_confirmed_never_moves_back_and_is_never_ahead_of_the_right_rows(
    batches: list[list[int]], wrong: list[tuple[int, int]]
) -> None:
    placed = [list(times) for times in batches]
    for number, time in {number: time for number, time in wrong if number < len(batches)}.items():
        placed[number].append(time)
    if len(batches) < len(wrong):
        # A batch of its own, between two right ones.
        placed.insert(1, [10**9])
    found = [each for each in followed(placed) if each is not None]
    assert found == sorted(found)
    assert max(found) <= 2 * STEP
