from __future__ import annotations

import io
import json
import shutil
import struct
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest

from jobs import accept_loss
from jobs.running.outcome import recorded
from lakehouse.cli.app import call
from lakehouse.config.stream import Source
from lakehouse.ingest.batch_jobs import judged_batch
from lakehouse.ingest.batch_parts import REJECTED
from lakehouse.ingest.batch_records import BatchRecords, StreamTables
from lakehouse.ingest.drain import open_store
from lakehouse.ingest.ingest import BatchTables
from lakehouse.ingest.sources import messages
from lakehouse.ingest.sources.kafka import Broker as KafkaBroker
from lakehouse.ingest.sources.kafka import BrokerFailed, VariableMissing
from lakehouse.ingest.sources.manifest import OffsetRange
from lakehouse.ingest.sources.messages import read_range
from lakehouse.ingest.topics import OffsetsGone, TopicRecreated, Topics
from lakehouse.settings import load_settings
from lakehouse.spark import tables
from lakehouse.storage.control.outcomes import last_outcome
from lakehouse.storage.set_aside import read_set_aside
from lakehouse.storage.tables.table_commits import arrow_schema, as_json, create_table, open_table
from tests.ingest import hostile
from tests.ingest.topics import IDENTITY, T0, declared, reading, sent
from tests.support.brokers.kafka import PASSWORD, USER, Broker, Message, broker
from tests.support.readings_lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
US = 1_000_000
Make = Callable[..., Lake]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
def lake(session: SparkSession, tmp_path: Path, kafka: Broker) -> Make:
    """Return a lakehouse whose readings come from topics."""

    def make(*topics: str, **parts: str) -> Lake:
        config = tmp_path / "tidemark.toml"
        config.write_text(declared(kafka.servers, topics, **parts))
        return Lake(session, load_settings(config))

    return make


def balance(counts: dict[str, Any]) -> tuple[int, ...]:
    return tuple(counts[name] for name in ("received", "accepted", "quarantined", "duplicates"))


def test_messages_of_several_topics_become_rows_that_say_where_they_came_from(
    kafka: Broker, lake: Make
) -> None:
    kafka.create("east", 2)
    kafka.create("west", 1)
    columns = """
    key = { path = "$key" }
    topic = { path = "$topic" }
    part = { path = "$partition", type = "int" }
    place = { path = "$offset", type = "int" }
    trace = { path = "$headers.trace" }
    """
    stream = lake("east", "west", columns=columns)
    told = (("trace", b"old"), ("other", b"x"), ("trace", b"t-1"))
    kafka.send("east", [Message(reading(1), b"k1", 1, (T0 + 5) * 1000, told), Message(reading(2), None, 1)])
    kafka.send("west", [Message(reading(3, temp=None), b"k3", 0, (T0 + 7) * 1000)])

    counts = stream.ingest()

    assert balance(counts) == (3, 3, 0, 0) and counts["lag"] == 0
    found = stream.rows(
        "raw", "event_us", "key", "topic", "part", "place", "trace", "source_file", "source_line"
    )
    assert found == [
        ((T0 + 1) * US, "k1", "east", 1, 0, "t-1", "kafka:east/1", 0),
        ((T0 + 2) * US, None, "east", 1, 1, None, "kafka:east/1", 1),
        ((T0 + 3) * US, "k3", "west", 0, 0, None, "kafka:west/0", 0),
    ]
    arrived = dict(stream.rows("raw", "event_us", "arrival_us"))
    assert (arrived[(T0 + 1) * US], arrived[(T0 + 3) * US]) == ((T0 + 5) * US, (T0 + 7) * US)


def test_an_arrival_time_that_is_declared_wins_over_the_message_s_own(kafka: Broker, lake: Make) -> None:
    kafka.create("declared", 1)
    stream = lake("declared", stream='arrival_time = { column = "received", unit = "s" }')
    kafka.send("declared", [Message(reading(1, received=T0 + 9), time_ms=T0 * 1000)])

    stream.ingest()

    assert stream.rows("raw", "arrival_us") == [((T0 + 9) * US,)]


def test_csv_messages_are_cut_by_name_and_by_position(kafka: Broker, lake: Make) -> None:
    kafka.create("csv", 1)
    source = 'format = "csv"\nfields = ["ts", "device", "temp", "room"]\nseparator = ";"'
    stream = lake("csv", source=source, columns='place = { position = 3 }\nkey = { path = "$key" }')
    lines = [f'{T0};"a;b";20.5;hall', f"{T0};a;NA", f"{T0};a;NA;x"]
    kafka.send("csv", [Message(line.encode(), b"k") for line in lines])

    counts = stream.ingest()

    assert stream.rows("raw", "device", "temp", "place", "key") == [
        ("a", None, "x", "k"),
        ("a;b", 20.5, "hall", "k"),
    ]
    assert stream.rows("quarantine", "reason", "source_line", "record") == [
        ("malformed", 1, lines[1].encode())
    ]
    assert balance(counts) == (3, 2, 1, 0)


AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "heard",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Heard",
                    "fields": [
                        {"name": "by", "type": "string"},
                        {"name": "temp", "type": ["null", "double"]},
                    ],
                },
            },
        },
    ],
}


def avro(second: float, *heard: tuple[str, float | None]) -> bytes:
    out = io.BytesIO()
    value = {"ts": int((T0 + second) * 1000), "heard": [{"by": by, "temp": temp} for by, temp in heard]}
    fastavro.schemaless_writer(out, AVRO, value)
    return out.getvalue()


@pytest.mark.parametrize("number", [None, 12])
def test_avro_messages_are_read_with_and_without_the_number_of_their_schema(
    kafka: Broker, lake: Make, tmp_path: Path, number: int | None
) -> None:
    topic = f"avro-{number}"
    kafka.create(topic, 1)
    (tmp_path / "reading.avsc").write_text(json.dumps(AVRO))
    schema = 'schema_file = "reading.avsc"' if number is None else 'schema_files = { "12" = "reading.avsc" }'
    columns = 'device = { path = "heard.by" }\ntemp = { path = "heard.temp", type = "double" }'
    stream = lake(topic, source=f'format = "avro"\nexplode = "heard"\n{schema}', columns=columns, unit="ms")
    prefix = b"" if number is None else struct.pack(">bI", 0, number)
    good = prefix + avro(1, ("x", 1.5), ("y", None))
    kafka.send(topic, [Message(value) for value in (good, good[:-1], None, good + b"!")])

    counts = stream.ingest()

    assert stream.rows("raw", "event_us", "device", "temp", "source_item") == [
        ((T0 + 1) * US, "x", 1.5, 0),
        ((T0 + 1) * US, "y", None, 1),
    ]
    assert stream.rows("quarantine", "reason", "record") == [
        ("malformed", good[:-1]),
        ("malformed", good + b"!"),
        ("tombstone", None),
    ]
    assert balance(counts) == (5, 2, 3, 0)
    assert balance(stream.requeue()) == (0, 0, 2, 0)


def test_poison_and_tombstones_are_quarantined_and_good_messages_go_on(kafka: Broker, lake: Make) -> None:
    kafka.create("poison", 1)
    stream = lake("poison", columns='key = { path = "$key" }')
    values = [reading(0), None, b"\xff\xfe", b"", b"[1]", reading(1, temp="warm"), reading(2)]
    kafka.send("poison", [Message(value, b"k") for value in values] + [Message(reading(3), b"\xff")])

    counts = stream.ingest()

    found = dict(
        (line, (reason, record))
        for line, reason, record in stream.rows("quarantine", "source_line", "reason", "record")
    )
    assert found == {
        1: ("tombstone", None),
        2: ("bad_utf8", b"\xff\xfe"),
        3: ("malformed", b""),
        4: ("malformed", b"[1]"),
        5: ("bad_value", values[5]),
        7: ("bad_utf8", reading(3)),
    }
    assert balance(counts) == (8, 2, 6, 0)


@pytest.mark.parametrize("identity", ["", IDENTITY])
def test_what_stands_beside_a_record_survives_quarantine(kafka: Broker, lake: Make, identity: str) -> None:
    topic = f"requeued-{len(identity)}"
    kafka.create(topic, 2)
    columns = 'key = { path = "$key" }\nsite = { path = "$headers.site" }\nplace = { path = "$offset", type = "int" }'
    source = 'format = "ndjson"'
    grade = 'grade = { path = "%s", type = "int" }'
    stream = lake(topic, columns=f"{columns}\n{grade % 'said'}", source=source, stream=identity)
    headers = (("site", b"hall"), ("raw", b"\xff\x00"))
    kafka.send(
        topic,
        [sent(0, 1), Message(reading(1, said="high", measured=3), b"\xc3\xa9", 1, (T0 + 4) * 1000, headers)],
    )
    stream.ingest()
    mended = lake(topic, columns=f"{columns}\n{grade % 'measured'}", source=source, stream=identity)

    counts = mended.requeue()

    assert (counts["requeued"], counts["accepted"]) == (1, 1)
    row = ("grade", "key", "site", "place", "arrival_us", "source_file", "source_line")
    assert (3, "é", "hall", 1, (T0 + 4) * US, f"kafka:{topic}/1", 1) in mended.rows("raw", *row)


def test_a_quarantine_of_files_gains_the_place_for_messages(
    kafka: Broker, lake: Make, tmp_path: Path
) -> None:
    """A stream may move from files to a topic; its tables were created before there were messages."""
    kafka.create("moved", 1)
    stream = lake("moved")
    layout = stream.settings.layout
    tables.create(tmp_path / "today", "quarantine")
    today = arrow_schema(open_table(tmp_path / "today"))
    lacking = pa.schema([each for each in today if each.name != "message"])
    create_table(layout.quarantine("readings"), as_json(lacking))
    tables.create_raw(layout.raw("readings"), stream.settings.stream("readings"))
    kafka.send("moved", [sent(0), Message(b"{", b"k")])

    stream.ingest()

    assert stream.rows("ledger", "accepted", "quarantined", "lost") == [(1, 1, {})]
    assert [row[0]["key"] for row in stream.rows("quarantine", "message")] == [bytearray(b"k")]


def test_running_again_reads_what_is_new_and_nothing_twice(kafka: Broker, lake: Make) -> None:
    kafka.create("again", 2)
    stream = lake("again", stream=IDENTITY)
    kafka.send("again", [sent(0), sent(0), sent(1, 1)])
    assert balance(stream.ingest()) == (3, 2, 0, 1)
    before = [stream.rows(table, "*") for table in ("raw", "ledger")]

    assert stream.ingest()["batches"] == 0
    assert [stream.rows(table, "*") for table in ("raw", "ledger")] == before
    kafka.send("again", [sent(1, 1), sent(2, 1)])

    assert balance(stream.ingest()) == (2, 1, 0, 1)
    assert stream.rows("ledger", "batch", "kind", "duplicates") == [(1, "kafka", 1), (2, "kafka", 1)]


def test_a_backlog_is_cut_into_batches(kafka: Broker, lake: Make) -> None:
    kafka.create("backlog", 2)
    stream = lake("backlog", source='format = "ndjson"\nbatch_rows = 4')
    kafka.send("backlog", [sent(n, partition=int(n >= 8)) for n in range(12)])

    stream.ingest()

    assert stream.rows("ledger", "batch", "accepted") == [(1, 3), (2, 4), (3, 5)]
    assert len(stream.rows("raw", "event_us")) == 12


def test_partitions_that_are_added_are_read_from_their_first_message(kafka: Broker, lake: Make) -> None:
    kafka.create("widened", 1)
    stream = lake("widened", source='format = "ndjson"\nstart = "latest"')
    kafka.send("widened", [sent(0)])
    assert stream.ingest()["accepted"] == 0
    kafka.widen("widened", 3)
    kafka.send("widened", [sent(1, 2), sent(2, 0)])

    stream.ingest()

    assert stream.rows("raw", "event_us", "source_file") == [
        ((T0 + 1) * US, "kafka:widened/2"),
        ((T0 + 2) * US, "kafka:widened/0"),
    ]


def test_reading_starts_at_a_time_when_asked(kafka: Broker, lake: Make) -> None:
    kafka.create("since", 2)
    kafka.send("since", [sent(0), sent(10), sent(5, 1), sent(20)])
    stream = lake("since", source='format = "ndjson"\nstart = "2020-09-13T12:26:46.5"')

    stream.ingest()

    assert stream.rows("raw", "event_us") == [((T0 + 10) * US,), ((T0 + 20) * US,)]


@pytest.mark.parametrize("identity", ["", IDENTITY])
def test_partitions_interleave_by_time_before_lateness_is_counted(
    kafka: Broker, lake: Make, identity: str
) -> None:
    """Read one after the other, all but the first partition would look late."""
    topic = f"interleaved-{len(identity)}"
    kafka.create(topic, 3)
    stream = lake(topic, stream=identity)
    kafka.send(topic, [sent(n * 3 + part, part, device=f"d{part}") for part in range(3) for n in range(20)])
    kafka.send(topic, [Message(reading(50, "late"), partition=1, time_ms=(T0 + 70) * 1000)])

    counts = stream.ingest()

    assert (counts["accepted"], counts["late"]) == (61, 1)
    assert stream.rows("ledger", "max_lateness_us") == [(9 * US,)]
    kafka.send(topic, [sent(30, 2, device="later")])
    stream.ingest()
    assert stream.rows("ledger", "batch", "late", "max_lateness_us")[1] == (2, 1, 29 * US)


def test_messages_of_aborted_transactions_are_never_seen(kafka: Broker, lake: Make) -> None:
    kafka.create("transactions", 1)
    stream = lake("transactions", source='format = "ndjson"\nbatch_rows = 3')
    kafka.send_and_end("transactions", [sent(n) for n in (0, 1)], commit=True)
    kafka.send_and_end("transactions", [sent(n) for n in range(10, 15)], commit=False)
    kafka.send_and_end("transactions", [sent(2)], commit=True)

    counts = stream.ingest()

    assert [row[0] // US - T0 for row in stream.rows("raw", "event_us")] == [0, 1, 2]
    assert balance(counts) == (3, 3, 0, 0) and counts["lag"] == 0
    assert stream.ingest()["batches"] == 0


def test_lost_messages_stop_the_stream_until_the_loss_is_accepted(kafka: Broker, lake: Make) -> None:
    kafka.create("short", 2)
    stream = lake("short")
    kafka.send("short", [sent(0), sent(1, 1)])
    stream.ingest()
    kafka.send("short", [sent(n) for n in range(2, 10)])
    kafka.forget("short", 0, before=6)

    for _ in range(2):
        with pytest.raises(
            OffsetsGone, match=r"short/0 offsets 1 to 5 \(5 messages\).*tidemark accept-loss readings"
        ):
            stream.ingest()
    refused = accept_loss.run(stream.settings, stream.spark, "readings", lambda lost: False)
    found = accept_loss.run(stream.settings, stream.spark, "readings")
    counts = stream.ingest()

    assert refused == {"lost": 0, "partitions": {}}
    assert found == {"lost": 5, "partitions": {"short/0": 5}}
    assert accept_loss.run(stream.settings, stream.spark, "readings") == refused
    assert balance(counts) == (3, 3, 0, 0)
    assert stream.rows("ledger", "batch", "kind", "accepted", "lost") == [
        (1, "kafka", 2, {}),
        (2, "lost", 0, {"short/0": 5}),
        (3, "kafka", 3, {}),
    ]
    assert len(stream.rows("raw", "event_us")) == 5


def test_a_batch_that_died_before_its_messages_were_lost_leaves_nothing_behind(
    kafka: Broker, lake: Make
) -> None:
    kafka.create("died", 2)
    stream = lake("died")
    kafka.send("died", [sent(0), Message(b"{"), sent(1), sent(2, 1)])
    target = StreamTables(stream.spark, stream.settings.layout, stream.settings.stream("readings"))
    landing, before = open_store(target)
    Topics(KafkaBroker(target.stream.source), target.stream, landing, 0).fix_unread()
    records, batch = BatchRecords(target, landing.behind(0)[0], landing, before), BatchTables(target, 1)
    judged = judged_batch(records)
    batch.commit_parts(judged.raw, "raw")
    batch.commit_parts(judged.quarantine, "quarantine")
    kafka.forget("died", 0, before=2)

    with pytest.raises(OffsetsGone, match="died/0 offsets 0 to 1 "):
        stream.ingest()
    accept_loss.run(stream.settings, stream.spark, "readings")
    stream.ingest()

    assert [row[0] // US - T0 for row in stream.rows("raw", "event_us")] == [1, 2]
    assert stream.rows("quarantine", "reason") == []
    assert stream.rows("ledger", "kind", "received", "accepted") == [("kafka", 2, 2), ("lost", 0, 0)]


def test_a_topic_made_anew_is_refused_with_what_to_do(kafka: Broker, lake: Make) -> None:
    kafka.create("anew", 1)
    stream = lake("anew")
    kafka.send("anew", [sent(0)])
    stream.ingest()
    kafka.delete("anew")
    kafka.create("anew", 1)
    kafka.send("anew", [sent(n) for n in range(5)])

    with pytest.raises(TopicRecreated, match="Declare a new stream for it"):
        stream.ingest()

    assert len(stream.rows("raw", "event_us")) == 1


def test_a_topic_that_is_not_there_is_in_status_and_doctor_with_its_broker(
    kafka: Broker, lake: Make, capfd: pytest.CaptureFixture[str]
) -> None:
    kafka.create("elsewhere", 1)
    stream = lake("nowhere")
    sentence = f"Kafka at {kafka.servers} has no topic nowhere"
    config = ("--config", str(stream.settings.config))
    # Before the first run, too.
    assert (call([*config, "plan"]), sentence in capfd.readouterr().out) == (0, True)
    assert (call([*config, "doctor"]), sentence in capfd.readouterr().out) == (1, True)

    with pytest.raises(BrokerFailed, match=r"has no topic nowhere; it has .*elsewhere"):
        recorded("ingest", stream.settings, "readings", stream.ingest)

    assert (call([*config, "status"]), sentence in capfd.readouterr().out) == (0, True)
    assert (call([*config, "doctor"]), sentence in capfd.readouterr().out) == (1, True)


SECURE = f"""
format = "ndjson"
[streams.readings.source.options]
"security.protocol" = "SASL_PLAINTEXT"
"sasl.mechanism" = "PLAIN"
"sasl.username" = "{USER}"
"sasl.password" = "${{KAFKA_PASSWORD}}"
"""


def secure(lake: Make, kafka: Broker, tmp_path: Path) -> Lake:
    made = lake("guarded", source=SECURE)
    config = tmp_path / "tidemark.toml"
    config.write_text(config.read_text().replace(kafka.servers, kafka.guarded))
    return Lake(made.spark, load_settings(config))


def test_a_secret_comes_from_the_environment_and_is_written_nowhere(
    kafka: Broker,
    lake: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    kafka.create("guarded", 1)
    kafka.send("guarded", [sent(0), Message(b"{")])
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    stream = secure(lake, kafka, tmp_path)

    counts = recorded("ingest", stream.settings, "readings", stream.ingest)
    source = stream.settings.stream("readings").source
    lines = pa.concat_tables(read_range(OffsetRange("guarded", 0, 0, 2, ""), source))

    assert lines["source_line"].to_pylist() == [0, 1]
    assert balance(counts) == (2, 1, 1, 0)
    assert PASSWORD not in repr(stream.settings) and "sasl" not in repr(stream.settings)
    assert PASSWORD not in "".join(capfd.readouterr())
    holding = [p for p in tmp_path.rglob("*") if p.is_file() and PASSWORD.encode() in p.read_bytes()]
    assert holding == []


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("sasl.password", "SASL authentication error: Authentication failed"),
        ("sasl.mechanism", r"Unsupported SASL mechanism: \${KAFKA_PASSWORD}"),
        ("sasl.jaas.config", "Java JAAS configuration is not supported"),
    ],
)
def test_a_secret_that_is_refused_is_not_told(
    kafka: Broker,
    lake: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    option: str,
    told: str,
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "not-the-right-one")
    settings = secure(lake, kafka, tmp_path).settings
    source = settings.stream("readings").source
    options = source.options | {option: "${KAFKA_PASSWORD}"}
    stream = settings.stream("readings").model_copy(
        update={"source": source.model_copy(update={"options": options})}
    )
    wrong = Lake(lake("guarded").spark, settings.model_copy(update={"streams": {"readings": stream}}))

    with pytest.raises(BrokerFailed, match=told) as refused:
        recorded("ingest", wrong.settings, "readings", wrong.ingest)

    said = "".join([*traceback.format_exception(refused.value), *capfd.readouterr()])
    said += str(last_outcome(wrong.settings.layout, "ingest", "readings"))
    assert "not-the-right-one" not in said


def test_a_variable_that_is_not_set_is_named(
    kafka: Broker, lake: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_PASSWORD", raising=False)

    with pytest.raises(VariableMissing, match="the environment has no KAFKA_PASSWORD"):
        secure(lake, kafka, tmp_path).ingest()


def test_a_message_that_ends_every_batch_is_found_and_set_aside_and_requeued(
    kafka: Broker, lake: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.create("poisoned", 2)
    stream = lake("poisoned", stream=IDENTITY)
    kafka.send("poisoned", [sent(second, second % 2) for second in range(8)])

    def poisoned(wanted: OffsetRange, source: Source) -> Iterator[pa.Table]:
        if wanted.partition == 1 and wanted.start <= 2 < wanted.end:
            raise ValueError("no codec")
        yield from read_range(wanted, source)

    monkeypatch.setattr(messages, "read_range", poisoned)
    for _ in range(2):
        with pytest.raises(Exception, match="no codec"):
            stream.ingest()
    # What comes behind the failed batch is in no manifest of it.
    kafka.send("poisoned", [sent(8, 0), sent(9, 1)])

    counts = stream.ingest()

    assert counts["accepted"] == 9
    assert [each.place for each in read_set_aside(stream.settings.layout)] == ["poisoned/1 offset 2"]
    kafka.send("poisoned", [sent(10, 1)])
    assert stream.ingest()["accepted"] == 1

    monkeypatch.undo()
    assert stream.requeue()["accepted"] == 1
    assert stream.ingest()["received"] == 0
    assert [event // US - T0 for (event,) in stream.rows("raw", "event_us")] == list(range(11))
    assert read_set_aside(stream.settings.layout) == []


def test_no_hostile_message_stops_a_stream(kafka: Broker, lake: Make, tmp_path: Path) -> None:
    (tmp_path / "reading.avsc").write_text(json.dumps(AVRO))
    columns = 'device = { path = "heard.by" }\ntemp = { path = "heard.temp", type = "double" }'
    source = 'format = "avro"\nexplode = "heard"\nschema_file = "reading.avsc"'
    kafka.create("hostile-json", 1)
    kafka.create("hostile-avro", 1)
    kafka.send(
        "hostile-json",
        [Message(value, None if value is None else value[:99]) for value in hostile.messages()],
    )
    kafka.send("hostile-avro", [Message(value) for value in hostile.avro(avro(1, ("x", 1.5), ("y", None)))])

    kafka.create("hostile-envelopes", 1, {"message.timestamp.after.max.ms": str(2**63 - 1)})
    kafka.send(
        "hostile-envelopes",
        [Message(value, key, 0, time, headers) for value, key, time, headers in hostile.envelopes()],
    )
    counts = lake("hostile-json").ingest()

    assert counts["received"] == counts["accepted"] + counts["quarantined"] > 150 and counts["accepted"] >= 50
    stream = lake("hostile-avro", source=source, columns=columns, unit="ms")
    shutil.rmtree(stream.settings.layout.root)
    counts = stream.ingest()
    assert counts["received"] == counts["accepted"] + counts["quarantined"] > 150 and counts["accepted"] >= 2
    assert read_set_aside(stream.settings.layout) == []
    beside = 'key = { path = "$key" }\ntrace = { path = "$headers.trace", type = "double", optional = true }'
    stream = lake("hostile-envelopes", columns=f'{beside}\nsent = {{ path = "$timestamp", type = "int" }}')
    shutil.rmtree(stream.settings.layout.root)
    counts = stream.ingest()
    assert counts["received"] == counts["accepted"] + counts["quarantined"] == len(hostile.envelopes())
    assert len(stream.rows("raw", "batch")) == counts["accepted"] >= 10
    assert len(stream.rows("quarantine", "batch")) == counts["quarantined"] >= 40
    assert read_set_aside(stream.settings.layout) == []


TIMELESS = {"message.timestamp.after.max.ms": str(2**63 - 1)}


def test_a_message_of_a_time_beyond_microseconds_is_quarantined_with_its_bytes(
    kafka: Broker, lake: Make
) -> None:
    kafka.create("timeless", 2, TIMELESS)
    stream = lake("timeless")
    bad = Message(reading(2), b"a key", time_ms=2**62, headers=(("trace", b"\xff"), ("none", None)))
    bare = Message(reading(4), partition=1, time_ms=2**63 - 1)
    kafka.send("timeless", [sent(1), bad, Message(None, time_ms=2**61), bare, sent(3, 1)])
    kafka.send_and_end("timeless", [sent(5)], commit=False)
    kafka.send_and_end("timeless", [sent(6)], commit=True)

    assert balance(stream.ingest()) == (6, 3, 3, 0)
    first, last, tombstone = stream.rows("quarantine", *REJECTED)
    assert first[0] == last[0] == "bad_arrival_time" and first[2:5] == (reading(2), "kafka:timeless/0", 1)
    headers = [{"key": "trace", "value": b"\xff"}, {"key": "none", "value": None}]
    assert first[6] == {"key": b"a key", "timestamp_ms": 2**62, "headers": headers}
    assert tombstone[0] == "tombstone" and last[2] == reading(4)
    assert last[6] == {"key": None, "timestamp_ms": 2**63 - 1, "headers": None}
    assert read_set_aside(stream.settings.layout) == []
    # A tombstone has nothing that could be put through again.
    assert stream.requeue()["quarantined"] == 2


def test_a_time_that_nobody_asks_for_costs_no_message(kafka: Broker, lake: Make) -> None:
    kafka.create("nanoseconds", 1, TIMELESS)
    received = 'arrival_time = { column = "got", unit = "s" }'
    stream = lake("nanoseconds", stream=received)
    few = 1_000
    # A producer that counts nanoseconds, among others.
    times = [int((T0 + second) * 1000) * (10**6 if second > few else 1) for second in range(2 * few)]
    got = [Message(reading(second, got=T0 + second), time_ms=time) for second, time in enumerate(times)]
    kafka.send("nanoseconds", got)

    counts = stream.ingest()

    assert counts["accepted"] == counts["received"] == 2 * few
    assert counts["batches"] == 1
    assert read_set_aside(stream.settings.layout) == []
    assert [event // US - T0 for (event,) in stream.rows("raw", "event_us")] == list(range(2 * few))


def test_a_topic_is_declared_by_its_first_and_last_messages_and_ingested(
    kafka: Broker, session: SparkSession, tmp_path: Path
) -> None:
    kafka.create("unknown", 2)
    readings = [
        Message(
            json.dumps({"at": f"2026-02-01T00:00:{n % 60:02}Z", "meter": f"m{n % 3}", "kw": n / 4}).encode(),
            None,
            n % 2,
        )
        for n in range(60)
    ]
    kafka.send("unknown", readings)

    ended = added(tmp_path, "unknown", "--servers", kafka.servers)

    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert (found["trial"]["rows"], found["trial"]["accepted"]) == (60, 60)
    settings = load_settings(tmp_path / "tidemark.toml")
    stream = Lake(session, settings, "unknown")
    assert (settings.stream("unknown").keys, settings.stream("unknown").measures) == (("meter",), ("kw",))
    assert balance(stream.ingest()) == (60, 60, 0, 0)


def test_a_topic_that_cannot_be_declared_says_why(kafka: Broker, tmp_path: Path) -> None:
    kafka.create("empty", 1)
    kafka.create("fields", 1)
    kafka.send("fields", [Message(f"2026-02-01T00:00:{n:02}Z,{n}".encode()) for n in range(20)])

    said = {
        topic: added(tmp_path, topic, "--servers", kafka.servers) for topic in ("empty", "fields", "none")
    }
    said["option"] = added(tmp_path, "empty", "--servers", kafka.servers, "--option", "x")
    said["secret"] = added(
        tmp_path, "fields", "--servers", kafka.servers, "--option", f"sasl.password={PASSWORD}"
    )

    assert {ended.returncode for ended in said.values()} == {2}
    assert "it has no message yet" in said["empty"].stdout
    assert "declare source.fields" in said["fields"].stdout
    assert "has no topic none" in said["none"].stdout
    assert "expected NAME=VALUE" in said["option"].stdout
    assert "a secret comes from the environment" in said["secret"].stdout
    assert PASSWORD not in said["secret"].stdout + said["secret"].stderr
    assert not (tmp_path / "tidemark.toml").exists()


def added(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lakehouse.cli", "--config", str(folder / "tidemark.toml")]
    return subprocess.run(
        [*command, "add", *arguments, "--json"], capture_output=True, text=True, timeout=120, check=False
    )
