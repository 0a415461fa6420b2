"""Random small queries, trips and streams for the tests of joins across sites, and joins made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lakehouse.algorithms.multiway_join.centre import Centre
from lakehouse.algorithms.multiway_join.contract import Ordering, Query, Sending, Sites, Trip
from lakehouse.algorithms.multiway_join.cost import legs_of
from lakehouse.algorithms.multiway_join.exhaustive import Smje
from lakehouse.algorithms.multiway_join.heuristic import Smjh
from lakehouse.algorithms.multiway_join.synopsis import HashedSynopsis, Synopsis
from tests.oracles.multiway_join.block import Block
from tests.oracles.multiway_join.dense_synopsis import DenseSynopsis
from tests.oracles.multiway_join.fixed_order import FixedOrder
from tests.oracles.multiway_join.lottery import Lottery
from tests.oracles.multiway_join.nested_loop import NestedLoop
from tests.oracles.multiway_join.window_join import MultiwayJoin, Outcome

NAMES = ("north", "east", "south", "west", "far", "high", "low", "deep")
ORDERINGS: dict[str, Callable[[int], Ordering]] = {
    "smje": lambda sites: Smje(),
    "smjh": lambda sites: Smjh(),
    "lottery": Lottery,
    "fixed_order": lambda sites: FixedOrder(),
}
# Five slots for six keys: some entries are of several keys.
SYNOPSES: dict[str, Callable[[int], Synopsis]] = {
    "dense": DenseSynopsis,
    "hashed": lambda sites: HashedSynopsis(sites, slots=5),
}
KEYS = 6
SENDINGS = st.builds(Sending, filters=st.booleans(), is_factorised=st.booleans(), is_compact=st.booleans())
# What comes at one time: blocks in the order in which they come, a site of them with keys, None for null.
Interval = list[Block]
Stream = list[tuple[int, Interval]]


@st.composite
def transfers(draw: Any, sites: int) -> Any:
    """Costs of 0 to 10 between all sites, not the same both ways."""
    costs = draw(st.lists(st.integers(0, 10), min_size=sites * sites, max_size=sites * sites))
    return np.array(costs, np.float64).reshape(sites, sites) * (1 - np.eye(sites))


@st.composite
def queries(draw: Any, least: int = 2, most: int = 4) -> Query:
    """Queries over some sites, each with a window or none, asked by somebody or nobody."""
    n = draw(st.integers(least, most))
    windows = draw(st.lists(st.none() | st.integers(0, 3), min_size=n, max_size=n))
    asker = draw(st.none() | st.sampled_from(NAMES[:n]))
    return Query(Sites.of(NAMES[:n], draw(transfers(n))), tuple(windows), asker)


@st.composite
def trips(draw: Any, most: int = 5, is_filtered: bool = False) -> Trip:
    """Trips of blocks with at least a row; filtered, every stop has every entry."""
    query = draw(queries(2, most))
    site, entries = draw(st.integers(0, len(query.sites) - 1)), draw(st.integers(1, 4))
    stops = len(query.sites) - 1
    block = draw(st.lists(st.integers(1, 4), min_size=entries, max_size=entries))
    counts = st.integers(1 if is_filtered else 0, 4)
    stored = draw(st.lists(counts, min_size=stops * entries, max_size=stops * entries))
    windows = np.array(stored, np.float64).reshape(stops, entries)
    return Trip(site, legs_of(query, site), np.array(block, np.float64), windows, draw(st.booleans()))


@st.composite
def streams(draw: Any, query: Query) -> Stream:
    """Blocks of several times; the sites of one time come in any order, some twice; rows are numbered per site.

    Few keys and a few rows at most sites each time, so that most streams have results; some keys are null.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    keys, rows, at_us, stream = (
        draw(st.sampled_from((2, 1, 3, KEYS))),
        dict.fromkeys(query.sites.names, 0),
        0,
        [],
    )
    for _ in range(draw(st.integers(2, 5))):
        at_us += int(rng.integers(0, 3))
        made = []
        for site in rng.permutation([*query.sites.names, query.sites.names[0]]).tolist():
            drawn = rng.integers(0, keys, rng.poisson(1.4)).tolist()
            made.append(block_of(site, [None if rng.random() < 0.1 else key for key in drawn], rows[site]))
            rows[site] += len(drawn)
        stream.append((at_us, made))
    return stream


def block_of(site: str, keys: Sequence[int | None], first_row: int = 0) -> Block:
    """Return a block of keys; None is a null key."""
    missing = [key is None for key in keys]
    return Block.of(site, [key or 0 for key in keys], np.arange(first_row, first_row + len(keys)), missing)


def join_of(
    query: Query, ordering: str = "smje", synopsis: str = "dense", sending: Sending | None = None
) -> MultiwayJoin:
    """Return an empty join."""
    sites = len(query.sites)
    return MultiwayJoin(Centre(query, SYNOPSES[synopsis](sites), ORDERINGS[ordering](sites), sending))


def truth_of(query: Query, stream: Stream) -> list[tuple[int, ...]]:
    """Return all results of a stream by their definition, sorted."""
    yardstick = NestedLoop(query)
    for at_us, blocks in stream:
        yardstick.advance(at_us, blocks)
    return sorted(yardstick.results())


def run(join: MultiwayJoin, stream: Stream) -> list[Outcome]:
    """Return what came of each time of a stream."""
    return [join.advance(at_us, blocks) for at_us, blocks in stream]


def results_of(outcomes: Sequence[Outcome]) -> list[tuple[int, ...]]:
    """Return all results, sorted; one found twice is there twice."""
    return sorted(tuple(line) for outcome in outcomes for line in outcome.results.tolist())
