"""Topics through every job: killed and restarted anywhere, at size, and beside the same records from a file."""

from __future__ import annotations

import gzip
import json
import signal
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jobs import ingest
from lakehouse.ingest.sources.kafka import BrokerFailed
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.settings import load_settings
from lakehouse.spark import tables
from tests.conftest import compile_plans
from tests.end_to_end import pipeline
from tests.end_to_end.test_crashes import kill
from tests.support.brokers.kafka import Broker, Message, broker
from tests.support.crash_points import CRASH_POINTS
from tests.support.folded import folded, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
T0 = 1_590_000_000
READINGS = """
home = "var"
[streams.readings]
event_time = {{ column = "ts", unit = "s" }}
identity = ["device", "ts"]
keys = ["device"]
measures = ["temp", "count"]
groupings = [["device"], []]
levels = ["1s for 1m", "10s for 10m", "1m forever"]
[streams.readings.source]
kind = "kafka"
servers = ["{servers}"]
topics = ["{topic}"]
format = "ndjson"
batch_rows = {batch_rows}
[streams.readings.columns]
ts = {{ type = "decimal", decimals = 3 }}
temp = {{ type = "double", decimals = 2 }}
count = "int"
"""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
def lake(kafka: Broker, tmp_path: Path) -> Callable[..., Path]:
    """Return the configuration of a new lakehouse over a topic."""

    def make(topic: str, name: str, batch_rows: int = 1_000_000) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        config = folder / "tidemark.toml"
        config.write_text(READINGS.format(servers=kafka.servers, topic=topic, batch_rows=batch_rows))
        return config

    return make


def disordered(seconds: range) -> Iterator[Message]:
    """Return messages in three partitions with late rows, duplicates, poison and tombstones."""
    random = np.random.default_rng(seconds.start)
    for n in seconds:
        ts = T0 + n * 5 - (int(random.integers(0, 900)) if n % 4 == 0 else 0) + n / 1000
        reading = {"ts": round(ts, 3), "device": "abc"[n % 3], "temp": n / 8, "count": n}
        value = {0: b'{"ts": ', 7: None}.get(n % 20, json.dumps(reading).encode())
        message = Message(value, b"abc"[n % 3 : n % 3 + 1], n % 3, (T0 + n * 5) * 1000)
        yield from [message] * (2 if n % 10 == 5 else 1)


def content(spark: SparkSession, config: Path) -> dict[str, str]:
    return pipeline.run(spark, load_settings(config))["readings"]


def test_killed_at_every_step_of_ingest_the_content_is_the_same(
    kafka: Broker, lake: Callable[..., Path], spark: SparkSession
) -> None:
    kafka.create("killed", 3)
    kafka.send("killed", disordered(range(120)))
    config = lake("killed", "killed", batch_rows=60)
    for point in (name for name in CRASH_POINTS if name.startswith("ingest.")):
        kill(spark, config, point)
    kafka.send("killed", disordered(range(120, 240)))

    found = content(spark, config)

    assert found == content(spark, lake("killed", "undisturbed"))
    assert content(spark, config) == found


def test_a_broker_that_restarts_in_between_changes_nothing(
    kafka: Broker, lake: Callable[..., Path], spark: SparkSession
) -> None:
    kafka.create("restarted", 3)
    kafka.send("restarted", disordered(range(100)))
    config = lake("restarted", "restarted")
    settings = load_settings(config)
    ingest.run(settings, spark, "readings")
    kafka.stop(signal.SIGKILL)

    with pytest.raises(BrokerFailed, match="Connection refused"):
        ingest.run(settings, spark, "readings")
    kafka.start()
    kafka.send("restarted", disordered(range(100, 200)))

    assert content(spark, config) == content(spark, lake("restarted", "undisturbed"))


PARTITIONS = 4


def readings(rows: int, random: np.random.Generator) -> dict[str, np.ndarray[Any, Any]]:
    """Return what is sent, in the order of sending: a reading a millisecond, in disorder, some of them twice."""
    number = np.arange(rows)
    sent_ms = T0 * 1000 + number + np.where(random.random(rows) < 0.2, random.integers(0, 90_000, rows), 0)
    again = random.choice(rows, repeated_of(rows), replace=False)
    number = np.concatenate([number, again])
    sent_ms = np.concatenate([sent_ms, sent_ms[again] + random.integers(1, 120_000, len(again))])
    order = np.argsort(sent_ms, kind="stable")
    number, sent_ms = number[order], sent_ms[order]
    partition = random.integers(0, PARTITIONS, len(number))
    is_poison = np.zeros(len(number), dtype=bool)
    is_poison[random.choice(len(number), poison_of(rows), replace=False)] = True
    return {"number": number, "sent_ms": sent_ms, "partition": partition, "is_poison": is_poison}


def repeated_of(rows: int) -> int:
    return rows * 3 // 100


def poison_of(rows: int) -> int:
    return rows // 2000


def as_messages(sent: dict[str, np.ndarray[Any, Any]]) -> Iterator[Message]:
    columns = (sent[name].tolist() for name in ("number", "sent_ms", "partition", "is_poison"))
    for number, sent_ms, partition, is_poison in zip(*columns, strict=True):
        ms, device = T0 * 1000 + number, number % 97
        text = f'{{"ts": {ms // 1000}.{ms % 1000:03}, "device": "d{device}", "temp": {device / 4}, "count": {number}'
        yield Message((text if is_poison else text + "}").encode(), None, partition, sent_ms)


def late_of(sent: dict[str, np.ndarray[Any, Any]], store: ManifestStore) -> int:
    """Return how many accepted rows are older than one that arrived before them, in their batch or an earlier one."""
    offset = np.empty(len(sent["number"]), dtype=np.int64)
    for partition in range(PARTITIONS):
        of_it = sent["partition"] == partition
        offset[of_it] = np.arange(of_it.sum())
    late, newest, known = 0, -1, np.empty(0, np.int64)
    for manifest in store.behind(0):
        taken = ~sent["is_poison"] & np.logical_or.reduce(
            [
                (sent["partition"] == each.partition) & (offset >= each.start) & (offset < each.end)
                for each in manifest.ranges
            ]
        )
        order = np.lexsort((offset[taken], sent["partition"][taken], sent["sent_ms"][taken]))
        number, arrived = sent["number"][taken][order], sent["sent_ms"][taken][order]
        first = np.sort(np.unique(number, return_index=True)[1])
        first = first[~np.isin(number[first], known)]
        known = np.concatenate([known, number[first]])
        for _, together in groupby(first.tolist(), key=lambda at: arrived[at]):
            numbers = number[list(together)]
            late += int((numbers < newest).sum())
            newest = max(newest, int(numbers.max()))
    return late


@pytest.mark.parametrize("rows", [100_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_many_messages_in_disorder_and_some_of_them_twice_are_counted_exactly(
    kafka: Broker, lake: Callable[..., Path], spark: SparkSession, rows: int
) -> None:
    topic = f"many{rows}"
    kafka.create(topic, PARTITIONS)
    sent = readings(rows, np.random.default_rng(3))
    kafka.send(topic, as_messages(sent), **{"batch.size": "262144"})
    settings = load_settings(lake(topic, topic, batch_rows=rows * 2 // 5))
    good = np.unique(sent["number"][~sent["is_poison"]])
    repeats = int((~sent["is_poison"]).sum()) - len(good)

    compile_plans(spark, True)
    try:
        counts = ingest.run(settings, spark, "readings")
    finally:
        compile_plans(spark, False)

    expected = {
        "received": rows + repeated_of(rows),
        "accepted": len(good),
        "quarantined": poison_of(rows),
        "duplicates": repeats,
    }
    store = ManifestStore(settings.layout.manifests("readings"))
    assert {name: counts[name] for name in expected} == expected
    assert (counts["batches"], counts["late"], counts["lag"]) == (3, late_of(sent, store), 0)
    raw = tables.read(spark, settings.layout.raw("readings"))
    sums = raw.selectExpr(
        "sum(temp)", "sum(count)", "count(distinct count)", "min(event_us)", "max(event_us)"
    )
    [(temp, count, distinct, first, last)] = sums.collect()
    assert (float(temp), count, distinct) == (float((good % 97 / 4).sum()), int(good.sum()), len(good))
    assert (first, last) == tuple((T0 * 1000 + int(n)) * 1000 for n in (good[0], good[-1]))
    ledger = tables.read(spark, settings.layout.ledger("readings"))
    [balance] = ledger.selectExpr("sum(received) = sum(accepted + quarantined + duplicates)").collect()
    assert balance[0]


CONN = """
home = "var"
[streams.conn]
event_time = { column = "ts", unit = "s" }
identity = ["uid"]
keys = ["src", "dest", "proto"]
measures = ["orig_bytes", "resp_bytes", "duration"]
groupings = [["src", "dest"], ["proto"], []]
levels = ["1s for 1h", "1m for 2d", "1h for 1y", "1d forever"]
[streams.conn.columns]
uid = "string"
src = { path = "id.orig_h" }
dest = { path = "id.resp_h" }
proto = "string"
orig_bytes = "int"
resp_bytes = "int"
duration = "double"
[streams.conn.source]
"""
FROM_FILE = 'path = "{path}"\nformat = "zeek"\n'
FROM_TOPIC = """
kind = "kafka"
servers = ["{servers}"]
topics = ["conn"]
format = "csv"
separator = "\\t"
fields = {fields}
null_values = ["-", "(empty)"]
"""


def test_connections_replayed_in_file_order_are_the_same_rows_and_nodes_as_from_their_file(
    kafka: Broker, data: Path, tmp_path: Path, spark: SparkSession
) -> None:
    path = data / "zeek-m57-conn" / "conn.log.gz"
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    fields = next(line for line in lines if line.startswith("#fields")).split("\t")[1:]
    records = [line for line in lines if not line.startswith("#")]
    kafka.create("conn", 1)
    kafka.send("conn", [Message(line.encode(), time_ms=T0 * 1000 + n) for n, line in enumerate(records)])
    topic = FROM_TOPIC.format(servers=kafka.servers, fields=json.dumps(fields))
    sources = {"file": FROM_FILE.format(path=path), "topic": topic}

    found = {name: _conn(spark, tmp_path / name, source) for name, source in sources.items()}

    assert found["topic"] == found["file"]
    assert found["file"]["late"] == 3574


def _conn(spark: SparkSession, folder: Path, source: str) -> dict[str, Any]:
    folder.mkdir()
    (folder / "tidemark.toml").write_text(CONN + source)
    settings = load_settings(folder / "tidemark.toml")
    for job in ("ingest", "rollup"):
        pipeline.run_job(job, spark, settings)
    layout, stream = settings.layout, settings.stream("conn")
    raw = tables.read(spark, layout.raw("conn")).select("event_us", *stream.all_columns)
    ledger = tables.read(spark, layout.ledger("conn")).drop("kind", "files", "committed_at").collect()
    digests = {
        "raw": pipeline.digest(raw.collect()),
        "nodes": pipeline.digest(rows_of(folded(settings, "conn"))),
    }
    return digests | ledger[0].asDict()
