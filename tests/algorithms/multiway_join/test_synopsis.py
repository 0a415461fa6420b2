from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.multiway_join.contract import Vector
from lakehouse.algorithms.multiway_join.synopsis import (
    HashedSynopsis,
    Synopsis,
    pack,
    passing,
    slots_for,
    unpack,
)
from tests.algorithms.multiway_join.streams import SYNOPSES
from tests.oracles.multiway_join.dense_synopsis import DenseSynopsis
from tests.oracles.multiway_join.vectors import entries_of, slot_of, vector_in

SITES = 3
KEYS = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9)
BLOCKS = st.lists(st.tuples(st.integers(0, SITES - 1), st.lists(KEYS, max_size=6)), max_size=8)
quick = settings(max_examples=50, deadline=None)
every_synopsis = pytest.mark.parametrize("make", SYNOPSES.values(), ids=SYNOPSES.keys())
LARGEST = 2**32 - 1


def state_of(synopsis: Synopsis) -> dict[str, bytes]:
    return synopsis.snapshot()


@every_synopsis
@quick
@given(blocks=BLOCKS, taken=st.sets(st.integers(0, 7)))
def test_what_is_left_is_what_was_not_taken_off(make: Any, blocks: Any, taken: set[int]) -> None:
    synopsis, kept = make(SITES), make(SITES)

    for site, keys in blocks:
        synopsis.increment(site, vector_in(synopsis, keys))
    for site, keys in [blocks[at] for at in taken if at < len(blocks)]:
        synopsis.decrement(site, vector_in(synopsis, keys))

    for site, keys in [block for at, block in enumerate(blocks) if at not in taken]:
        kept.increment(site, vector_in(kept, keys))
    assert state_of(synopsis) == state_of(kept)


@quick
@given(blocks=BLOCKS, asked=st.lists(KEYS, max_size=4))
def test_dense_counts_are_those_of_the_rows(blocks: Any, asked: list[int]) -> None:
    synopsis, counted = DenseSynopsis(SITES), [Counter[int]() for _ in range(SITES)]

    for site, keys in blocks:
        synopsis.increment(site, vector_in(synopsis, keys))
        counted[site].update(keys)

    entries = np.array(asked + [key for _, keys in blocks for key in keys], np.int64)
    assert synopsis.stored_at(entries).tolist() == [[count[key] for key in entries] for count in counted]


@quick
@given(blocks=BLOCKS, block=st.lists(KEYS, max_size=6), slots=st.integers(1, 9))
def test_hashed_counts_are_never_below_the_true_ones(blocks: Any, block: list[int], slots: int) -> None:
    exact, hashed = DenseSynopsis(SITES), HashedSynopsis(SITES, slots)

    for synopsis in (exact, hashed):
        for site, keys in blocks:
            synopsis.increment(site, vector_in(synopsis, keys))

    keys = np.array(block, np.int64)
    assert np.all(hashed.stored_at(entries_of(hashed, keys)) >= exact.stored_at(keys))


@quick
@given(blocks=BLOCKS, block=st.lists(KEYS, max_size=6), slots=st.integers(1, 9), site=st.integers(0, 2))
def test_a_hashed_filter_lets_every_row_pass_that_could_join(
    blocks: Any, block: list[int], slots: int, site: int
) -> None:
    exact, hashed = DenseSynopsis(SITES), HashedSynopsis(SITES, slots)
    for synopsis in (exact, hashed):
        for other, keys in blocks:
            synopsis.increment(other, vector_in(synopsis, keys))

    keys = np.array(block, np.int64)
    could_join = passing(exact.stored_at(keys), site)
    passes = passing(hashed.stored_at(entries_of(hashed, keys)), site)

    assert np.all(passes | ~could_join)


@every_synopsis
@quick
@given(keys=st.lists(KEYS, max_size=8), missing=st.lists(st.booleans(), min_size=8, max_size=8))
def test_null_keys_are_not_counted(make: Any, keys: list[int], missing: list[bool]) -> None:
    synopsis, flags = make(SITES), missing[: len(keys)]

    vector = vector_in(synopsis, keys, flags)

    there = vector_in(synopsis, [key for key, is_missing in zip(keys, flags, strict=True) if not is_missing])
    assert vector.rows == len(flags) - sum(flags)
    assert (vector.entries.tolist(), vector.counts.tolist()) == (
        there.entries.tolist(),
        there.counts.tolist(),
    )


@every_synopsis
@quick
@given(keys=st.lists(KEYS, max_size=8))
def test_counted_keys_give_the_vector_of_their_rows(make: Any, keys: list[int]) -> None:
    synopsis, counted = make(SITES), Counter(keys)

    rows, counts = (
        vector_in(synopsis, keys),
        vector_in(synopsis, list(counted), counts=list(counted.values())),
    )

    assert rows.entries.tolist() == counts.entries.tolist()
    assert rows.counts.tolist() == counts.counts.tolist()


@every_synopsis
@quick
@given(blocks=BLOCKS)
def test_a_restored_synopsis_is_the_same(make: Any, blocks: Any) -> None:
    synopsis, restored = make(SITES), make(SITES)
    for site, keys in blocks:
        synopsis.increment(site, vector_in(synopsis, keys))

    restored.restore(synopsis.snapshot())

    assert state_of(restored) == state_of(synopsis)
    for site, keys in blocks:
        restored.decrement(site, vector_in(restored, keys))
    assert state_of(restored) == state_of(make(SITES))


@every_synopsis
def test_taking_off_more_than_there_is_is_refused_and_changes_nothing(make: Any) -> None:
    synopsis = make(SITES)
    synopsis.increment(1, vector_in(synopsis, [4, 4, 6]))
    before = state_of(synopsis)

    with pytest.raises(ValueError, match=r"at most \d rows of entry \d at site 1, found \d"):
        synopsis.decrement(1, vector_in(synopsis, [6, 4, 4, 4]))
    with pytest.raises(ValueError, match="at site 0"):
        synopsis.decrement(0, vector_in(synopsis, [4]))

    assert state_of(synopsis) == before


def test_sums_come_and_go_with_their_rows() -> None:
    synopsis = DenseSynopsis(2, summed=2)
    first = vector_in(synopsis, [5, 5, 9], sums=[[1, 10], [2, 20], [3, 30]])
    synopsis.increment(0, first)
    synopsis.increment(0, vector_in(synopsis, [5], sums=[[100, -1]]))

    synopsis.decrement(0, first)

    assert (synopsis.values.tolist(), synopsis.sums[0].tolist()) == ([5], [[100, -1]])


@pytest.mark.parametrize("counts", [[1], [1, 0], [2, -1]])
def test_counts_that_are_not_one_from_1_for_each_key_are_refused(counts: list[int]) -> None:
    with pytest.raises(ValueError, match="2 counts of at least 1"):
        vector_in(DenseSynopsis(2), [1, 2], counts=counts)


def test_sums_that_were_not_declared_or_are_absent_are_refused() -> None:
    with pytest.raises(ValueError, match="sums of 0 columns for 1 keys, found 1 x 1"):
        vector_in(HashedSynopsis(2, 8), [1], sums=[[3]])
    with pytest.raises(ValueError, match="sums of 1 columns for 1 keys, found none"):
        vector_in(DenseSynopsis(2, summed=1), [1])


@pytest.mark.parametrize("slots", [0, 2**31 + 1])
def test_no_slots_or_too_many_are_refused(slots: int) -> None:
    with pytest.raises(ValueError, match="slots"):
        HashedSynopsis(2, slots)


@pytest.mark.parametrize("step", [1, 2**20, 10**9 + 7])
def test_keys_are_spread_evenly_over_slots(step: int) -> None:
    slots = slot_of(np.arange(16_000) * step, 16)

    assert np.bincount(slots, minlength=16).min() > 800


@given(
    blocks=st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(0, 50), max_size=9)), max_size=8),
    slots=st.sampled_from([1, 4, 16, 64]),
)
def test_fewer_slots_than_entries_count_no_less(blocks: list[tuple[int, list[int]]], slots: int) -> None:
    fine, coarse = HashedSynopsis(3, 64), HashedSynopsis(3, slots, of=64)
    for site, keys in blocks:
        for synopsis in (fine, coarse):
            synopsis.increment(site, vector_in(synopsis, keys))
    entries = np.arange(64)

    assert np.all(coarse.stored_at(entries) >= fine.stored_at(entries))
    assert np.array_equal(coarse.counts, fine.counts.reshape(3, -1, slots).sum(axis=1))
    again = HashedSynopsis(3, 2, of=64)
    again.restore(coarse.snapshot())
    assert again.slots == slots and np.array_equal(again.counts, coarse.counts)
    for site, keys in blocks:
        coarse.decrement(site, vector_in(coarse, keys))
    assert not coarse.counts.any()


@pytest.mark.slow
@pytest.mark.parametrize("keys", [0, 1, 127, 128, 129, 100_000, 1_000_000, 2_000_000])
def test_a_key_that_a_site_lacks_passes_it_at_most_once_in_eight(keys: int) -> None:
    most = 2**24
    synopsis = HashedSynopsis(2, slots_for(keys, most), of=most)
    stored, absent = np.arange(keys), 10**9 + np.arange(200_000)
    synopsis.increment(1, vector_in(synopsis, stored))

    passes = synopsis.stored_at(entries_of(synopsis, absent))[1] > 0

    assert synopsis.slots.bit_count() == 1 and most % synopsis.slots == 0
    # Of 200,000 draws at an eighth, five standard deviations are 0.4 %.
    assert passes.mean() <= 1 / 8 + 0.004
    assert synopsis.stored_at(entries_of(synopsis, stored))[1].min(initial=1) >= 1


def test_more_keys_than_the_most_slots_are_for_still_pass_less_often_than_their_share() -> None:
    synopsis = HashedSynopsis(1, slots_for(3000, 2**12), of=2**12)
    synopsis.increment(0, vector_in(synopsis, np.arange(3000)))

    passes = synopsis.stored_at(entries_of(synopsis, 10**9 + np.arange(100_000)))[0] > 0

    assert synopsis.slots == 2**12
    assert passes.mean() <= 3000 / 2**12


@given(st.dictionaries(st.integers(0, LARGEST), st.integers(1, LARGEST), max_size=50))
def test_what_is_packed_comes_out_the_same(counts: dict[int, int]) -> None:
    vector = Vector.of(list(counts), list(counts.values()))

    found = unpack(pack(vector))

    assert found.entries.tolist() == vector.entries.tolist()
    assert found.counts.tolist() == vector.counts.tolist()
    assert found.sums.shape == (len(counts), 0)


def test_a_row_with_a_key_of_its_own_takes_a_byte_or_so() -> None:
    slots = np.unique(np.random.default_rng(1).integers(0, 2**20, 100_000))

    assert len(pack(Vector.of(slots, np.ones(len(slots))))) < 1.2 * len(slots)


@pytest.mark.parametrize(("entry", "count"), [(-1, 1), (LARGEST + 1, 1), (1, LARGEST + 1)])
def test_numbers_that_take_more_than_four_bytes_are_refused(entry: int, count: int) -> None:
    with pytest.raises(ValueError, match=r"expected (entries|counts) from 0 to 4294967295, found"):
        pack(Vector.of([entry], [count]))
