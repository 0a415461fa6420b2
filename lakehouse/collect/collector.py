"""This machine's own sensors and connections into landing files, at an interval, for all streams in one process."""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from lakehouse.collect.host import Host
from lakehouse.collect.running import Pulse, Tell, now_us
from lakehouse.collect.spool import Spool
from lakehouse.config.stream import Stream
from lakehouse.storage.control.lease import lease
from lakehouse.storage.heartbeats import iso
from lakehouse.storage.layout import Home

_NAP_S = 0.2


def collect(
    streams: Sequence[Stream], layout: Home, is_stopping: Callable[[], bool], tell: Tell
) -> list[Pulse]:
    """Land what this machine says, for each stream at its interval, until told to stop; return what was done.

    A sample that is due while another is taken comes late; one that was missed altogether is not made up for. Raises
    LeaseHeld when another process lands one of the streams. Raises OSError when the disk takes no more; what was safe
    by then stays.
    """
    with ExitStack() as held:
        for stream in streams:
            folder = Path(stream.source.path).parent
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(lease(layout, folder / stream.name))
        collectors = [_Collector(stream, layout, tell) for stream in streams]
        try:
            while not is_stopping():
                for collector in collectors:
                    collector.sample_if_due()
                time.sleep(_NAP_S)
            for collector in collectors:
                collector.finish()
        except BaseException as error:
            for collector in collectors:
                collector.pulse.turn("failed", f"{type(error).__name__}: {error}")
            raise
    return [collector.pulse for collector in collectors]


class _Collector:
    def __init__(self, stream: Stream, layout: Home, tell: Tell) -> None:
        source = stream.source
        self.stream, self.tell = stream, tell
        self.pulse = Pulse(layout, "collect", stream.name, "running")
        self.spool = Spool(Path(source.path).parent, stream.name, source.roll_bytes, source.roll_after)
        self.host = Host(now_us())
        # Shares and rates are over the time since the sample before: the first one comes an interval from now.
        self.due_us = now_us() + source.every

    def sample_if_due(self) -> None:
        at = now_us()
        if at >= self.due_us:
            self._sample(at)
            missed = (at - self.due_us) // self.stream.source.every
            self.due_us += (missed + 1) * self.stream.source.every
        self._landed(self.spool.roll_if_due(at))
        self._beat()

    def finish(self) -> None:
        self._landed(self.spool.roll())
        self._beat()
        self.pulse.turn("stopped")

    def _sample(self, at_us: int) -> None:
        records = getattr(self.host, self.stream.source.records)(at_us)
        for record in records:
            self.spool.append(json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        self.spool.commit(at_us)
        self.pulse.messages += len(records)
        self.pulse.last_message = iso(at_us)

    def _landed(self, path: Path | None) -> None:
        if path is not None:
            self.tell(f"{self.stream.name}: landed {path.name}, {path.stat().st_size:,} bytes")

    def _beat(self) -> None:
        self.pulse.files, self.pulse.waiting_bytes = self.spool.files, self.spool.waiting_bytes
        self.pulse.beat()
