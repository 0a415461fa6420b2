"""Checks of a source that is landed first: its folder, a broker's address, topics, secrets."""

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from glob import has_magic
from urllib.parse import SplitResult, urlsplit

from lakehouse.config.problems import Problem
from lakehouse.config.stream import Source, Stream

PORTS = {"mqtt": 1883, "mqtts": 8883}
_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


def landed_problems(stream: Stream) -> Iterator[Problem]:
    """Yield what is wrong with a source of kind mqtt or host, beyond keys and formats of another kind."""
    for check in (_folder, _broker, _topics, _secrets, _identity):
        yield from check(stream)


def broker_address(source: Source) -> SplitResult:
    """Return a broker's address, taken apart.

    Raises ValueError when it is none, or has a user in it: nothing of it is in the message, which may hold a
    password.
    """
    try:
        address = urlsplit(source.broker or "")
        is_right = bool(address.scheme in PORTS and address.hostname and (address.port or 1) > 0)
    except ValueError:
        is_right = False
    if not is_right or address.path.strip("/") or address.query or address.fragment:
        raise ValueError("no such address")
    if address.username is not None:
        raise ValueError("a user name or password in it")
    return address


def _folder(stream: Stream) -> Iterator[Problem]:
    source = stream.source
    folder, name = os.path.split(source.path)
    if has_magic(folder) or not fnmatch(f"{stream.name}-20260101T000000.000000Z.ndjson", name):
        yield Problem(
            "source.path", repr(source.path), 'one folder, then a pattern such as "landing/x/*.ndjson"'
        )


def _broker(stream: Stream) -> Iterator[Problem]:
    source = stream.source
    if not source.broker:
        return
    try:
        is_plain = broker_address(source).scheme == "mqtt"
    except ValueError as error:
        expected = '"mqtt://HOST:PORT" or "mqtts://HOST:PORT"; username and password_env say who asks'
        yield Problem("source.broker", str(error), expected)
    else:
        for key in ("ca", "cert", "key"):
            if is_plain and getattr(source, key):
                yield Problem(
                    f"source.{key}", 'broker "mqtt://..."', 'broker = "mqtts://...": only TLS has it'
                )


def _topics(stream: Stream) -> Iterator[Problem]:
    for topic in stream.source.topics:
        if not _is_filter(topic):
            yield Problem(
                "source.topics", repr(topic), "+ for one whole level, # for all further ones, at the end"
            )


def _is_filter(topic: str) -> bool:
    levels = topic.split("/")
    wild = [level for level in levels if "+" in level or "#" in level]
    return all(level in ("+", "#") for level in wild) and "#" not in levels[:-1]


def _secrets(stream: Stream) -> Iterator[Problem]:
    source = stream.source
    if source.password_env is not None and not _VARIABLE.match(source.password_env):
        # Whoever takes it for the password itself has written the password here.
        yield Problem(
            "source.password_env", "no name of a variable", "the environment variable that has the password"
        )
    if source.password_env is not None and source.username is None:
        yield Problem("source.username", "nothing", "the user whose password password_env names")
    if (source.cert is None) != (source.key is None):
        yield Problem("source.cert", "one of cert and key", "both: a certificate and its key")


def _identity(stream: Stream) -> Iterator[Problem]:
    if stream.source.kind != "mqtt":
        return
    if not stream.identity:
        expected = '["*"] (topic and payload) or columns, such as one of "$received"'
        yield Problem("identity", "nothing: what a broker sends again would be another row", expected)
    time = stream.event_time.column
    column = stream.columns.get(time)
    if stream.identity_is_record and "$received" in (time, column and column.path):
        # The same topic and payload at another time would be a conflict.
        yield Problem(
            "identity", '["*"] with the event time "$received"', 'columns, one of them of "$received"'
        )
