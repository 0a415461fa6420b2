"""A stop that a signal asks for: running tasks may end, as long as the process may take to end (``ending.py``)."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue

log = logging.getLogger(__name__)


class Stop(threading.Event):
    """An event that the first SIGTERM or SIGINT sets."""

    def __init__(self) -> None:
        super().__init__()
        # A signal may come while this thread holds the lock of an event or a log: only such a queue needs none.
        self._heard: SimpleQueue[int] = SimpleQueue()
        threading.Thread(target=self._obey, name="signals", daemon=True).start()

    def listen(self) -> None:
        """Handle the signals from now on; to be called in the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda heard, _: self._heard.put(heard))

    def _obey(self) -> None:
        name = signal.Signals(self._heard.get()).name
        log.info("%s: the running works end, then it stops", name)
        self.set()


@contextmanager
def until_signalled() -> Iterator[Stop]:
    """Listen for signals during the block."""
    stop = Stop()
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    stop.listen()
    try:
        yield stop
    finally:
        for number, before in kept.items():
            signal.signal(number, before)


def notify(*words: str) -> None:
    """Send words such as ``READY=1`` to the socket that NOTIFY_SOCKET names; failures are ignored."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    # An address that begins with @ is in the abstract namespace.
    target = "\0" + address[1:] if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as messages:
        messages.sendto("\n".join(words).encode(), target)
