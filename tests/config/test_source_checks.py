from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakehouse.config.checks import stream_problems
from lakehouse.config.presets import with_landing
from lakehouse.config.problems import ConfigError
from lakehouse.config.stream import Stream
from lakehouse.settings import load_settings

MQTT: dict[str, Any] = {"kind": "mqtt", "broker": "mqtts://broker.example", "topics": ["a/+/b", "c/#"]}
KAFKA: dict[str, Any] = {"kind": "kafka", "servers": ["h:9092"], "topics": ["a"], "format": "ndjson"}
HEAD = """
[streams.s]
identity = ["*"]
levels = ["1d forever"]
event_time = { column = "ts", unit = "us" }
[streams.s.source]
"""
USER = {"username": "u", "password_env": "LORA_PASSWORD"}


def problems(source: dict[str, Any], **stream: Any) -> list[tuple[str, str]]:
    table = {
        "name": "s",
        "event_time": {"column": "ts", "unit": "s"},
        "levels": ["1d forever"],
        "identity": ["*"],
        "source": source,
    }
    found = stream_problems(Stream.model_validate(with_landing("s", table | stream)))
    return [(problem.key.removeprefix("streams.s."), problem.found) for problem in found]


@pytest.mark.parametrize(
    "source",
    [
        MQTT,
        MQTT
        | USER
        | {"ca": "ca.pem", "cert": "c.pem", "key": "k.pem", "client_id": "x", "protocol": "3.1.1"},
        MQTT | {"broker": "mqtt://[::1]:1884/", "path": "/data/air/s-*.ndjson", "roll_after": "5s"},
        {"kind": "host", "every": "1s", "records": "connections"},
    ],
)
def test_what_a_bridge_and_a_collector_need_is_right(source: dict[str, Any]) -> None:
    assert problems(source) == []


@pytest.mark.parametrize(
    ("source", "key", "found"),
    [
        ({"kind": "mqtt", "topics": ["a"]}, "source.broker", "nothing"),
        ({"kind": "mqtt", "broker": "mqtt://h"}, "source.topics", "nothing"),
        (MQTT | {"broker": "http://h"}, "source.broker", "no such address"),
        (MQTT | {"broker": "mqtt://"}, "source.broker", "no such address"),
        (MQTT | {"broker": "mqtt://h:x"}, "source.broker", "no such address"),
        (MQTT | {"broker": "mqtt://h:1883/topic"}, "source.broker", "no such address"),
        (MQTT | {"topics": ["a/#/b"]}, "source.topics", "'a/#/b'"),
        (MQTT | {"topics": ["a+"]}, "source.topics", "'a+'"),
        (MQTT | {"password_env": "P"}, "source.username", "nothing"),
        (MQTT | {"cert": "c.pem"}, "source.cert", "one of cert and key"),
        (MQTT | {"broker": "mqtt://h", "ca": "ca.pem"}, "source.ca", 'broker "mqtt://..."'),
        (MQTT | {"format": "csv"}, "source.format", "'csv' with kind 'mqtt'"),
        (MQTT | {"path": "landing/*/x.ndjson"}, "source.path", "'landing/*/x.ndjson'"),
        (MQTT | {"path": "landing/*.csv"}, "source.path", "'landing/*.csv'"),
        (MQTT | {"every": "1s"}, "source.every", "kind 'mqtt'"),
        ({"kind": "host", "broker": "mqtt://h"}, "source.broker", "kind 'host'"),
        ({"path": "x", "format": "ndjson", "topics": ["a"]}, "source.topics", "kind 'files'"),
    ],
)
def test_a_source_that_cannot_work_is_refused(source: dict[str, Any], key: str, found: str) -> None:
    assert problems(source) == [(key, found)]


@pytest.mark.parametrize(
    ("source", "path", "found"),
    [
        ({"path": "x", "format": "ndjson"}, "$topic", "'$topic'"),
        (MQTT, "$mid", "'$mid'"),
        (MQTT, "$offset", "'$offset'"),
        (MQTT, "$topic.x", "'$topic.x'"),
        (KAFKA, "$received", "'$received'"),
    ],
)
def test_what_a_message_tells_of_itself_depends_on_the_kind_of_source(
    source: dict[str, Any], path: str, found: str
) -> None:
    assert problems(source, columns={"t": {"path": path}}) == [("columns.t.path", found)]
    assert problems(source, event_time={"column": path, "unit": "us"}) == [("event_time.column", found)]


def test_a_column_from_the_file_needs_files_and_an_identity_that_can_name_it() -> None:
    columns = {"room": {"file": "room_(.+)"}}
    files = {"path": "x", "format": "csv", "header": "none"}
    by_place = columns | {"t": {"position": 0}}

    named = {"columns": columns, "identity": ["room"]}
    assert problems(KAFKA, **named) == [("columns.room.file", 'kind "kafka"')]
    assert problems(files | {"header": "names"}, **named) == []
    assert problems(files, **named | {"columns": by_place}, event_time={"column": "t", "unit": "us"}) == []
    told = problems(files | {"header": "names"}, columns=columns, identity=["*"])
    assert told == [("identity", "[\"*\"] beside 'room', which is not in the record")]


@pytest.mark.parametrize("path", ["$topic", "$topic.0", "$topic.12", "$payload", "$received", "$retain"])
def test_a_landed_message_has_topic_payload_and_receipt_beside_its_record(path: str) -> None:
    assert problems(MQTT, columns={"t": {"path": path}}) == []


def test_messages_that_a_broker_may_send_again_need_an_identity() -> None:
    assert problems(MQTT, identity=[]) == [
        ("identity", "nothing: what a broker sends again would be another row")
    ]
    assert problems({"kind": "host"}, identity=[]) == []


def test_equal_payloads_at_two_times_are_two_readings_where_the_time_is_that_of_receipt() -> None:
    at = {"column": "$received", "unit": "us"}
    refused = [("identity", '["*"] with the event time "$received"')]
    assert problems(MQTT, event_time=at) == refused
    assert problems(MQTT, event_time=at | {"column": "r"}, columns={"r": {"path": "$received"}}) == refused
    assert problems(MQTT, event_time=at, identity=["r"], columns={"r": {"path": "$received"}}) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"broker": "mqtt://user:hunter2@broker.example"},
        {"broker": "mqtt://user:hunter2@broker.example:x"},
        {"password": "hunter2"},
        {"username": "u", "password_env": "hunter2!"},
    ],
)
def test_a_password_in_the_configuration_is_refused_and_never_shown(
    tmp_path: Path, wrong: dict[str, str]
) -> None:
    source = {key: repr(value) for key, value in (MQTT | wrong).items()}
    lines = "\n".join(f"{key} = {value}".replace("'", '"') for key, value in source.items())
    (tmp_path / "tidemark.toml").write_text(f"{HEAD}{lines}\n")

    with pytest.raises(ConfigError) as refused:
        load_settings(tmp_path / "tidemark.toml")

    assert "hunter2" not in str(refused.value) + repr(refused.value.problems)
    assert any("password" in str(problem) for problem in refused.value.problems)


def test_paths_of_certificates_start_where_the_configuration_is(tmp_path: Path) -> None:
    text = 'kind = "mqtt"\nbroker = "mqtts://h"\ntopics = ["a"]\nca = "tls/ca.pem"\n'
    (tmp_path / "tidemark.toml").write_text(HEAD + text)

    source = load_settings(tmp_path / "tidemark.toml").streams["s"].source

    assert (source.ca, source.path) == (f"{tmp_path}/tls/ca.pem", f"{tmp_path}/landing/s/*.ndjson")
