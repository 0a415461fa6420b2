"""Partitions, offsets and messages of a Kafka broker, asked with Kafka's own client in Spark's JVM."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from lakehouse.declare.problems import Permanent
from lakehouse.declare.stream import Source
from lakehouse.streams.sources.manifest import Partition

T = TypeVar("T")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
# Messages of aborted transactions are never seen.
_READING = {"isolation.level": "read_committed"}
# Where no broker answers, a quarter of a minute is enough to know.
_ASKING = {"default.api.timeout.ms": "15000", "request.timeout.ms": "10000"}
_NO_TOPIC = "UnknownTopicOrPartitionException"
# Of the topics that a broker has instead, so many are named.
_NAMED = 10


@dataclass(frozen=True)
class Held:
    """Offsets of a partition on a broker: from ``first`` up to ``end``, the first that is not committed yet."""

    first: int
    end: int
    topic_id: str


class BrokerFailed(RuntimeError):
    """A broker does not answer, or refuses."""


class VariableMissing(Permanent, RuntimeError):
    """An option takes its value from a variable that the environment lacks."""


class NoClient(Permanent, RuntimeError):
    """A session has no JVM in which Kafka's client could run."""


def client_options(source: Source) -> dict[str, str]:
    """Return the options of Kafka's client, with secrets from the environment put in: never to be shown.

    Raises:
        VariableMissing: when a variable that an option names is not set.
    """
    own = {name: _VARIABLE.sub(lambda found: _secret(found[1]), v) for name, v in source.options.items()}
    return {"bootstrap.servers": ",".join(source.servers), **_READING, **own}


def without_secrets(text: str, source: Source) -> str:
    """Return a text in which every value that came from the environment is its variable's name again."""
    named = {name for value in source.options.values() for name in _VARIABLE.findall(value)}
    secrets = {name: os.environ[name] for name in named if os.environ.get(name)}
    for name, secret in sorted(secrets.items(), key=lambda each: -len(each[1])):
        text = text.replace(secret, f"${{{name}}}")
    return text


def _secret(name: str) -> str:
    if name not in os.environ:
        raise VariableMissing(f"the environment has no {name}, which source.options takes a value from")
    return os.environ[name]


class Broker:
    """Kafka's administrative client for one source; close it, or use it in a ``with``."""

    def __init__(self, spark: SparkSession, source: Source) -> None:
        self._jvm = _jvm_of(spark)
        self._kafka = self._jvm.org.apache.kafka
        self._source = source
        properties = _properties(self._jvm, _ASKING | client_options(source))
        self._admin = self._asked(lambda: self._kafka.clients.admin.AdminClient.create(properties))

    def __enter__(self) -> Broker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admin.close()

    def held(self) -> dict[Partition, Held]:
        """Return what the broker has of every partition of the source's topics, in order.

        Raises:
            BrokerFailed: when it does not answer, refuses, or lacks a topic.
        """
        topic_ids = dict(self._described())
        first = self._offsets(topic_ids, self._kafka.clients.admin.OffsetSpec.earliest())
        end = self._offsets(topic_ids, self._kafka.clients.admin.OffsetSpec.latest())
        return {place: Held(first[place], end[place], topic_ids[place]) for place in sorted(topic_ids)}

    def begins(self, held: Mapping[Partition, Held]) -> dict[Partition, int]:
        """Return where a stream that has read nothing begins, as ``start`` says."""
        start = self._source.start
        if start == "earliest":
            return {place: now.first for place, now in held.items()}
        if start == "latest" or not held:
            return {place: now.end for place, now in held.items()}
        # Kafka counts milliseconds: the first message that is not before the time.
        spec = self._kafka.clients.admin.OffsetSpec.forTimestamp(-(-int(start) // 1000))
        found = self._offsets(list(held), spec)
        return {place: found[place] if found[place] >= 0 else now.end for place, now in held.items()}

    def _described(self) -> list[tuple[Partition, str]]:
        topics = self._jvm.java.util.ArrayList()
        for topic in self._source.topics:
            topics.add(topic)
        asked = self._asked(lambda: self._admin.describeTopics(topics)).topicNameValues()
        found = []
        for topic in self._source.topics:
            try:
                told = self._asked(lambda topic=topic: asked.get(topic).get(), f"topic {topic}")  # type: ignore[misc]
            except BrokerFailed as failure:
                raise BrokerFailed(self._no_topic(topic)) if _NO_TOPIC in str(failure) else failure from None
            found += [((topic, part.partition()), told.topicId().toString()) for part in told.partitions()]
        return found

    def _no_topic(self, topic: str) -> str:
        """Return the sentence on a topic that is not there, with those that are."""
        names = sorted(map(str, self._asked(lambda: self._admin.listTopics().names().get())))
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        has = f"it has {', '.join(names[:_NAMED])}{more}" if names else "it has none that this user may see"
        servers = ", ".join(self._source.servers)
        return f"Kafka at {servers} has no topic {topic}; {has}. Make the topic, or mend source.topics"

    def _offsets(
        self, places: Sequence[Partition] | Mapping[Partition, str], spec: Any
    ) -> dict[Partition, int]:
        wanted, named = self._jvm.java.util.HashMap(), {}
        for place in places:
            named[place] = self._kafka.common.TopicPartition(*place)
            wanted.put(named[place], spec)
        options = self._kafka.clients.admin.ListOffsetsOptions(
            self._kafka.common.IsolationLevel.READ_COMMITTED
        )
        found = self._asked(lambda: self._admin.listOffsets(wanted, options).all().get())
        return {place: int(found.get(key).offset()) for place, key in named.items()}

    def _asked(self, ask: Callable[[], T], what: str = "") -> T:
        return _asked(self._source, ask, what)


class Consumer:
    """Kafka's reading client for one source, at one partition at a time, without a group; use it in a ``with``."""

    def __init__(self, spark: SparkSession, source: Source) -> None:
        self._jvm, self._source = _jvm_of(spark), source
        kafka = self._jvm.org.apache.kafka
        bytes_of = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
        reading = {"key.deserializer": bytes_of, "value.deserializer": bytes_of}
        # Offsets are those of manifests: one that is gone is an error.
        reading |= {"enable.auto.commit": "false", "auto.offset.reset": "none"}
        properties = _properties(self._jvm, _ASKING | client_options(source) | reading)
        self._client = _asked(source, lambda: kafka.clients.consumer.KafkaConsumer(properties))
        self._place = kafka.common.TopicPartition
        self._at: Any = None

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def go_to(self, topic: str, partition: int, offset: int) -> None:
        """Read a partition from an offset on."""
        self._at = self._place(topic, partition)
        places = self._jvm.java.util.ArrayList()
        places.add(self._at)
        self._client.assign(places)
        self._client.seek(self._at, offset)

    def position(self) -> int:
        """Return the offset that is read next; markers of transactions are passed over."""
        return int(_asked(self._source, lambda: self._client.position(self._at)))

    def poll(self) -> list[Any]:
        """Return some messages that come next, as the client's records, none where none came within a second.

        Raises:
            BrokerFailed: when it does not answer, refuses, or no longer has them.
        """
        second = self._jvm.java.time.Duration.ofSeconds(1)
        return list(_asked(self._source, lambda: self._client.poll(second).records(self._at)))


def _jvm_of(spark: SparkSession) -> Any:
    if jvm := getattr(spark, "_jvm", None):
        return jvm
    raise NoClient(
        "Kafka's client runs in the JVM of a job's own Spark, which a server of Spark Connect (sc://) does not lend: "
        'run streams of topics with [spark] master = "local[*]", or on a cluster'
    )


def _properties(jvm: Any, options: Mapping[str, str]) -> Any:
    found = jvm.java.util.Properties()
    for name, value in options.items():
        found.put(name, value)
    return found


def _asked(source: Source, ask: Callable[[], T], what: str = "") -> T:
    try:
        return ask()
    except Exception as error:
        told = ": ".join(part for part in (what, without_secrets(_cause(error), source)) if part)
    # Raised here, so that no traceback shows what the client itself said.
    raise BrokerFailed(f"Kafka at {', '.join(source.servers)}: {told}")


def _cause(error: Exception) -> str:
    """Return what lies at the bottom of an error of the JVM, in one line."""
    cause = getattr(error, "java_exception", None)
    if cause is None:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    while cause.getCause() is not None:
        cause = cause.getCause()
    return f"{cause.getClass().getSimpleName()}: {cause.getMessage()}".splitlines()[0]
