"""One body for every window join: against the yardstick, in batches, restarted; and the shapes that go in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.late_join.contract import Batch, Clock
from tests.algorithms.late_join.streams import (
    CONDITIONS,
    POLICIES,
    WINDOW,
    batches,
    join_of,
    outcome_of,
    parts,
)
from tests.oracles.late_join.contract import LateJoin
from tests.oracles.late_join.k_slack import KSlack, LargestDelay, RecallModel
from tests.oracles.late_join.nested_loop import NestedLoop, as_set
from tests.oracles.late_join.whole_join import WholeJoin

METHODS: dict[str, Callable[[str], LateJoin]] = {
    "nested_loop": lambda condition: NestedLoop(CONDITIONS[condition], WINDOW),
    "k_slack_largest": lambda condition: KSlack(CONDITIONS[condition], WINDOW, LargestDelay(step_us=4)),
    "k_slack_model": lambda condition: KSlack(
        CONDITIONS[condition], WINDOW, RecallModel(0.8, 16, 4, basic_us=2)
    ),
    **{f"qjoin_{name}": partial(join_of, policy=name) for name in POLICIES},
}

every_method = pytest.mark.parametrize("make", METHODS.values(), ids=METHODS.keys())
moderate = settings(max_examples=14, deadline=None)
CONDITION = st.sampled_from(sorted(CONDITIONS))
CUTS = st.lists(st.integers(0, 40), max_size=4)


@pytest.mark.slow
@every_method
@moderate
@given(batch=batches(), condition=CONDITION)
def test_every_pair_found_is_a_pair_and_none_is_found_twice(
    make: Callable[[str], LateJoin], batch: Batch, condition: str
) -> None:
    found = make(condition).process(batch).pairs

    truth = as_set(METHODS["nested_loop"](condition).process(batch).pairs)
    assert as_set(found) <= truth
    assert len(as_set(found)) == len(found)


@every_method
@moderate
@given(batch=batches(), condition=CONDITION)
def test_a_batch_does_what_its_rows_do_one_by_one(
    make: Callable[[str], LateJoin], batch: Batch, condition: str
) -> None:
    whole, single = make(condition), make(condition)

    at_once = outcome_of(whole, [batch])

    assert at_once == outcome_of(single, parts(batch, range(len(batch))))
    assert whole.snapshot() == single.snapshot()


@every_method
@moderate
@given(batch=batches(), cuts=CUTS, condition=CONDITION)
def test_a_restart_after_every_batch_changes_nothing(
    make: Callable[[str], LateJoin], batch: Batch, cuts: list[int], condition: str
) -> None:
    join, found = make(condition), []

    for piece in parts(batch, cuts):
        found.append(join.process(piece))
        taken = join.snapshot()
        join = make(condition)
        join.restore(taken)
        assert join.snapshot() == taken

    unbroken = make(condition)
    assert [each for piece in found for each in piece.pairs.left.tolist()] == unbroken.process(
        batch
    ).pairs.left.tolist()
    assert join.snapshot() == unbroken.snapshot()


@every_method
@moderate
@given(batch=batches(), condition=CONDITION)
def test_every_step_keeps_the_invariants(
    make: Callable[[str], LateJoin], batch: Batch, condition: str
) -> None:
    join = make(condition)

    for piece in parts(batch, range(0, len(batch), 5)):
        join.process(piece)
        join.check()


@every_method
@moderate
@given(batch=batches(), later=batches(), condition=CONDITION)
def test_a_snapshot_is_not_changed_by_later_rows(
    make: Callable[[str], LateJoin], batch: Batch, later: Batch, condition: str
) -> None:
    join, untouched = make(condition), make(condition)
    join.process(batch)
    untouched.process(batch)
    taken = join.snapshot()

    join.process(later)

    assert taken == untouched.snapshot()


@every_method
@pytest.mark.parametrize("sides", [[], [0], [0, 0, 0], [1, 1]])
def test_an_empty_stream_has_no_pairs(make: Callable[[str], LateJoin], sides: list[int]) -> None:
    join = make("equality")

    found = join.process(Batch.of(sides, range(len(sides)), numbers=np.zeros((len(sides), 2))))

    assert (len(found.pairs), len(found.log), len(found.refused)) == (0, 0, 0)
    join.check()


@every_method
def test_a_snapshot_of_another_method_is_refused(make: Callable[[str], LateJoin]) -> None:
    stranger = WholeJoin(CONDITIONS["equality"], WINDOW + 1, POLICIES["none"]()).snapshot()

    with pytest.raises(ValueError, match="expected a snapshot of"):
        make("equality").restore(stranger)


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="columns of one length"):
        Batch.of([0, 1], [5])


def test_a_third_side_is_refused() -> None:
    with pytest.raises(ValueError, match="sides 0"):
        Batch.of([0, 2], [5, 6])


def test_times_beyond_the_ends_are_refused() -> None:
    with pytest.raises(ValueError, match=r"within \+-2\^60"):
        Batch.of([0], [2**61])


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="not negative"):
        Clock(idle_us=-1).limits()
