"""A real Kafka broker of one node for tests: its jars fetched once by Maven, then started and stopped at will."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers import answers

VERSION = "4.1.1"
_JARS = Path(os.environ.get("TIDEMARK_JARS") or Path.home() / ".cache" / "tidemark") / f"kafka-{VERSION}"
_CLUSTER = "4L6g3nShT-eMCtK--X86sw"
_POM = """
<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>tidemark</groupId><artifactId>broker</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{version}</version></dependency>
</dependencies></project>
"""
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
USER, PASSWORD = "tidemark", "open-sesame-4711"
_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SECURE://127.0.0.1:{secure},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SECURE://127.0.0.1:{secure}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
listener.name.secure.sasl.enabled.mechanisms=PLAIN
listener.name.secure.plain.sasl.jaas.config={login} required user_{user}="{password}";
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
# Messages of tests tell of times long past, which a broker would take for old.
log.retention.ms=-1
log.dirs={folder}/log
"""


@dataclass(frozen=True)
class Message:
    """What a producer sends; a time of 0 is now."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    time_ms: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass
class Broker:
    """A broker's folder and port; its data stay while it is stopped."""

    folder: Path
    port: int
    secure: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    @property
    def guarded(self) -> str:
        """Where clients connect who have ``USER`` and ``PASSWORD``."""
        return f"127.0.0.1:{self.secure}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.process = subprocess.Popen(
            [*_java(), "kafka.Kafka", str(self.folder / "server.properties")],
            stdout=(self.folder / "broker.log").open("ab"),
            stderr=subprocess.STDOUT,
        )
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if self.process.poll() is not None:
                break
            if answers(self.port):
                return
            time.sleep(0.2)
        log = (self.folder / "broker.log").read_text(errors="replace")
        raise RuntimeError(f"the broker did not start: {log[-2000:]}")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop it, by default cleanly."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(60)
            self.process = None

    def create(self, topic: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
        """Create a topic."""
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        admin = AdminClient({"bootstrap.servers": self.servers})
        new = NewTopic(topic, partitions, 1, config=dict(settings or {}))
        admin.create_topics([new])[topic].result(30)

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        from confluent_kafka.admin import AdminClient

        # Held in a name: let go of, it would take its answer along.
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.delete_topics([topic])[topic].result(30)

    def send(self, topic: str, messages: Iterable[Message], **options: str) -> None:
        """Send messages in their order and wait until all are stored."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 20} | options)
        for message in messages:
            self._produce(producer, topic, message)
        assert producer.flush(60) == 0

    def send_and_end(self, topic: str, messages: Iterable[Message], commit: bool) -> None:
        """Send messages in one transaction, and commit or abort it."""
        from confluent_kafka import Producer

        name = f"{topic}-{time.monotonic_ns()}"
        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": name})
        producer.init_transactions(60)
        producer.begin_transaction()
        for message in messages:
            self._produce(producer, topic, message)
        producer.flush(60)
        producer.commit_transaction(60) if commit else producer.abort_transaction(60)

    @staticmethod
    def _produce(producer: Any, topic: str, message: Message) -> None:
        told = {
            "partition": message.partition,
            "timestamp": message.time_ms,
            "headers": list(message.headers),
        }
        while True:
            try:
                producer.produce(topic, message.value, message.key, **told)
                return
            except BufferError:
                producer.poll(0.1)

    def widen(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions."""
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewPartitions

        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)

    def forget(self, topic: str, partition: int, before: int) -> None:
        """Delete the messages of a partition before an offset, as retention does."""
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.servers})
        place = TopicPartition(topic, partition, before)
        admin.delete_records([place])[place].result(30)


@contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    """Run a new broker; the test is skipped with the reason where its jars cannot be had."""
    _fetch()
    port, secure, controller = _free_ports(3)
    folder.mkdir(parents=True, exist_ok=True)
    properties = folder / "server.properties"
    ports = {"port": port, "secure": secure, "controller": controller}
    who = {"login": LOGIN, "user": USER, "password": PASSWORD}
    properties.write_text(_PROPERTIES.format(folder=folder, **ports, **who))
    tool = [*_java(), "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(properties)]
    subprocess.run(tool, check=True, capture_output=True)
    running = Broker(folder, port, secure)
    running.start()
    try:
        yield running
    finally:
        running.stop(signal.SIGKILL)


def _fetch() -> None:
    if (_JARS / "done").exists():
        return
    if shutil.which("mvn") is None or shutil.which("java") is None:
        pytest.skip("a Kafka broker needs Java and Maven, which are not installed")
    _JARS.mkdir(parents=True, exist_ok=True)
    (_JARS / "pom.xml").write_text(_POM.format(version=VERSION))
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={_JARS}"]
    found = subprocess.run(command, cwd=_JARS, capture_output=True, text=True, check=False, timeout=280)
    if found.returncode:
        pytest.skip(f"a Kafka broker's jars cannot be fetched: {found.stdout[-300:]}")
    (_JARS / "done").touch()


def _java() -> list[str]:
    quiet = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=WARN"]
    return ["java", *quiet, "-cp", f"{_JARS}/*"]


def _free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    try:
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()
