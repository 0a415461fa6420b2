"""What a stream has not read yet of its topics: fixed into manifests, counted, or given up where it is gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from lakehouse.declare.stream import Stream
from lakehouse.streams.sources.kafka import Broker, BrokerFailed, without_secrets
from lakehouse.streams.sources.manifest import OffsetRange, Partition
from lakehouse.streams.sources.manifest_store import ManifestStore
from lakehouse.streams.sources.offsets import (
    Held,
    OffsetsGone,
    TopicRecreated,
    begin_at,
    gone,
    next_ranges,
    unread,
)


@dataclass(frozen=True)
class Topics:
    """A stream's topics beside its manifests; batches up to ``finished`` are in its ledger."""

    broker: Broker
    stream: Stream
    store: ManifestStore
    finished: int

    def fix_unread(self) -> None:
        """Write manifests for all messages that are in none.

        Raises:
            OffsetsGone: when messages that no finished batch holds were deleted; nothing is written then.
            TopicRecreated: when a topic is not the one that was read before.
            BrokerFailed: when the broker does not answer, refuses, or lacks a topic.
        """
        held = self.broker.held()
        fixed = self.store.read_until()
        at = self._begin_at(fixed, held)
        if lost := self._gone(at, held):
            raise OffsetsGone(self.stream.name, lost)
        self.store.add_ranges(next_ranges(at, held, fixed, self.stream.source.batch_rows))

    def gone(self) -> tuple[OffsetRange, ...]:
        """Return the messages that were deleted before they were read.

        Raises:
            TopicRecreated, BrokerFailed: as ``fix_unread``.
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


def why_unread(
    error: Exception, spark: SparkSession, stream: Stream, store: ManifestStore, finished: int
) -> Exception:
    """Return why a batch of messages failed: they are gone by now, or what was said, without secrets."""
    try:
        with Broker(spark, stream.source) as broker:
            lost = Topics(broker, stream, store, finished).gone()
    except (BrokerFailed, TopicRecreated) as failure:
        return failure
    if lost:
        return OffsetsGone(stream.name, lost)
    said = without_secrets(str(error), stream.source)
    return error if said == str(error) else BrokerFailed(said)
