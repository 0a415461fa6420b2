"""The whole method against the yardstick: any order of blocks, cut or restarted, with every ordering and synopsis."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.multiway_join.contract import Cost, Query, Sending, Sites
from tests.algorithms.multiway_join.streams import (
    ORDERINGS,
    SENDINGS,
    SYNOPSES,
    Stream,
    block_of,
    join_of,
    queries,
    results_of,
    run,
    streams,
    truth_of,
)
from tests.oracles.multiway_join.block import Block
from tests.oracles.multiway_join.window_join import Outcome

every_ordering = pytest.mark.parametrize("ordering", ORDERINGS)
every_synopsis = pytest.mark.parametrize("synopsis", SYNOPSES)
moderate = settings(max_examples=25, deadline=None)
PAIR = Query(Sites.of("ab", [[0, 5], [5, 0]]), (10, 10))


@every_ordering
@every_synopsis
@moderate
@given(data=st.data(), query=queries(), sending=SENDINGS)
def test_the_results_are_those_of_the_definition_each_once(
    ordering: str, synopsis: str, data: st.DataObject, query: Query, sending: Sending
) -> None:
    stream = data.draw(streams(query))

    found = results_of(run(join_of(query, ordering, synopsis, sending), stream))

    assert found == truth_of(query, stream)


@every_synopsis
@moderate
@given(data=st.data(), query=queries(), sending=SENDINGS, seed=st.integers(0, 99))
def test_the_order_in_which_the_blocks_of_a_time_come_plays_no_part(
    synopsis: str, data: st.DataObject, query: Query, sending: Sending, seed: int
) -> None:
    stream: Stream = data.draw(streams(query))
    shuffled = [(at_us, random.Random(seed).sample(blocks, len(blocks))) for at_us, blocks in stream]

    found = [join_of(query, "smje", synopsis, sending) for _ in range(2)]
    results = [results_of(run(join, each)) for join, each in zip(found, (stream, shuffled), strict=True)]

    assert results[0] == results[1]


@every_ordering
@moderate
@given(data=st.data(), query=queries())
def test_a_block_finds_what_its_rows_find_one_by_one(
    ordering: str, data: st.DataObject, query: Query
) -> None:
    stream: Stream = data.draw(streams(query))
    single = [(at_us, [row for block in blocks for row in rows_of(block)]) for at_us, blocks in stream]

    found = [results_of(run(join_of(query, ordering), each)) for each in (stream, single)]

    assert found[0] == found[1]


@every_ordering
@every_synopsis
@moderate
@given(data=st.data(), query=queries(), sending=SENDINGS)
def test_a_restart_after_every_time_changes_nothing(
    ordering: str, synopsis: str, data: st.DataObject, query: Query, sending: Sending
) -> None:
    stream, outcomes = data.draw(streams(query)), []
    join, unbroken = (join_of(query, ordering, synopsis, sending) for _ in range(2))

    for at_us, blocks in stream:
        outcomes.append(join.advance(at_us, blocks))
        taken = join.snapshot()
        join = join_of(query, ordering, synopsis, sending)
        join.restore(taken)
        assert join.snapshot() == taken

    whole = run(unbroken, stream)
    assert [each.results.tolist() for each in outcomes] == [each.results.tolist() for each in whole]
    assert [costs_of(each) for each in outcomes] == [costs_of(each) for each in whole]
    assert join.snapshot() == unbroken.snapshot()


@every_ordering
@moderate
@given(data=st.data(), query=queries(), sending=SENDINGS)
def test_with_exact_vectors_every_block_moves_and_costs_what_was_planned(
    ordering: str, data: st.DataObject, query: Query, sending: Sending
) -> None:
    for outcome in run(join_of(query, ordering, "dense", sending), data.draw(streams(query))):
        for move in outcome.moves:
            assert move.sizes.tolist() == move.plan.sizes.tolist()
            assert move.cost.total == pytest.approx(move.plan.cost.total)


@moderate
@given(data=st.data(), query=queries(), sending=SENDINGS)
def test_with_hashed_vectors_no_block_moves_more_than_was_planned(
    data: st.DataObject, query: Query, sending: Sending
) -> None:
    for outcome in run(join_of(query, "smje", "hashed", sending), data.draw(streams(query))):
        for move in outcome.moves:
            assert np.all(move.sizes <= move.plan.sizes)
            assert move.cost.total <= move.plan.cost.total + 1e-9


@every_synopsis
@moderate
@given(data=st.data(), query=queries())
def test_every_step_keeps_the_invariants(synopsis: str, data: st.DataObject, query: Query) -> None:
    join = join_of(query, "smjh", synopsis)

    for at_us, blocks in data.draw(streams(query)):
        join.advance(at_us, blocks)
        join.check()


@moderate
@given(data=st.data(), query=queries(), sending=SENDINGS)
def test_done_again_from_a_snapshot_a_time_has_the_same_outcome(
    data: st.DataObject, query: Query, sending: Sending
) -> None:
    join = join_of(query, "lottery", "dense", sending)

    for at_us, blocks in data.draw(streams(query)):
        before = join.snapshot()
        first, after = join.advance(at_us, blocks), join.snapshot()
        join.restore(before)
        again = join.advance(at_us, blocks)

        assert (again.results.tolist(), costs_of(again)) == (first.results.tolist(), costs_of(first))
        assert join.snapshot() == after


def test_most_random_streams_have_results() -> None:
    having = []

    @settings(max_examples=30, deadline=None, database=None, derandomize=True)
    @given(data=st.data(), query=queries())
    def count(data: st.DataObject, query: Query) -> None:
        having.append(len(truth_of(query, data.draw(streams(query)))) > 0)

    count()
    assert np.mean(having) > 0.4


def test_rows_that_the_filter_keeps_at_home_are_found_by_a_later_block() -> None:
    join = join_of(PAIR)

    first = join.advance(0, [block_of("a", [7, 8])])
    later = join.advance(4, [block_of("b", [8])])

    assert (first.moves[0].sizes.tolist(), len(first.results)) == ([0], 0)
    assert later.results.tolist() == [[1, 0]]


def test_blocks_of_one_time_meet_each_other_once() -> None:
    found = join_of(PAIR).advance(0, [block_of("b", [7]), block_of("a", [7])])

    assert found.results.tolist() == [[0, 0]]


def test_a_row_is_in_its_window_as_long_as_that_is_and_not_longer() -> None:
    join = join_of(Query(PAIR.sites, (3, 10)))
    join.advance(0, [block_of("a", [7])])

    found = [len(join.advance(at_us, [block_of("b", [7], at_us)]).results) for at_us in (3, 4)]

    assert found == [1, 0]


def test_null_keys_never_join_and_are_not_stored() -> None:
    join = join_of(PAIR)

    found = join.advance(0, [block_of("a", [None, 0]), block_of("b", [None, None])])

    assert len(found.results) == 0
    assert [len(window.key) for window in join.windows] == [1, 0]


def test_no_blocks_have_no_results() -> None:
    outcome = join_of(PAIR).advance(0, [])

    assert (outcome.results.shape, outcome.moves, outcome.expiry.total) == ((0, 2), (), 0.0)


def test_a_block_of_an_unknown_site_is_refused_before_anything_is_stored() -> None:
    join = join_of(PAIR)
    before = join.snapshot()

    with pytest.raises(ValueError, match="one of the sites a, b, found 'c'"):
        join.advance(0, [block_of("a", [7]), block_of("c", [7])])

    assert join.snapshot() == before


def test_a_snapshot_of_another_join_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a snapshot of"):
        join_of(PAIR).restore(join_of(Query(PAIR.sites, (10, 11))).snapshot())


def test_check_finds_a_window_that_the_centre_does_not_know() -> None:
    join = join_of(PAIR)
    join.advance(0, [block_of("a", [7])])
    join.windows[1].add(np.array([7]), np.array([0]), 0)

    with pytest.raises(AssertionError, match="not of the rows in its window"):
        join.check()


def rows_of(block: Block) -> list[Block]:
    """Return a block of one row for each of its rows."""
    return [
        Block.of(block.site, *(column[at : at + 1] for column in (block.key, block.row, block.missing)))
        for at in range(len(block))
    ]


def costs_of(outcome: Outcome) -> list[Cost]:
    """Return all costs of an outcome."""
    return [outcome.expiry, *(move.cost for move in outcome.moves)]
