"""A topic whose broker dies, whose messages go before they are read, whose transactions are aborted, and that widens.

What befalls it, and when it is read, is drawn by a seed. Every message that was committed is a row once, but those that
went before they were read: then the stream stands still until the loss is accepted, and these alone are missing. Made
anew under the same name, the topic is refused.
"""

from __future__ import annotations

import multiprocessing
import random
import signal
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.report import Progress
from tests.ingest.topics import IDENTITY, T0, declared, sent
from tests.support.brokers.kafka import Broker, broker

if TYPE_CHECKING:
    from tests.support.readings_lake import Lake

CASES, QUICK, EVENTS = 10, 1, 14
US, MOST_MESSAGES, PARTITIONS = 1_000_000, 12, 2
# How likely each event is, beside the others.
EVENT_WEIGHTS = {
    "sent": 4,
    "committed": 1,
    "aborted": 2,
    "sent again": 1,
    "read": 4,
    "widened": 1,
    "forgotten": 1,
    "broker killed": 1,
}
# What befell the topic, by kind, and what is wrong.
Found = tuple[Counter[str], list[str]]


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Try some seeds, each with a topic and a lakehouse of its own."""
    counts, broken = Counter[str](), list[str]()
    cases = range(QUICK if quick else CASES)
    # Spark is started in a process of its own: other parts fork from this one.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
        if said := fresh.submit(_cannot_begin).result():
            return {"tried": 0, "told": said, "broken": []}
        for seed, (befell, wrong) in progress(
            ((seed, fresh.submit(tried, seed).result()) for seed in cases), len(cases)
        ):
            counts += befell
            broken += [f"seed {seed}: {each}" for each in wrong]
        fresh.submit(_end).result()
    told = ", ".join(f"{what} {count} times" for what, count in sorted(counts.items()))
    return {"tried": len(cases), "told": told, "broken": broken}


# Of the process in which seeds are tried: the broker, and what ends it.
_RUNNING: list[tuple[Broker, Iterator[Broker]]] = []


def _cannot_begin() -> str:
    """Start a broker; say why that cannot be."""
    made = _broker()
    try:
        _RUNNING.append((next(made), made))
    except pytest.skip.Exception as skipped:
        return str(skipped)
    return ""


def _broker() -> Iterator[Broker]:
    with (
        tempfile.TemporaryDirectory(prefix="tidemark-faults-") as name,
        broker(Path(name) / "kafka") as running,
    ):
        yield running


def _end() -> None:
    for _, made in _RUNNING:
        next(made, None)


def tried(seed: int) -> Found:
    """Let things befall a topic and read it; return them, and what is wrong at the end."""
    with tempfile.TemporaryDirectory(prefix="tidemark-faults-") as name:
        topic = Topic(_RUNNING[0][0], f"faults-{seed}", random.Random(seed))
        try:
            wrong = list(topic.wrong_after(EVENTS, _lake(topic, Path(name))))
        except Exception:
            wrong = [traceback.format_exc(limit=-3)]
    return topic.befell, wrong


def _lake(topic: Topic, folder: Path) -> Lake:
    from lakehouse.settings import load_settings
    from lakehouse.spark.session import started_session
    from tests.support.readings_lake import Lake

    config = folder / "tidemark.toml"
    source = 'format = "ndjson"\nbatch_rows = 10'
    config.write_text(declared(topic.broker.servers, [topic.name], source=source, stream=IDENTITY))
    settings = load_settings(config)
    return Lake(started_session(settings), settings)


@dataclass
class Topic:
    """A topic, and what its messages must come to; a message is a second, by which it is known again."""

    broker: Broker
    name: str
    dice: random.Random
    befell: Counter[str] = field(default_factory=Counter)
    partitions: int = PARTITIONS
    number: int = 0
    # Committed and not read yet, by partition; and read.
    waiting: dict[int, list[int]] = field(default_factory=dict)
    read: set[int] = field(default_factory=set)
    # Partitions that have been read from; whether messages of these went before they were read.
    known: int = 0
    is_short: bool = False

    def wrong_after(self, events: int, lake: Lake) -> Iterator[str]:
        """Let so many things befall it; say what is wrong in the tables then."""
        self.broker.create(self.name, self.partitions)
        for _ in range(events):
            what = self.dice.choices(list(EVENT_WEIGHTS), list(EVENT_WEIGHTS.values()))[0]
            self.befell[what] += 1
            yield from self._befalls(what, lake)
        yield from self._read(lake)
        yield from self._wrong_rows(lake)
        yield from self._made_anew(lake)

    def _befalls(self, what: str, lake: Lake) -> Iterator[str]:
        if what in ("sent", "committed", "aborted", "sent again"):
            self._send(what)
        elif what == "read":
            yield from self._read(lake)
        elif what == "widened":
            self.partitions += 1
            self.broker.widen(self.name, self.partitions)
        elif what == "forgotten":
            partition = self.dice.randrange(self.partitions)
            self.broker.forget(self.name, partition, before=-1)
            gone = self.waiting.pop(partition, [])
            self.is_short = self.is_short or (bool(gone) and partition < self.known)
        else:
            self.broker.stop(signal.SIGKILL)
            self.broker.start()

    def _send(self, how: str) -> None:
        count = self.dice.randint(1, MOST_MESSAGES)
        seconds = list(range(self.number, self.number + count))
        if how == "sent again":
            # What was read before is a repeat; what was lost before comes to be there after all.
            seconds = self.dice.sample(range(self.number), min(count, self.number))
        else:
            self.number += count
        placed = [(second, self.dice.randrange(self.partitions)) for second in seconds]
        messages = [sent(second, partition) for second, partition in placed]
        if how in ("sent", "sent again"):
            self.broker.send(self.name, messages)
        else:
            self.broker.send_and_end(self.name, messages, commit=how == "committed")
        for second, partition in placed if how != "aborted" else ():
            self.waiting.setdefault(partition, []).append(second)

    def _read(self, lake: Lake) -> Iterator[str]:
        from jobs import accept_loss
        from lakehouse.ingest.topics import OffsetsGone

        try:
            lake.ingest()
            yield from ["messages went before they were read, and nobody is told"] if self.is_short else []
        except OffsetsGone:
            accept_loss.run(lake.settings, lake.spark, lake.stream)
            lake.ingest()
        self.is_short, self.known = False, self.partitions
        for seconds in self.waiting.values():
            self.read |= set(seconds)
        self.waiting = {}

    def _wrong_rows(self, lake: Lake) -> Iterator[str]:
        held = Counter(event // US - T0 for (event,) in lake.rows("raw", "event_us"))
        for said, seconds in (
            ("lost", self.read - held.keys()),
            ("not to be there", held.keys() - self.read),
        ):
            yield from [f"{said}: {sorted(seconds)}"] if seconds else []
        yield from (f"{count} times there: {second}" for second, count in held.items() if count > 1)
        words = ("received", "accepted", "quarantined", "duplicates")
        counts = [sum(column) for column in zip(*lake.rows("ledger", *words), strict=True)]
        if counts[0] != sum(counts[1:]) or counts[1] != held.total():
            yield f"the ledger has {counts} of {', '.join(words)}, raw {held.total()} rows"

    def _made_anew(self, lake: Lake) -> Iterator[str]:
        from lakehouse.ingest.topics import TopicRecreated

        self.befell["made anew"] += 1
        self.broker.delete(self.name)
        self.broker.create(self.name, self.partitions)
        self.broker.send(self.name, [sent(second) for second in range(50)])
        try:
            lake.ingest()
            yield "another topic under the same name is read on"
        except TopicRecreated:
            pass
