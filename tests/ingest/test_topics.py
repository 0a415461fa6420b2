from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.ingest.sources.kafka import Held
from lakehouse.ingest.sources.manifest import (
    Manifest,
    OffsetRange,
    Partition,
    furthest,
    ranges_of,
)
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.ingest.topics import (
    OffsetsGone,
    TopicRecreated,
    begin_at,
    gone,
    next_ranges,
    unread,
)
from lakehouse.storage.layout import Home

ID = "cotmujI_SuCbmLd1Pj57BQ"


def held(*ends: int, first: int = 0, topic: str = "t", topic_id: str = ID) -> dict[Partition, Held]:
    return {(topic, number): Held(first, end, topic_id) for number, end in enumerate(ends)}


def manifest(*spans: tuple[int, int], kind: str = "kafka", batch: int = 1) -> Manifest:
    ranges = tuple(OffsetRange("t", number, *span, ID) for number, span in enumerate(spans))
    return Manifest(batch, kind, ranges=ranges)


def spans(batches: list[tuple[OffsetRange, ...]], place: Partition) -> list[tuple[int, int]]:
    return [(r.start, r.end) for ranges in batches for r in ranges if r.place == place]


backlogs = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3)),
    st.tuples(st.integers(0, 1000), st.integers(0, 300)),
    min_size=1,
)


@given(backlogs, st.integers(1, 200))
@settings(deadline=None)
def test_every_unread_offset_is_in_one_batch_in_order_and_no_batch_is_too_large(
    backlog: Mapping[Partition, tuple[int, int]], batch_rows: int
) -> None:
    at = {place: start for place, (start, _) in sorted(backlog.items())}
    now = {place: Held(0, start + rows, ID) for place, (start, rows) in backlog.items()}

    batches = next_ranges(at, now, fixed=(), batch_rows=batch_rows)

    for place, (start, rows) in backlog.items():
        found = [offset for span in spans(batches, place) for offset in range(*span)]
        assert found == list(range(start, start + rows))
    assert all(sum(r.count for r in ranges) <= batch_rows + len(backlog) for ranges in batches)
    assert {r.place for r in batches[0]} == set(backlog)


@given(backlogs, st.integers(1, 200))
@settings(deadline=None)
def test_partitions_advance_side_by_side_by_their_backlog(
    backlog: Mapping[Partition, tuple[int, int]], batch_rows: int
) -> None:
    at = {place: start for place, (start, _) in sorted(backlog.items())}
    now = {place: Held(0, start + rows, ID) for place, (start, rows) in backlog.items()}
    batches = next_ranges(at, now, fixed=backlog, batch_rows=batch_rows)
    total = sum(rows for _, rows in backlog.values())

    for ranges in batches:
        read = sum(r.count for r in ranges)
        for r in ranges:
            assert abs(r.count - read * backlog[r.place][1] / total) <= len(backlog)


def test_nothing_unread_makes_no_batch_but_for_partitions_that_are_not_written_down_yet() -> None:
    at, now = {("t", 0): 7, ("t", 1): 0}, held(7, 0)

    assert next_ranges(at, now, fixed=at, batch_rows=10) == []
    assert next_ranges(at, now, fixed=[("t", 0)], batch_rows=10) == [(OffsetRange("t", 1, 0, 0, ID),)]


def test_reading_goes_on_where_the_last_manifest_ends_whatever_its_kind() -> None:
    manifests = [manifest((0, 5), (0, 3)), manifest((5, 9), kind="lost", batch=2)]

    assert begin_at("s", furthest(ranges_of(manifests)), held(20, 20), {}) == {("t", 0): 9, ("t", 1): 3}


def test_a_partition_added_later_is_read_from_its_first_offset_and_another_topic_from_the_start() -> None:
    now = held(20, 20) | held(50, topic="u")

    found = begin_at("s", furthest(ranges_of([manifest((0, 5))])), now, {("u", 0): 50})

    assert found == {("t", 0): 5, ("t", 1): 0, ("u", 0): 50}


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (held(20, topic_id="another"), f"its id was {ID}, is another"),
        (held(3), "partition 0 was read up to offset 5, and ends at 3"),
        ({("t", 1): Held(0, 9, ID)}, "it has no partition 0 any more"),
    ],
)
def test_another_topic_under_the_same_name_is_refused_with_what_to_do(
    now: dict[Partition, Held], told: str
) -> None:
    with pytest.raises(TopicRecreated) as refused:
        begin_at("s", furthest(ranges_of([manifest((0, 5))])), now, {})

    assert told in str(refused.value) and "Declare a new stream for it" in str(refused.value)


def test_a_topic_that_is_no_longer_asked_for_is_left_alone() -> None:
    assert begin_at("s", furthest(ranges_of([manifest((0, 5))])), held(9, topic="u"), {("u", 0): 4}) == {
        ("u", 0): 4
    }


def test_messages_are_gone_from_where_the_last_finished_batch_ends() -> None:
    pending = [manifest((10, 20), (0, 4), batch=2), manifest((20, 30), batch=3)]
    now = {("t", 0): Held(25, 99, ID), ("t", 1): Held(2, 9, ID), ("t", 2): Held(0, 5, ID)}

    found = gone(pending, {("t", 0): 30, ("t", 1): 4, ("t", 2): 0}, now)

    assert [(r.place, r.start, r.end) for r in found] == [(("t", 0), 10, 25), (("t", 1), 0, 2)]


def test_of_what_is_read_again_only_what_is_gone_of_it_is_gone() -> None:
    pending = [manifest((5, 6), batch=8), manifest((1000, 1100), batch=9)]

    def lost(first: int) -> list[tuple[int, int]]:
        return [(r.start, r.end) for r in gone(pending, {("t", 0): 1100}, {("t", 0): Held(first, 2000, ID)})]

    assert lost(first=500) == [(5, 6)]
    assert lost(first=1200) == [(5, 6), (1000, 1200)]


def test_what_is_given_up_already_is_not_gone_once_more() -> None:
    now = {("t", 0): Held(25, 99, ID)}

    assert gone([manifest((10, 25), kind="lost", batch=2)], {("t", 0): 25}, now) == []


def test_a_loss_is_told_with_its_ranges_and_the_command_that_accepts_it() -> None:
    told = str(OffsetsGone("readings", [OffsetRange("t", 0, 10, 2510, ID)]))

    assert "t/0 offsets 10 to 2509 (2,500 messages)" in told and "`tidemark accept-loss readings`" in told


def test_lag_is_what_no_manifest_holds() -> None:
    assert unread(furthest(ranges_of([manifest((0, 5), (0, 3))])), held(9, 3)) == 4


def test_manifests_with_ranges_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))
    store.add_ranges([manifest((0, 5)).ranges, manifest((5, 9)).ranges])

    assert ManifestStore(Home(tmp_path / "var").manifests("s")).behind(0) == store.behind(0)
    assert furthest(ranges_of(store.behind(0)))["t", 0].end == 9


def test_giving_up_takes_the_place_of_the_manifests_that_cannot_be_read(tmp_path: Path) -> None:
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))
    store.add_ranges([manifest((0, 5)).ranges, manifest((5, 9)).ranges, manifest((9, 12)).ranges])
    lost = (OffsetRange("t", 0, 5, 7, ID),)
    # Read before, in this process.
    assert ManifestStore(Home(tmp_path / "var").manifests("s")).behind(0) == store.behind(0)

    store.give_up(lost, batch=2)

    found = ManifestStore(Home(tmp_path / "var").manifests("s"))
    assert [(m.batch, m.kind) for m in found.behind(0)] == [(1, "kafka"), (2, "lost")]
    assert furthest(ranges_of(found.behind(0)))["t", 0].end == 7
