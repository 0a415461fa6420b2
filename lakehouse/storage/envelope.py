"""A message as the MQTT bridge lands it: one JSON object a line, with the payload as it came.

    {"topic": "home/hall/temp", "payload": "21.5", "received": 1767225600000000, "qos": 1, "retain": false, "mid": 7}

``payload`` is the payload's text; bytes that are no UTF-8 are in ``payload_base64`` instead. ``received`` is when the
bridge had it, in microseconds, and no two messages of a bridge have the same. A stream reads what is around the payload
by paths such as ``$topic`` (columns.py); all other paths are inside the payload.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Message:
    """A message and how it came; ``mid`` is the packet's number in its session, 0 with QoS 0."""

    topic: str
    payload: bytes
    received_us: int
    qos: int = 1
    retain: bool = False
    mid: int = 0

    def to_line(self) -> bytes:
        """Return the message as one line of JSON, with its end."""
        fields: dict[str, object] = {"topic": self.topic}
        try:
            fields["payload"] = self.payload.decode("utf-8")
        except UnicodeDecodeError:
            fields["payload_base64"] = base64.b64encode(self.payload).decode("ascii")
        fields |= {"received": self.received_us, "qos": self.qos, "retain": self.retain, "mid": self.mid}
        return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace") + b"\n"

    @staticmethod
    def from_line(line: bytes | str) -> Message:
        """Read a message back. Raises ValueError when the line is none."""
        fields = json.loads(line)
        try:
            payload = (
                fields["payload"].encode()
                if "payload" in fields
                else base64.b64decode(fields["payload_base64"])
            )
            rest = (fields["received"], fields["qos"], fields["retain"], fields["mid"])
            return Message(fields["topic"], payload, *rest)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"expected a message as the bridge writes it, found {str(line)[:200]}"
            ) from error
