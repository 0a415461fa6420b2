"""A Kafka broker's partitions, offsets and messages, by librdkafka, Kafka's client for C."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from lakehouse.config.problems import Permanent
from lakehouse.config.stream import Source
from lakehouse.ingest.sources.manifest import Partition

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

T = TypeVar("T")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
# Messages of aborted transactions are never seen. What the client logs by itself goes to no log of ours.
_CLIENT = {"isolation.level": "read_committed", "log_level": 0}
# Offsets are those of manifests: one that is gone is an error. No group is joined, but a name is asked for.
_READING = {
    **{"group.id": "tidemark", "enable.auto.commit": False, "auto.offset.reset": "error"},
    "enable.partition.eof": True,
}
# Where no broker answers, a quarter of a minute is enough to know.
_ANSWERS_S = 15.0
# Who only looks waits less.
_LOOK_S = 4.0
# How often the client is asked what it heard beside an answer.
_POLL_S = 0.1
# Of the topics that a broker has instead, so many are named.
_NAMED = 10


@dataclass(frozen=True)
class Held:
    """Offsets that a broker has of a partition, from ``first`` up to ``end``, the first that is not committed yet."""

    first: int
    end: int
    topic_id: str


class BrokerFailed(RuntimeError):
    """A broker does not answer, or refuses."""


class VariableMissing(Permanent, RuntimeError):
    """An option takes its value from a variable that the environment lacks."""


def client_options(source: Source) -> dict[str, str]:
    """Return the options of Kafka's client, with secrets from the environment put in: never to be shown.

    Raises VariableMissing when a variable that an option names is not set.
    """
    own = {name: _VARIABLE.sub(lambda found: _secret(found[1]), v) for name, v in source.options.items()}
    return {"bootstrap.servers": ",".join(source.servers), **own}


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
    """Kafka's administrative client for one source, whose connections end with it; it waits so long for an answer."""

    def __init__(self, source: Source, answers_s: float = _ANSWERS_S) -> None:
        self._source, self._answers_s = source, answers_s
        # A refusal, such as of a password, is heard of beside the question, which then has no answer in time.
        self._refusals, self._refused = list[str](), False
        options = {**_CLIENT, **client_options(source), "error_cb": self._heard}
        self._admin: Any = self._asked(lambda: _admin().AdminClient(options))

    def _heard(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        self._refusals.append(str(error.str()))
        self._refused |= error.code() == KafkaError._AUTHENTICATION

    def held(self) -> dict[Partition, Held]:
        """Return what the broker has of every partition of the source's topics, in order.

        Raises BrokerFailed when it does not answer, refuses, or lacks a topic.
        """
        topic_ids = dict(self._described())
        first = self._offsets(topic_ids, _admin().OffsetSpec.earliest())
        end = self._offsets(topic_ids, _admin().OffsetSpec.latest())
        return {place: Held(first[place], end[place], topic_ids[place]) for place in sorted(topic_ids)}

    def begins(self, held: Mapping[Partition, Held]) -> dict[Partition, int]:
        """Return where a stream that has read nothing begins, as ``start`` says."""
        start = self._source.start
        if start == "earliest":
            return {place: now.first for place, now in held.items()}
        if start == "latest" or not held:
            return {place: now.end for place, now in held.items()}
        # Kafka counts milliseconds: the first message that is not before the time.
        found = self._offsets(list(held), _admin().OffsetSpec.for_timestamp(-(-int(start) // 1000)))
        return {place: found[place] if found[place] >= 0 else now.end for place, now in held.items()}

    def _described(self) -> Iterator[tuple[Partition, str]]:
        from confluent_kafka import KafkaError, TopicCollection

        topics = TopicCollection(list(self._source.topics))
        asked = self._asked(lambda: self._admin.describe_topics(topics, request_timeout=self._answers_s))
        lacking = {KafkaError.UNKNOWN_TOPIC_OR_PART: self._no_topic}
        for topic in self._source.topics:
            told = self._answer(asked[topic], topic, lacking)
            for part in told.partitions:
                yield (topic, part.id), str(told.topic_id)

    def _no_topic(self, topic: str) -> str:
        """Return the sentence on a topic that is not there, with those that are."""
        known = self._asked(lambda: self._admin.list_topics(timeout=self._answers_s)).topics
        names = sorted(name for name in known if not name.startswith("__"))
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        has = f"it has {', '.join(names[:_NAMED])}{more}" if names else "it has none that this user may see"
        return f"has no topic {topic}; {has}. Make the topic, or mend source.topics"

    def _offsets(
        self, places: Sequence[Partition] | Mapping[Partition, str], spec: Any
    ) -> dict[Partition, int]:
        from confluent_kafka import IsolationLevel, TopicPartition

        if not places:
            return {}
        wanted = {TopicPartition(*place): spec for place in places}
        options = {"isolation_level": IsolationLevel.READ_COMMITTED, "request_timeout": self._answers_s}
        asked = self._asked(lambda: self._admin.list_offsets(wanted, **options))
        return {
            (each.topic, each.partition): int(self._answer(answer, each.topic).offset)
            for each, answer in asked.items()
        }

    def _answer(
        self, answer: Future[Any], topic: str, sentences: Mapping[int, Callable[[str], str]] | None = None
    ) -> Any:
        from confluent_kafka import KafkaException

        self._wait(answer)
        try:
            return answer.result(0)
        except KafkaException as error:
            sentence = (sentences or {}).get(error.args[0].code())
            told = sentence(topic) if sentence else f"topic {topic}: {self._said(error)}"
        except TimeoutError:
            silence = f"no answer within {2 * self._answers_s:.0f} s"
            told = f"topic {topic}: {self._refusals[0] if self._refusals else silence}"
        raise _failed(self._source, told)

    def _wait(self, answer: Future[Any]) -> None:
        """Wait for an answer, until it has none: the client itself goes on to ask when a password is refused."""
        for _ in range(int(2 * self._answers_s / _POLL_S)):
            if self._refused or wait([answer], _POLL_S).done:
                return
            self._admin.poll(0)

    def _asked(self, ask: Callable[[], T]) -> T:
        from confluent_kafka import KafkaException

        try:
            return ask()
        except KafkaException as error:
            told = self._said(error)
        # Raised here, so that no traceback shows what the client itself said.
        raise _failed(self._source, told)

    def _said(self, error: Exception) -> str:
        """Return what the client said, and what it heard of before."""
        if hasattr(self, "_admin"):
            self._admin.poll(0)
        return ": ".join(dict.fromkeys([*self._refusals[:1], str(error.args[0].str())]))


@contextmanager
def consumer_of(source: Source) -> Iterator[Any]:
    """Let a reading client for one source live as long as the block; it joins no group.

    Raises BrokerFailed when the client, or what it reads, is refused.
    """
    from confluent_kafka import Consumer, KafkaException

    told = ""
    try:
        client = Consumer({**_CLIENT, **client_options(source), **_READING})
        try:
            yield client
        finally:
            client.close()
    except KafkaException as error:
        told = str(error.args[0].str())
    if told:
        raise _failed(source, told)


def place_of(topic: str, partition: int, offset: int) -> TopicPartition:
    """Return a partition and the offset to be read next, as the client has them."""
    from confluent_kafka import TopicPartition

    return TopicPartition(topic, partition, offset)


def why_unread(source: Source) -> str | None:
    """Return why topics cannot be read now, in one sentence; None if the broker answers and has them."""
    try:
        Broker(source, _LOOK_S).held()
    except (BrokerFailed, VariableMissing) as failure:
        return str(failure)
    return None


def _admin() -> Any:
    # Its types say less than it has.
    return import_module("confluent_kafka.admin")


def _failed(source: Source, told: str) -> BrokerFailed:
    join = " " if told.startswith("has no topic") else ": "
    return BrokerFailed(without_secrets(f"Kafka at {', '.join(source.servers)}{join}{told}", source))
