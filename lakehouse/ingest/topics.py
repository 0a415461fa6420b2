"""Messages of topics that a stream has not read yet: fixed into manifests, counted, or given up where gone.

It follows from manifests and what a broker has. A partition's offsets only grow. Manifests fix ranges of them, so the
next one begins where the last range ends:

    0            first          read         fixed            end
    |--- gone ---|--- kept -----|-- pending --|--- unread -----|     of one partition, on the broker

``read`` is behind the last finished batch, ``fixed`` behind the last manifest. Where ``first`` lies beyond ``read``,
messages were deleted before they were read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakehouse.config.problems import Permanent
from lakehouse.config.stream import Stream
from lakehouse.ingest.sources.kafka import Broker, BrokerFailed, Held, without_secrets
from lakehouse.ingest.sources.manifest import Manifest, OffsetRange, Partition, ranges_of
from lakehouse.ingest.sources.manifest_store import ManifestStore


@dataclass(frozen=True)
class Topics:
    """A stream's topics beside its manifests; batches up to ``finished`` are in its ledger."""

    broker: Broker
    stream: Stream
    store: ManifestStore
    finished: int

    def fix_unread(self) -> None:
        """Write manifests for all messages that are in none.

        Raises OffsetsGone when messages that no finished batch holds were deleted; nothing is written then. Raises
        TopicRecreated when a topic is not the one that was read before. Raises BrokerFailed when the broker does not
        answer, refuses, or lacks a topic.
        """
        held = self.broker.held()
        fixed = self.store.read_until()
        at = self._begin_at(fixed, held)
        if lost := self._gone(at, held):
            raise OffsetsGone(self.stream.name, lost)
        self.store.add_ranges(next_ranges(at, held, fixed, self.stream.source.batch_rows))

    def gone(self) -> tuple[OffsetRange, ...]:
        """Return the messages that were deleted before they were read.

        Raises TopicRecreated or BrokerFailed as ``fix_unread``.
        """
        held = self.broker.held()
        return tuple(self._gone(self._begin_at(self.store.read_until(), held), held))

    def give_up(self, lost: tuple[OffsetRange, ...]) -> None:
        """Write the manifest of lost messages, in place of the first that cannot be read any more.

        Manifests behind it are withdrawn: what they held is unread again.
        """
        first = {each.place: each.end for each in lost}
        broken = (
            manifest.batch
            for manifest in self.store.behind(self.finished)
            if manifest.kind == "kafka"
            and any(each.start < first.get(each.place, each.start) for each in manifest.ranges)
        )
        self.store.give_up(lost, next(broken, self.store.last_batch + 1))

    def lag(self) -> int:
        """Return how many messages have come that no manifest holds."""
        return unread(self.store.read_until(), self.broker.held())

    def _gone(self, at: Mapping[Partition, int], held: Mapping[Partition, Held]) -> list[OffsetRange]:
        return gone(self.store.behind(self.finished), at, held)

    def _begin_at(
        self, last: Mapping[Partition, OffsetRange], held: Mapping[Partition, Held]
    ) -> dict[Partition, int]:
        known = {topic for topic, _ in last}
        begins = self.broker.begins({place: now for place, now in held.items() if place[0] not in known})
        return begin_at(self.stream.name, last, held, begins)


def why_unread(error: Exception, stream: Stream, store: ManifestStore, finished: int) -> Exception:
    """Return why a batch of messages failed: they are gone by now, or what was said, without secrets."""
    try:
        lost = Topics(Broker(stream.source), stream, store, finished).gone()
    except (BrokerFailed, TopicRecreated) as failure:
        return failure
    if lost:
        return OffsetsGone(stream.name, lost)
    said = without_secrets(str(error), stream.source)
    return error if said == str(error) else BrokerFailed(said)


class OffsetsGone(Permanent, RuntimeError):
    """Messages that were not read are no longer on the broker."""

    def __init__(self, stream: str, gone: Sequence[OffsetRange]) -> None:
        self.gone = tuple(gone)
        super().__init__(
            f"stream {stream}: the broker no longer has {'; '.join(map(str, gone))}; they were deleted before they "
            f"were read. The stream stands still until that is accepted: `tidemark accept-loss {stream}` writes the "
            "loss into the ledger and goes on"
        )


class TopicRecreated(Permanent, RuntimeError):
    """A topic is not the one that was read: its offsets begin anew."""

    def __init__(self, stream: str, topic: str, found: str) -> None:
        super().__init__(
            f"stream {stream}: topic {topic} is not the one that was read before: {found}. Its offsets begin anew, so "
            "new messages would be taken for old ones. Declare a new stream for it, under another name, and take "
            f"{topic!r} out of this one's topics; what was read stays"
        )


def begin_at(
    stream: str,
    last: Mapping[Partition, OffsetRange],
    held: Mapping[Partition, Held],
    begins: Mapping[Partition, int],
) -> dict[Partition, int]:
    """Return from which offset each partition is read on, behind its ``last`` range.

    A partition that a known topic gained is read from its very first offset; those of a topic that no manifest
    knows from ``begins``. Raises TopicRecreated when a topic is not the one that was read.
    """
    known = {topic for topic, _ in last}
    for place, before in last.items():
        _require_same(
            stream, before, held.get(place), is_asked=any(before.topic == topic for topic, _ in held)
        )
    start = {place: 0 if place[0] in known else begins[place] for place in held if place not in last}
    return {place: last[place].end if place in last else start[place] for place in sorted(held)}


def _require_same(stream: str, before: OffsetRange, now: Held | None, is_asked: bool) -> None:
    if now is None:
        # A topic that the stream no longer names is left alone.
        if is_asked:
            raise TopicRecreated(stream, before.topic, f"it has no partition {before.partition} any more")
    elif now.topic_id != before.topic_id:
        raise TopicRecreated(stream, before.topic, f"its id was {before.topic_id}, is {now.topic_id}")
    elif now.end < before.end:
        found = f"partition {before.partition} was read up to offset {before.end}, and ends at {now.end}"
        raise TopicRecreated(stream, before.topic, found)


def gone(
    pending: Sequence[Manifest], at: Mapping[Partition, int], held: Mapping[Partition, Held]
) -> list[OffsetRange]:
    """Return the messages that the broker no longer has of those in pending manifests, and from ``at`` on."""
    taken = list(ranges_of(manifest for manifest in pending if manifest.kind == "kafka"))
    lost: list[OffsetRange] = []
    for place, fixed in at.items():
        now = held[place]
        unread = sorted((each.start, each.end) for each in taken if each.place == place)
        for start, end in [*unread, (fixed, now.first)]:
            gone_until = min(end, now.first)
            if gone_until <= start:
                continue
            if lost and lost[-1].place == place and lost[-1].end == start:
                start = lost.pop().start
            lost.append(OffsetRange(*place, start, gone_until, now.topic_id))
    return lost


def next_ranges(
    at: Mapping[Partition, int],
    held: Mapping[Partition, Held],
    fixed: Iterable[Partition],
    batch_rows: int,
) -> list[tuple[OffsetRange, ...]]:
    """Cut all that is unread into batches of ``batch_rows`` offsets, give or take one for each partition.

    Each batch takes of every partition its share of the backlog, so that partitions advance side by side. Partitions
    that are not ``fixed`` yet are in the first batch even when they are empty: where they begin is then written down.
    """
    backlog = {place: held[place].end - start for place, start in at.items()}
    batches = max(1, -(-sum(backlog.values()) // batch_rows))
    known = set(fixed)
    found = []
    for number in range(batches):
        ranges = tuple(
            OffsetRange(
                *place,
                at[place] + rows * number // batches,
                at[place] + rows * (number + 1) // batches,
                held[place].topic_id,
            )
            for place, rows in backlog.items()
        )
        found.append(tuple(each for each in ranges if each.count or (not number and each.place not in known)))
    return [ranges for ranges in found if ranges]


def unread(last: Mapping[Partition, OffsetRange], held: Mapping[Partition, Held]) -> int:
    """Return how many messages of known partitions come behind their ``last`` ranges."""
    return sum(max(0, now.end - last[place].end) for place, now in held.items() if place in last)
