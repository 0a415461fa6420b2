"""A real mosquitto that tests start and stop, and a publisher that does not give up."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from tests.support.servers import answers, free_port

ROOT = Path(__file__).parents[3]
DECLARED = """
home = "var"
[streams.air]
event_time = {{ column = "$received", unit = "us" }}
identity = ["topic", "received"]
keys = ["topic"]
measures = ["value"]
levels = ["1m for 2d", "1d forever"]
[streams.air.source]
kind = "mqtt"
broker = "{scheme}://localhost:{port}"
topics = ["air/#"]
{options}
[streams.air.columns]
topic = {{ path = "$topic" }}
received = {{ path = "$received", type = "int" }}
value = {{ path = "$payload", type = "double" }}
"""


def mosquitto() -> str:
    """Return the broker's program; the test is skipped where it is not installed."""
    found = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip("no mosquitto: a package of that name has it")
    return found


@dataclass
class Broker:
    """A broker on a port of its own, which keeps its sessions in a folder through restarts."""

    folder: Path
    options: str = "allow_anonymous true"
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        if not self.port:
            self.port = free_port()
        config = self.folder / "mosquitto.conf"
        config.write_text(
            f"persistence true\npersistence_location {self.folder}/\nmax_queued_messages 0\nuser root\n"
            f"listener {self.port} 127.0.0.1\n{self.options}\n"
        )
        self.process = subprocess.Popen([mosquitto(), "-c", config], stderr=subprocess.DEVNULL)
        wait_for(lambda: answers(self.port), "mosquitto to start")

    def stop(self) -> None:
        """Stop it as an operator would: it writes its sessions down."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)
            self.process = None


def wait_for(is_so: Callable[[], bool], what: str, seconds: float = 240) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.05)


@dataclass
class Bridge:
    """`tidemark bridge` in a process of its own."""

    config: Path
    stream: str
    environment: dict[str, str] = field(default_factory=dict)
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start it; its progress goes to a pipe."""
        command = [sys.executable, "-m", "lakehouse.cli", "--config", str(self.config), "bridge", self.stream]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMARK_")}
        process = subprocess.Popen(
            [*command, *arguments],
            env=inherited | {"PYTHONPATH": str(ROOT)} | self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def end(self) -> None:
        """Kill whatever still runs."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.communicate()

    @property
    def folder(self) -> Path:
        return self.config.parent / "landing" / self.stream

    def lines(self) -> list[str]:
        """Return every line that is safe, landed or not, in order."""
        while True:
            paths = sorted(self.folder.glob(f"{self.stream}-*.ndjson*"))
            # A file that lands just now has another name than a moment ago.
            with suppress(FileNotFoundError):
                return [
                    line for path in paths for line in path.read_text(encoding="utf-8").split("\n") if line
                ]

    def payloads(self) -> list[str]:
        """Return the payload of every message that is safe, in order."""
        return [json.loads(line)["payload"] for line in self.lines()]

    def beat(self) -> dict[str, Any]:
        """Return its last heartbeat, nothing before the first one."""
        path = self.config.parent / "var" / "heartbeats" / f"bridge-{self.stream}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def numbered(count: int, start: int = 0) -> list[tuple[str, bytes, bool]]:
    """Return messages whose payloads are numbers, under a few topics."""
    return [(f"air/{n % 7}", b"%d" % n, False) for n in range(start, start + count)]


@contextmanager
def publisher(broker: Broker) -> Iterator[Callable[[Iterable[tuple[str, bytes, bool]]], None]]:
    """Give a function that publishes (topic, payload, retain) with QoS 1 until the broker has acknowledged all."""
    client = mqtt.Client(CallbackAPIVersion.VERSION2, "publisher", clean_session=False)
    client.max_inflight_messages_set(200)
    client.reconnect_delay_set(1, 1)
    acknowledged: set[int] = set()
    client.on_publish = lambda *told: acknowledged.add(told[2])
    client.connect("127.0.0.1", broker.port)
    client.loop_start()

    def publish(messages: Iterable[tuple[str, bytes, bool]]) -> None:
        # What is published while the broker is away is sent once it is back.
        sent = {client.publish(topic, payload, 1, retain).mid for topic, payload, retain in messages}
        wait_for(lambda: sent <= acknowledged, "messages to be published")

    try:
        yield publish
    finally:
        client.disconnect()
        client.loop_stop()
