"""Redeliveries of messages that were already written, and the time when the first one was received.

A broker sends again, once a connection is lost, what it had seen no acknowledgement for by then: the same topic and
payload under the same packet number, marked as a duplicate. Such a message is written a second time exactly as it was
the first time, the time of receipt included: whatever identity a stream declares, its rows are duplicates then.

How many come again is not ours to say: acknowledgements that the broker had not read are lost with the connection, and
brokers send more than was asked for (Mosquitto 2.0.11 after a session was resumed). So the last message of each
packet number is remembered, for half of the numbers that there are. A broker counts through all of them before it
uses one again: a message that was lost on the way is never taken for an earlier one that was equal to it.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from itertools import islice

from lakehouse.storage.envelope import Message

PACKET_NUMBERS = 65_535
MOST = PACKET_NUMBERS // 2


class Repeats:
    """The last messages that were written, at most ``most`` of them. Cost: O(1) a message.

    Memory: a digest of each, whatever the payloads are.
    """

    def __init__(self, newest_first: Iterable[bytes] = (), most: int = MOST) -> None:
        """Begin with lines that were written before, newest first; those that are no messages are passed over."""
        self.most, self.newest_us = most, 0
        self._written: OrderedDict[int, tuple[bytes, int]] = OrderedDict()
        # Twice as many, because messages of QoS 0, which are never sent again, stand between the others.
        for message in _messages(islice(newest_first, 2 * most)):
            self.newest_us = max(self.newest_us, message.received_us)
            if message.qos and message.mid not in self._written and len(self._written) < most:
                self._written[message.mid] = (_digest(message), message.received_us)
                self._written.move_to_end(message.mid, last=False)

    def remember(self, message: Message) -> None:
        """Keep a message that is written, again or for the first time; one of QoS 0 is never sent again."""
        self.newest_us = max(self.newest_us, message.received_us)
        if not message.qos:
            return
        self._written.pop(message.mid, None)
        self._written[message.mid] = (_digest(message), message.received_us)
        while len(self._written) > self.most:
            self._written.popitem(last=False)

    def first_received_us(self, message: Message) -> int | None:
        """Return when a message that is sent again was received first, None when it was not written before."""
        digest, received_us = self._written.get(message.mid, (b"", 0))
        return received_us if digest == _digest(message) else None


def _messages(lines: Iterable[bytes]) -> Iterator[Message]:
    for line in lines:
        with suppress(ValueError):
            yield Message.from_line(line)


def _digest(message: Message) -> bytes:
    return blake2b(message.topic.encode() + b"\0" + message.payload, digest_size=16).digest()
