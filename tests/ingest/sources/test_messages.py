"""Messages that the bridge landed, through a whole ingest: paths inside the payload, fields around it, repeats."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from lakehouse.settings import Settings
from lakehouse.storage.envelope import Message
from tests.ingest.no_session import no_session
from tests.support.readings_lake import Lake

T0 = 1_600_000_000
SOURCE = 'source = { kind = "mqtt", broker = "mqtt://localhost", topics = ["air/#"] }\n'
PLAIN = f"""
home = "var"
[streams.air]
event_time = {{ column = "$received", unit = "us" }}
identity = ["room", "received"]
keys = ["room"]
measures = ["temp"]
groupings = [["room"]]
levels = ["1m for 2d", "1d forever"]
{SOURCE}
[streams.air.columns]
room = {{ path = "$topic.1" }}
topic = {{ path = "$topic" }}
temp = {{ path = "$payload", type = "double" }}
received = {{ path = "$received", type = "int" }}
"""
INSIDE = f"""
home = "var"
[streams.air]
event_time = {{ column = "ts", unit = "s" }}
arrival_time = {{ column = "$received", unit = "us" }}
identity = ["*"]
keys = ["room"]
measures = ["temp"]
levels = ["1m for 2d", "1d forever"]
{SOURCE}
[streams.air.columns]
room = {{ path = "$topic.1" }}
temp = {{ path = "data.temp", type = "double" }}
"""


def message(payload: bytes | str, second: float = 0, topic: str = "air/hall/temp", mid: int = 1) -> bytes:
    content = payload.encode() if isinstance(payload, str) else payload
    return Message(topic, content, int((T0 + second) * 10**6), mid=mid).to_line()


@pytest.fixture
def lake(lakehouse_of: Callable[[str], Settings]) -> Callable[[str], Lake]:
    def make(text: str) -> Lake:
        settings = lakehouse_of(text)
        return Lake(no_session(settings), settings, "air")

    return make


def test_a_payload_that_is_a_number_is_a_reading_at_the_time_it_came(lake: Callable[[str], Lake]) -> None:
    air = lake(PLAIN)
    again = message("21.5", 1)
    air.land(
        "1.ndjson", message("21.5") + again + again + message("22", 2, "air/attic/temp") + message("warm", 3)
    )

    counts = air.ingest()

    assert (counts["accepted"], counts["duplicates"], counts["quarantined"]) == (3, 1, 1)
    assert air.rows("raw", "event_us", "room", "temp", "topic") == [
        (T0 * 10**6, "hall", 21.5, "air/hall/temp"),
        ((T0 + 1) * 10**6, "hall", 21.5, "air/hall/temp"),
        ((T0 + 2) * 10**6, "attic", 22.0, "air/attic/temp"),
    ]
    assert air.rows("quarantine", "reason", "record") == [("bad_value", message("warm", 3).strip())]


def test_the_same_topic_and_payload_are_one_message_whenever_they_come(lake: Callable[[str], Lake]) -> None:
    air = lake(INSIDE)
    payload = json.dumps({"ts": T0, "data": {"temp": 20}})
    other = message(payload, 5, "air/attic/temp")
    air.land("1.ndjson", message(payload) + message(payload, 7, mid=9) + other)
    air.ingest()
    air.land("2.ndjson", message(payload, 60, mid=2))

    counts = air.ingest()

    assert (counts["received"], counts["duplicates"]) == (1, 1)
    assert air.rows("raw", "event_us", "arrival_us", "room", "temp") == [
        (T0 * 10**6, T0 * 10**6, "hall", 20.0),
        (T0 * 10**6, (T0 + 5) * 10**6, "attic", 20.0),
    ]


@pytest.mark.parametrize("identity", ['["room", "received"]', '["topic"]'])
def test_what_a_broker_sends_again_is_a_duplicate_whatever_the_identity(
    lake: Callable[[str], Lake], identity: str
) -> None:
    air = lake(PLAIN.replace('["room", "received"]', identity))
    air.land("1.ndjson", message("21.5"))
    air.ingest()
    air.land("2.ndjson", message("21.5"))

    counts = air.ingest()

    assert (counts["received"], counts["duplicates"], counts["accepted"]) == (1, 1, 0)


def test_bytes_and_the_text_of_their_base64_are_two_messages(lake: Callable[[str], Lake]) -> None:
    text = PLAIN.replace('["room", "received"]', '["*"]').replace('["temp"]', "[]")
    text = text.replace('column = "$received", unit = "us"', 'column = "$topic.1", unit = "s"')
    air = lake(text.replace('temp = { path = "$payload", type = "double" }', 'said = { path = "$payload" }'))
    payloads: list[bytes | str] = [b"\xff\xfe", "//4=", b"\xff\xfe"]
    air.land("1.ndjson", b"".join(message(each, n, f"air/{T0}") for n, each in enumerate(payloads)))

    counts = air.ingest()

    assert (counts["accepted"], counts["duplicates"]) == (2, 1)
    assert air.rows("raw", "received", "said") == [(T0 * 10**6, "//4="), ((T0 + 1) * 10**6, "//4=")]


def test_what_cannot_be_read_is_told_apart(lake: Callable[[str], Lake]) -> None:
    air = lake(INSIDE)
    lines = [
        b'{"ts": 1600000000}\n',
        message("21.5"),
        message(b"\xff\xfe"),
        message('{"ts": "noon"}'),
        b"half of a\n",
    ]
    air.land("1.ndjson", b"".join(lines))

    air.ingest()

    found = {
        line: (reason, detail)
        for line, reason, detail in air.rows("quarantine", "source_line", "reason", "detail")
    }
    assert [found[line][0] for line in range(1, 6)] == ["malformed"] * 3 + ["bad_event_time", "malformed"]
    assert "a message as the bridge writes it" in found[1][1] and "as the payload" in found[2][1]
