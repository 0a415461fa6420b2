from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from lakehouse.algorithms.scheduling.contract import Chain, Join, Operator, Query
from lakehouse.algorithms.scheduling.network import NOWHERE, Network
from tests.algorithms.scheduling.workloads import networks, one_stream

TWO_STREAMS = Network.of(
    [
        Query(
            "q",
            Chain(
                Join(
                    "j",
                    Chain("R", (Operator("r", True),)),
                    Chain("S", (Operator("s1", True), Operator("s2", True))),
                ),
                (Operator("last"),),
            ),
        )
    ]
)


def names(network: Network) -> list[str]:
    return [network.name_of(operator) for operator in range(network.size)]


def test_a_chain_goes_from_its_stream_to_the_results() -> None:
    network = one_stream(True, False, True)

    assert names(network) == ["op0", "op1", "op2"]
    assert network.wiring.into.tolist() == [2, 4, NOWHERE]
    assert network.wiring.stream.tolist() == [0, -1, -1, -1, -1, -1]


def test_a_join_reads_two_chains() -> None:
    wiring = TWO_STREAMS.wiring

    assert names(TWO_STREAMS) == ["r", "s1", "s2", "j", "last"]
    assert wiring.into.tolist() == [6, 4, 7, 8, NOWHERE]
    assert TWO_STREAMS.leaves(0).tolist() == [0, 2]
    assert wiring.below[wiring.below_from[7] : wiring.below_from[8]].tolist() == [4, 2]


def test_a_join_may_read_a_stream_directly_and_joins_nest() -> None:
    inner = Join("inner", Chain("R"), Chain("S"))
    network = Network.of([Query("q", Chain(Join("outer", Chain(inner), Chain("T"))))])

    assert names(network) == ["inner", "outer"]
    assert network.wiring.into.tolist() == [2, NOWHERE]
    assert network.wiring.stream.tolist() == [0, 1, -1, 2]


def test_queries_share_streams_and_nothing_else() -> None:
    chain = Chain("s", (Operator("a", True),))
    network = Network.of([Query("one", chain), Query("two", chain, 5)])

    assert network.streams == ("s",)
    assert network.wiring.query.tolist() == [0, 1]
    assert network.deadline_us == 5


def test_filters_change_places_inside_their_run_only() -> None:
    network = one_stream(True, True, False, True, True)

    assert [segment.tolist() for segment in network.segments] == [[0, 1], [3, 4]]
    assert network.is_permuted(np.array([1, 0, 2, 4, 3]))
    assert not network.is_permuted(np.array([3, 1, 2, 0, 4]))
    assert not network.is_permuted(np.array([0, 0, 2, 3, 4]))


def test_filters_do_not_change_places_across_a_join() -> None:
    assert [segment.tolist() for segment in TWO_STREAMS.segments] == [[1, 2]]


@settings(max_examples=50, deadline=None)
@given(network=networks())
def test_every_position_is_fed_by_one_that_stands_before_it(network: Network) -> None:
    into = network.wiring.into
    fed = np.concatenate([into[into != NOWHERE], np.flatnonzero(network.wiring.stream != NOWHERE)])
    inputs = [2 * p + side for p in range(network.size) for side in range(1 + int(network.wiring.is_join[p]))]

    assert sorted(fed.tolist()) == inputs
    assert all(queue == NOWHERE or queue // 2 > position for position, queue in enumerate(into.tolist()))
    assert np.count_nonzero(into == NOWHERE) == len(network.queries)


FILTER = Chain("s", (Operator("a"),))


@pytest.mark.parametrize(
    ("queries", "told"),
    [
        ([], "at least one query"),
        ([Query("", FILTER)], "found an empty one"),
        ([Query("q", FILTER), Query("q", FILTER)], "found twice: q"),
        ([Query("q", Chain("s"))], "query q: expected at least one operator"),
        ([Query("q", Chain("", (Operator("a"),)))], "name of a stream"),
        ([Query("q", Chain("s", (Operator("a"), Operator("a"))))], "query q: operators: .* twice: a"),
        ([Query("q", FILTER, 0)], "query q: expected a deadline from 1 us, found 0"),
    ],
)
def test_queries_that_make_no_network_are_refused(queries: list[Query], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Network.of(queries)
