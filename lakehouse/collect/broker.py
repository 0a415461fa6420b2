"""A connection to an MQTT broker: who asks, for what, and how much may be on its way unacknowledged."""

import os
import select
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from lakehouse.config.landed_checks import PORTS, broker_address
from lakehouse.config.problems import ConfigError, Problem
from lakehouse.config.stream import Source, Stream

KEEP_ALIVE_S = 60
# Refused for good: trying again with the same words would be refused again.
_FATAL = (
    "not authorized",
    "bad user",
    "bad authentication",
    "banned",
    "client identifier",
    "unsupported protocol",
)


class BrokerRefused(RuntimeError):
    """The broker lets this client not in, or not have a topic; trying again does not help."""


def password_of(stream: Stream) -> str | None:
    """Return the password that the environment has for a stream, None where none is asked for.

    Raises ConfigError when the variable that is to have it is not set.
    """
    name = stream.source.password_env
    if name is None:
        return None
    if name not in os.environ:
        key = f"streams.{stream.name}.source.password_env"
        raise ConfigError("environment", [Problem(key, f"no variable {name}", "the password in it")])
    return os.environ[name]


class Connection:
    """One connection, which lasts until ``is_open`` is false; the session behind it lasts with the broker.

    Messages are given to ``take`` as they come. They count as received by the broker's measure only once they are
    acknowledged, and it sends no more than ``in_flight`` before that.
    """

    def __init__(
        self, stream: Stream, password: str | None, take: Callable[[mqtt.MQTTMessage], None]
    ) -> None:
        """Connect; what the broker says to that comes with ``wait``.

        Raises OSError when it cannot be reached, or TLS fails.
        """
        self.is_ready = False
        # Whether the broker kept the session; None until it has said so, which it does before any message.
        self.resumed: bool | None = None
        self.lost = ""
        self._source, self._refusal = stream.source, ""
        self._client = _client(stream, password)
        self._client.on_message = lambda _client, _userdata, message: take(message)
        self._client.on_connect = self._connected
        self._client.on_subscribe = self._subscribed
        self._client.on_disconnect = self._disconnected
        address = broker_address(stream.source)
        arguments = _session(stream.source)
        self._client.connect(
            address.hostname or "", address.port or PORTS[address.scheme], KEEP_ALIVE_S, **arguments
        )

    @property
    def is_open(self) -> bool:
        """True while the connection lasts."""
        return self._client.socket() is not None

    def wait(self, seconds: float) -> bool:
        """Wait for something to come, take one packet, send what is due; return whether a packet was taken.

        Raises BrokerRefused when the broker refused for good.
        """
        socket: Any = self._client.socket()
        if socket is None:
            return False
        is_waiting = bool(getattr(socket, "pending", lambda: 0)())
        writers = [socket] if self._client.want_write() else []
        readable, writable, _ = select.select([socket], writers, [], 0 if is_waiting else seconds)
        if readable or is_waiting:
            self._client.loop_read()
        if writable and self.is_open:
            self._client.loop_write()
        if self.is_open:
            self._client.loop_misc()
        if self._refusal:
            raise BrokerRefused(self._refusal)
        return bool(readable or is_waiting)

    def acknowledge(self, mids: list[int]) -> None:
        """Tell the broker that these messages, in the order in which they came, are safe."""
        for mid in mids:
            if self.is_open:
                self._client.ack(mid, 1)

    def close(self) -> None:
        """Send what is to be sent and take leave; the broker keeps the session."""
        for _ in range(1000):
            if not (self.is_open and self._client.want_write()):
                break
            self.wait(0.01)
        self._client.disconnect()

    def _connected(self, client: mqtt.Client, _: Any, flags: Any, reason: Any, __: Any) -> None:
        if reason.is_failure:
            refusal = str(reason)
            self.lost = f"the broker refused: {refusal}"
            if any(word in refusal.lower() for word in _FATAL):
                self._refusal = self.lost
            return
        self.resumed = bool(flags.session_present)
        client.subscribe(_subscriptions(self._source))

    def _subscribed(self, _: Any, __: Any, ___: int, reasons: list[Any], ____: Any) -> None:
        refused = [
            f"{topic!r} ({reason})"
            for topic, reason in zip(self._source.topics, reasons, strict=False)
            if reason.is_failure
        ]
        if refused:
            self._refusal = f"the broker refused to subscribe {', '.join(refused)}"
        self.is_ready = not refused

    def _disconnected(self, _: Any, __: Any, ___: Any, reason: Any, ____: Any) -> None:
        self.is_ready = False
        self.lost = self.lost or f"the connection was lost: {reason}"


def _client(stream: Stream, password: str | None) -> mqtt.Client:
    source = stream.source
    name = source.client_id or f"tidemark-{stream.name}"
    is_v5 = source.protocol == "5"
    client = mqtt.Client(
        CallbackAPIVersion.VERSION2,
        client_id=name,
        clean_session=None if is_v5 else False,
        protocol=mqtt.MQTTv5 if is_v5 else mqtt.MQTTv311,
        reconnect_on_failure=False,
        manual_ack=True,
    )
    if source.username is not None:
        client.username_pw_set(source.username, password)
    if broker_address(source).scheme == "mqtts":
        client.tls_set(ca_certs=source.ca, certfile=source.cert, keyfile=source.key)
    return client


def _session(source: Source) -> dict[str, Any]:
    """Properties of a session with the broker: kept between connections, and sending no more than can be held."""
    if source.protocol != "5":
        return {}
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = min(source.session // 1_000_000, 2**32 - 1)
    properties.ReceiveMaximum = source.in_flight
    return {"clean_start": False, "properties": properties}


def _subscriptions(source: Source) -> list[Any]:
    if source.protocol != "5":
        return [(topic, 1) for topic in source.topics]
    # Retained messages come with a new subscription, not again with each connection.
    return [(topic, SubscribeOptions(qos=1, retainHandling=1)) for topic in source.topics]
