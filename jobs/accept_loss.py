"""Accept what a stream has lost: messages that its broker deleted before they were read, or rejected records.

The loss becomes a batch in the ledger. A stream of kind ``kafka`` stops when messages are gone. Safe to run again, and
to kill anywhere.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.config.problems import Permanent
from lakehouse.corrections.corrections import writing
from lakehouse.ingest.batch_records import StreamTables
from lakehouse.ingest.drain import drain, open_finished, open_store
from lakehouse.ingest.quarantine import waiting_records
from lakehouse.ingest.sources.kafka import Broker
from lakehouse.ingest.sources.manifest import OffsetRange
from lakehouse.ingest.topics import Topics
from lakehouse.settings import Settings

Lost = tuple[OffsetRange, ...]


class NoTopics(Permanent, ValueError):
    """A stream that reads no topic cannot lose messages."""


def run(
    settings: Settings, spark: SparkSession, stream: str, agree: Callable[[Lost], bool] = bool
) -> dict[str, Any]:
    """Give up the deleted messages, if ``agree`` confirms it; return how many of which partition.

    ``lost`` counts offsets, so it is an upper bound of the messages. Nothing is given up that ``agree`` was not
    shown, or if nothing is missing. Raises NoTopics if the stream's source is of another kind; LeaseHeld if another
    process writes this stream for longer than ``WAIT_S``; TopicRecreated or BrokerFailed as the ingest of this stream.
    """
    target = StreamTables(spark, settings.layout, settings.stream(stream))
    if target.stream.source.kind != "kafka":
        raise NoTopics(
            f"stream {stream}: its source is of kind {target.stream.source.kind!r}; expected 'kafka'"
        )
    with writing(target):
        store, before = open_store(target)
        topics = Topics(Broker(target.stream.source), target.stream, store, before.batch)
        lost = topics.gone()
        if not (lost and agree(lost)):
            return {"lost": 0, "partitions": {}}
        topics.give_up(lost)
        drain(target, store, before)
    partitions = {f"{loss.topic}/{loss.partition}": loss.count for loss in lost}
    return {"lost": sum(partitions.values()), "partitions": partitions}


def close(settings: Settings, spark: SparkSession, stream: str, reasons: Sequence[str]) -> dict[str, Any]:
    """Give up the open rejected records of these reasons; return how many of each.

    They stay in quarantine, closed: no requeue takes them, and no answer is inexact because of them. Raises LeaseHeld
    if another process writes this stream for longer than ``WAIT_S``.
    """
    target = StreamTables(spark, settings.layout, settings.stream(stream))
    with writing(target):
        store, before = open_finished(target)
        waiting = waiting_records(settings.layout, target.stream)
        given_up = {reason: waiting[reason] for reason in reasons if reason in waiting}
        if given_up:
            store.add_loss(tuple(given_up))
            drain(target, store, before)
    return {"lost": sum(given_up.values()), "reasons": given_up}
