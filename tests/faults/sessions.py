"""An MQTT broker that restarts or loses its session with a bridge that is killed, as a seed draws it.

Every message that came while the broker held a session for the bridge is landed, and a line that is there twice is the
same line, which an identity makes one row. What a lost session held nobody can have back; that another one begins is
said.
"""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.faults.report import Progress
from tests.support.brokers.mqtt import DECLARED, Bridge, Broker, mosquitto, numbered, publisher, wait_for

CASES, QUICK, EVENTS, MOST_MESSAGES = 10, 1, 8, 400
EVENT_WEIGHTS = {"sent": 3, "bridge killed": 2, "broker restarted": 1, "session lost": 1}


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Try some seeds, each with a broker and a bridge of its own."""
    try:
        mosquitto()
    except pytest.skip.Exception as skipped:
        return {"tried": 0, "told": str(skipped), "broken": []}
    counts, broken = Counter[str](), list[str]()
    cases = range(QUICK if quick else CASES)
    for seed in progress(iter(cases), len(cases)):
        with tempfile.TemporaryDirectory(prefix="tidemark-faults-") as name:
            session = Session(random.Random(seed), *_begun(Path(name)))
            try:
                broken += [f"seed {seed}: {each}" for each in session.wrong_after(EVENTS)]
            except Exception:
                broken.append(f"seed {seed}: {traceback.format_exc(limit=-3)}")
            finally:
                session.bridge.end()
                session.broker.stop()
            counts += session.befell
    told = ", ".join(f"{what} {count} times" for what, count in sorted(counts.items()))
    return {"tried": len(cases), "told": told, "broken": broken}


def _begun(folder: Path) -> tuple[Broker, Bridge]:
    (folder / "broker").mkdir()
    broker = Broker(folder / "broker")
    broker.start()
    config = folder / "tidemark.toml"
    # Few in flight and small files: a bridge that dies has both written and landed what is not acknowledged.
    options = "in_flight = 50\nroll_bytes = 10000"
    config.write_text(DECLARED.format(port=broker.port, options=options, scheme="mqtt"), encoding="utf-8")
    return broker, Bridge(config, "air")


@dataclass
class Session:
    """A broker and a bridge; messages are numbers, of which some must be landed and others may be."""

    dice: random.Random
    broker: Broker
    bridge: Bridge
    befell: Counter[str] = field(default_factory=Counter)
    number: int = 0
    must: set[str] = field(default_factory=set)
    may: set[str] = field(default_factory=set)

    def wrong_after(self, events: int) -> Iterator[str]:
        """Let so many things befall them; say what is wrong with what has landed then."""
        running = self.bridge.start()
        _wait_for_session(self.bridge, running)
        for _ in range(events):
            what = self.dice.choices(list(EVENT_WEIGHTS), list(EVENT_WEIGHTS.values()))[0]
            self.befell[what] += 1
            if what == "sent":
                self.must |= self._send()
            elif what == "broker restarted":
                self.broker.stop()
                self.broker.start()
            else:
                is_lost = what == "session lost"
                running = self._without_bridge(running, is_lost)
                said = _wait_for_session(self.bridge, running)
                if is_lost and "begins a session" not in said:
                    yield f"a session was lost, and the bridge says: {said}"
        self.must |= self._send()
        yield from self._wrong_lines()

    def _without_bridge(self, running: subprocess.Popen[str], is_lost: bool) -> subprocess.Popen[str]:
        """Kill the bridge, send messages that wait for it, lose them with their session or not; start it again."""
        if is_lost:
            self._wait_until_landed()
        running.kill()
        running.communicate()
        waits = self._send()
        if is_lost:
            self.may |= waits
            self.broker.stop()
            (self.broker.folder / "mosquitto.db").unlink()
            self.broker.start()
        else:
            self.must |= waits
        return self.bridge.start()

    def _send(self) -> set[str]:
        count = self.dice.randint(1, MOST_MESSAGES)
        with publisher(self.broker) as publish:
            publish(numbered(count, self.number))
        self.number += count
        return {str(number) for number in range(self.number - count, self.number)}

    def _wait_until_landed(self) -> None:
        wait_for(lambda: self.must <= set(self.bridge.payloads()), "all messages")

    def _wrong_lines(self) -> Iterator[str]:
        self._wait_until_landed()
        payloads = Counter(json.loads(line)["payload"] for line in set(self.bridge.lines()))
        if unknown := payloads.keys() - self.must - self.may:
            yield f"never sent: {sorted(unknown)}"
        yield from (f"{count} different lines of {one}" for one, count in payloads.items() if count > 1)


def _wait_for_session(bridge: Bridge, running: subprocess.Popen[str]) -> str:
    """Wait until a bridge is connected and has what it asked for; return what it said of its session."""
    assert running.stderr
    said = next((line for line in running.stderr if "connected to" in line), "")
    # What a bridge that was killed told last may still stand there.
    ready = {"state": "running", "pid": running.pid}.items()
    wait_for(lambda: ready <= bridge.beat().items(), "the bridge")
    return said
