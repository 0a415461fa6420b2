"""Messages of an MQTT broker into landing files, each acknowledged once it is safe on disk, never before.

One thread reads, writes and acknowledges in turn: while the disk is slow nothing is read, so at most ``in_flight``
messages are in memory and the rest waits with the broker. Killed between writing and acknowledging, the broker sends
again what was written, and it is written again, exactly alike (repeats.py): a duplicate for ingest, never a second row.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from paho.mqtt.client import MQTTMessage

from lakehouse.collect.broker import Connection
from lakehouse.collect.repeats import Repeats
from lakehouse.collect.running import Pulse, Tell, now_us
from lakehouse.collect.spool import Spool
from lakehouse.config.stream import Stream
from lakehouse.storage.control.lease import lease
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.envelope import Message
from lakehouse.storage.heartbeats import iso
from lakehouse.storage.layout import Home

_IDLE_S = 0.2
# Under load, how long messages are gathered for one commit: an fsync each would be slow, waiting longer no faster.
_GATHER_S = 0.05
_RETRY_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


def bridge(
    stream: Stream, layout: Home, password: str | None, is_stopping: Callable[[], bool], tell: Tell
) -> Pulse:
    """Land a stream's messages until told to stop; return what was done.

    Raises LeaseHeld when another process lands this stream. Raises BrokerRefused when the broker refuses for good.
    Raises OSError when the disk takes no more; what was not safe by then is with the broker still.
    """
    folder = Path(stream.source.path).parent
    pulse = Pulse(layout, "bridge", stream.name)
    folder.mkdir(parents=True, exist_ok=True)
    with lease(layout, folder / stream.name):
        running = _Bridge(stream, folder, pulse, tell)
        try:
            running.run(password, is_stopping)
        except BaseException as error:
            pulse.turn("failed", f"{type(error).__name__}: {error}")
            raise
        pulse.turn("stopped")
    return pulse


class _Bridge:
    def __init__(self, stream: Stream, folder: Path, pulse: Pulse, tell: Tell) -> None:
        source = stream.source
        self.stream, self.pulse, self.tell = stream, pulse, tell
        self.spool = Spool(folder, stream.name, source.roll_bytes, source.roll_after)
        if self.spool.files:
            tell(f"landed {self.spool.files} files that a killed bridge left")
        self.repeats = Repeats(self.spool.landed_lines())
        self.connection: Connection | None = None
        self.unacknowledged: list[int] = []
        self.gathering_since = 0.0

    def run(self, password: str | None, is_stopping: Callable[[], bool]) -> None:
        failures, is_first = 0, True
        while not is_stopping():
            if self.connection is None or not self.connection.is_open:
                self._lost()
                if not is_first:
                    # Also after a connection that worked: another client by our name would take turns with us.
                    self._wait(_RETRY_S[min(failures, len(_RETRY_S) - 1)], is_stopping)
                    failures += 1
                is_first = False
                if is_stopping() or not self._connect(password):
                    continue
            if self._turn():
                failures = 0
        self._commit()
        if self.connection is not None:
            self.connection.close()
        self._landed(self.spool.roll())
        self._beat()

    def take(self, arrived: MQTTMessage) -> None:
        """Write down a message that came; its acknowledgement waits."""
        # Times of receipt differ, so that they tell messages apart.
        received_us = max(now_us(), self.repeats.newest_us + 1)
        delivery = (arrived.qos, arrived.retain, arrived.mid)
        message = Message(arrived.topic, bytes(arrived.payload), received_us, *delivery)
        first_us = self.repeats.first_received_us(message) if arrived.dup else None
        if first_us is not None:
            self.pulse.repeated += 1
            message = replace(message, received_us=first_us)
        self.repeats.remember(message)
        self.spool.append(message.to_line())
        self.pulse.messages += 1
        self.pulse.last_message = iso(received_us)
        self.gathering_since = self.gathering_since or time.monotonic()
        if arrived.qos:
            self.unacknowledged.append(arrived.mid)

    def _turn(self) -> bool:
        """Read what has come, and make it safe; return whether the broker lets us have messages now."""
        assert self.connection is not None
        was_resumed, was_ready = self.connection.resumed, self.connection.is_ready
        has_come = self.connection.wait(0.0 if self.spool.pending else _IDLE_S)
        if self.connection.resumed is not None and was_resumed is None:
            kept = "goes on with" if self.connection.resumed else "begins"
            self.tell(f"connected to {self.stream.source.broker}; {kept} a session")
        if self.connection.is_ready and not was_ready:
            self.pulse.turn("running")
        is_gathered = time.monotonic() - self.gathering_since >= _GATHER_S
        if self.spool.pending and (not has_come or is_gathered or self.spool.pending >= self._most):
            self._commit()
        self._landed(self.spool.roll_if_due(now_us()))
        self._beat()
        return self.connection.is_ready

    @property
    def _most(self) -> int:
        return max(self.stream.source.in_flight // 2, 1)

    def _commit(self) -> None:
        self.spool.commit(now_us())
        if self.connection is not None:
            self.connection.acknowledge(self.unacknowledged)
            crash_point("landing.acknowledged")
        self.unacknowledged, self.gathering_since = [], 0.0

    def _connect(self, password: str | None) -> bool:
        try:
            self.connection = Connection(self.stream, password, self.take)
        except OSError as error:
            note = f"cannot reach {self.stream.source.broker}: {error}"
            if note != self.pulse.note:
                self.tell(note)
            self.pulse.turn("connecting", note)
            return False
        return True

    def _lost(self) -> None:
        """Forget what was to be acknowledged on a connection that is gone: it will be sent, and known, again."""
        if self.connection is not None:
            self.tell(self.connection.lost or "the connection was lost")
            self.pulse.turn("connecting", self.connection.lost)
            self.connection = None
        self.unacknowledged = []
        self._commit()

    def _wait(self, seconds: float, is_stopping: Callable[[], bool]) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not is_stopping():
            time.sleep(min(_IDLE_S, max(end - time.monotonic(), 0.0)))
            self._landed(self.spool.roll_if_due(now_us()))
            self._beat()

    def _landed(self, path: Path | None) -> None:
        if path is not None:
            self.tell(f"landed {path.name}, {path.stat().st_size:,} bytes")

    def _beat(self) -> None:
        self.pulse.files, self.pulse.waiting_bytes = self.spool.files, self.spool.waiting_bytes
        self.pulse.beat()
