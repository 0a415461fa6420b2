"""The centre on the driver: what counts come to, and that a restart changes nothing. No JVM."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.multiway_join.contract import Vector
from lakehouse.algorithms.multiway_join.exhaustive import Smje
from lakehouse.algorithms.multiway_join.heuristic import Smjh
from lakehouse.algorithms.multiway_join.synopsis import pack, unpack
from lakehouse.queries.multiway.centre import Planner, pack_rows
from tests.oracles.multiway_join.vectors import check_centre
from tests.queries.declared_streams import SECOND, multiway_of
from tests.queries.multiway.test_parse import HEAD, STREAMS

QUERY = multiway_of("three", HEAD, STREAMS)
EVEN = ((0.0, 1.0, 1.0), (1.0, 0.0, 1.0), (1.0, 1.0, 0.0))
SLOTS = 7
# Of one batch: side, slot, until when its window counts in seconds, rows.
BATCHES = st.lists(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, SLOTS - 1), st.integers(-9, 9), st.integers(1, 3)),
        max_size=12,
        unique_by=lambda row: row[:3],
    ),
    max_size=5,
)


def counts_of(rows: list[tuple[int, int, int, int]], now: int = 0) -> pa.Table:
    """Return counts as tasks send them, each of one slot."""
    side, slot, until, count = np.array(rows, np.int64).reshape(-1, 4).T
    packed = [pack(Vector.of([one], [many])) for one, many in zip(slot, count, strict=True)]
    columns = {"side": side, "until_us": (until + now) * SECOND}
    return pa.table(columns | {"packed": pa.array(packed, pa.binary())})


@settings(deadline=None)  # The first call loads Arrow's own engine and compiled kernels.
@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 9)), max_size=30),
    cut=st.integers(0, 30),
)
def test_a_task_sends_the_counts_of_its_rows(rows: list[tuple[int, int, int]], cut: int) -> None:
    columns = [("side", pa.int32()), ("slot", pa.int32()), ("until_us", pa.int64())]
    names = [name for name, _ in columns]
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], pa.schema(columns))
    parts = [*table.slice(0, cut).to_batches(), *table.slice(cut).to_batches()]

    found = [group for batch in pack_rows(parts) for group in batch.to_pylist()]

    counted: Counter[tuple[int, int, int]] = Counter()
    for group in found:
        vector = unpack(group["packed"])
        for slot, count in zip(vector.entries.tolist(), vector.counts.tolist(), strict=True):
            counted[group["side"], slot, group["until_us"]] += count
    assert counted == Counter(rows)


@settings(deadline=None)
@given(batches=BATCHES)
def test_windows_that_are_counted_later_give_the_plans_of_those_that_were_counted_batch_by_batch(
    batches: list[list[tuple[int, int, int, int]]],
) -> None:
    whole, rows = Planner(QUERY, EVEN, SLOTS, {}), [row for batch in batches for row in batch]
    for batch in batches:
        whole.plan(counts_of(batch), None)
    later = Planner(QUERY, EVEN, SLOTS, {})
    assert not Planner(QUERY, EVEN, 8, whole.state()).knows_windows
    assert not later.knows_windows and Planner(QUERY, EVEN, SLOTS, whole.state()).knows_windows

    later.remember(counts_of(rows), None)

    check_centre(later.centre)
    found, expected = (planner.plan(counts_of(rows), 9 * SECOND) for planner in (later, whole))
    assert [(block.visits, block.rows, block.held) for block in found] == [
        (block.visits, block.rows, block.held) for block in expected
    ]


def test_what_all_others_have_leaves_by_the_cheapest_way() -> None:
    dear = ((0.0, 1.0, 9.0), (1.0, 0.0, 1.0), (9.0, 1.0, 0.0))
    planner = Planner(QUERY, dear, SLOTS, {})

    blocks = planner.plan(
        counts_of([(1, 3, 0, 2), (2, 3, 0, 1), (2, 4, 0, 5), (0, 3, 0, 1), (0, 4, 0, 6)]), None
    )

    assert [block.visits for block in blocks] == [(), (), (1, 0)]
    last = blocks[2]
    assert (last.rows, last.leaving, last.held, last.slots.tolist()) == (6, 1, 6, [3])
    assert last.plan.sizes.tolist() == [1, 2, 2]
    assert last.shares == (1.0, 1 / 7)


@settings(deadline=None)
@given(batches=BATCHES)
def test_a_restart_after_every_batch_changes_no_plan(batches: list[list[tuple[int, int, int, int]]]) -> None:
    whole = Planner(QUERY, EVEN, SLOTS, {})
    state: dict[str, bytes] = {}
    for now, rows in enumerate(batches):
        counts, at_us = counts_of(rows, now), None if now == 0 else now * SECOND
        again = Planner(QUERY, EVEN, SLOTS, state)

        expected, found = whole.plan(counts, at_us), again.plan(counts, at_us)

        check_centre(again.centre)
        state = again.state()
        assert [(block.visits, block.rows, block.held) for block in found] == [
            (block.visits, block.rows, block.held) for block in expected
        ]
        assert all(
            np.array_equal(one.slots, two.slots) and one.plan.cost == two.plan.cost
            for one, two in zip(found, expected, strict=True)
        )
        assert state == whole.state()


def test_a_query_may_ask_for_the_cheap_order() -> None:
    named = {
        routing: Planner(multiway_of("three", f"{HEAD} ROUTING {routing}", STREAMS), EVEN, SLOTS, {})
        for routing in ("SMJE", "SMJH")
    }

    assert isinstance(Planner(QUERY, EVEN, SLOTS, {}).centre.ordering, Smje)
    assert isinstance(named["SMJE"].centre.ordering, Smje)
    assert isinstance(named["SMJH"].centre.ordering, Smjh)


def test_where_ways_cost_nothing_the_fewest_rows_are_moved() -> None:
    free = ((0.0, 0.0, 0.0),) * 3
    planner = Planner(QUERY, free, SLOTS, {})

    blocks = planner.plan(counts_of([(0, 1, 0, 3), (1, 1, 0, 1), (2, 1, 0, 2)]), None)

    assert blocks[2].visits == (1, 0)


def test_ways_cost_what_they_cost_now_and_not_what_they_did() -> None:
    before = Planner(QUERY, EVEN, SLOTS, {})
    before.plan(counts_of([(0, 1, 0, 1), (1, 1, 0, 3)]), None)
    dear = ((0.0, 1.0, 1.0), (1.0, 0.0, 50.0), (1.0, 50.0, 0.0))

    block = Planner(QUERY, dear, SLOTS, before.state()).plan(counts_of([(2, 1, 0, 1)]), None)[2]

    assert block.visits == (0, 1)
