"""Messages of a topic to raw rows, beside the plain Spark stream that appends the same topic to a Delta table.

Both read the same JSON messages from the same broker in the same session, in turns, each into new tables; each is
warmed up first on a small topic. Ours checks every row, counts lateness and keeps a ledger; with rollups it builds the
nodes of all levels too.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jobs import build_rollups, ingest
from lakehouse.settings import Settings, load_settings
from lakehouse.spark.session import started_session
from tests.benchmarks.ingest import Taken, taken
from tests.support.brokers.kafka import Broker, Message, broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIG = """
home = "{home}"
[spark]
driver_memory = "3g"
java_options = ""
[streams.readings]
event_time = {{ column = "ts", unit = "ms" }}
keys = ["device"]
measures = ["temp", "humidity"]
groupings = [["device"], []]
levels = ["1s for 1h", "1m for 2d", "1h for 1y", "1d forever"]
[streams.readings.source]
kind = "kafka"
servers = ["{servers}"]
topics = ["{topic}"]
format = "ndjson"
[streams.readings.columns]
ts = "int"
"""
SCHEMA = "ts bigint, device string, temp double, humidity double"
T0 = 1_600_000_000_000
PARTITIONS, DEVICES = 4, 48


def figures(quick: bool) -> dict[str, Any]:
    """Return rates and ratios, medians over rounds in which all ways take turns; nothing where no broker can run."""
    rows, rounds = (200_000, 1) if quick else (2_000_000, 3)
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        folder = Path(name)
        try:
            with broker(folder / "kafka") as running:
                seconds, processors = _taken(running, folder, rows, rounds)
        except pytest.skip.Exception as reason:
            return {"kafka": f"not measured: {reason}"}
    return {
        "kafka_rows": rows,
        "kafka_plain_rows_per_s": round(rows / seconds["plain"]),
        "kafka_rows_per_s": round(rows / seconds["ours"]),
        "ratio_to_plain_spark": round(seconds["ours"] / seconds["plain"], 2),
        "kafka_ratio_with_rollups": round(seconds["ours_with_rollups"] / seconds["plain"], 2),
        "kafka_cpu_ratio_to_plain_spark": round(processors["ours"] / processors["plain"], 2),
        "kafka_cpu_ratio_with_rollups": round(processors["ours_with_rollups"] / processors["plain"], 2),
    }


def _taken(
    running: Broker, folder: Path, rows: int, rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the median seconds of each way, and those of processors, the broker's among them."""
    for topic, count in (("warm", PARTITIONS * 1000), ("full", rows)):
        running.create(topic, PARTITIONS)
        running.send(topic, messages(count), **{"batch.size": "262144"})
    spark = started_session(_settings(running, folder / "session", "warm"))
    ways: dict[str, Callable[[Path, str], None]] = {
        "plain": lambda home, topic: _plain(spark, running, home, topic),
        "ours": lambda home, topic: _ours(spark, _settings(running, home, topic), with_rollups=False),
        "ours_with_rollups": lambda home, topic: _ours(
            spark, _settings(running, home, topic), with_rollups=True
        ),
    }
    measured: dict[str, list[Taken]] = {name: [] for name in ways}
    for name, way in ways.items():
        way(folder / f"warm-{name}", "warm")
    for number in range(rounds):
        for name, way in ways.items():
            home = folder / f"{number}-{name}"
            measured[name].append(taken(partial(way, home, "full")))
    spark.stop()
    wall, cpu = (
        {name: statistics.median(found[which] for found in all_of) for name, all_of in measured.items()}
        for which in (0, 1)
    )
    return wall, cpu


def messages(count: int) -> Iterator[Message]:
    """Return readings in four partitions, one after the other in time but for a tenth that come up to a minute late."""
    random = np.random.default_rng(5)
    times = T0 + np.arange(count) - np.where(random.random(count) < 0.1, random.integers(0, 60_000, count), 0)
    temps, humidities = random.normal(20, 5, count).round(3), random.normal(50, 9, count).round(2)
    for n, (ts, temp, humidity) in enumerate(
        zip(times.tolist(), temps.tolist(), humidities.tolist(), strict=True)
    ):
        reading = {"ts": ts, "device": f"device-{n % DEVICES}", "temp": temp, "humidity": humidity}
        yield Message(json.dumps(reading).encode(), partition=n % PARTITIONS, time_ms=T0 + n)


def _settings(running: Broker, home: Path, topic: str) -> Settings:
    home.mkdir(exist_ok=True)
    config = home / "tidemark.toml"
    config.write_text(CONFIG.format(home=home / "var", servers=running.servers, topic=topic))
    return load_settings(config)


def _ours(spark: SparkSession, settings: Settings, with_rollups: bool) -> None:
    ingest.run(settings, spark, "readings")
    if with_rollups:
        build_rollups.run(settings, spark, "readings")


def _plain(spark: SparkSession, running: Broker, home: Path, topic: str) -> None:
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", running.servers)
    stream = stream.option("subscribe", topic).option("startingOffsets", "earliest")
    read = f"from_json(cast(value as string), '{SCHEMA}') as reading"
    rows = stream.load().selectExpr(read, "topic", "partition", "offset", "timestamp")
    writer = rows.selectExpr("reading.*", "topic", "partition", "offset", "timestamp").writeStream.format(
        "delta"
    )
    writer = writer.option("checkpointLocation", str(home / "checkpoint")).trigger(availableNow=True)
    writer.start(str(home / "raw")).awaitTermination()
