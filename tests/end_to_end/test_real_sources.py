"""Real sets as Zeek, packet captures, nfdump and an MQTT broker bring them: the same tables as from plain files."""

from __future__ import annotations

import csv
import gzip
import tarfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.settings import load_settings
from tests.conftest import compile_plans
from tests.support.brokers.mqtt import Bridge, Broker, publisher, wait_for
from tests.support.readings_lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
Declared = Callable[[str], Lake]
FLOW = ("event_us", "arrival_us", "src", "dst", "src_port", "dst_port", "proto", "src_bytes", "duration")


@pytest.fixture
def declared(spark: SparkSession, tmp_path: Path) -> Iterator[Declared]:
    """Return a lakehouse of the stream ``s`` that a text declares, each in a folder of its own."""
    compile_plans(spark, True)

    def make(text: str) -> Lake:
        folder = tmp_path / f"lake{sum(1 for _ in tmp_path.glob('lake*'))}"
        folder.mkdir()
        config = folder / "tidemark.toml"
        config.write_text(f'home = "var"\n[streams.s]\n{text}\n', encoding="utf-8")
        return Lake(spark, load_settings(config), "s")

    yield make
    compile_plans(spark, False)


def test_a_day_of_zeek_is_late_by_what_its_connections_lasted(declared: Declared, data: Path) -> None:
    log = data / "zeek-m57-conn" / "conn.log.gz"
    lake = declared(f'preset = "zeek-conn"\nsource.path = "{log}"')

    counts = lake.ingest()

    assert (counts["received"], counts["accepted"], counts["late"]) == (8462, 8462, 2776)
    with gzip.open(log, "rt") as file:
        expected = [connection(row) for row in records(file)]
    found = lake.rows("raw", "event_us", "arrival_us", "src", "dst_port", "src_bytes")
    assert found == sorted(expected, key=repr)


def records(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """The records of a Zeek log by their fields' names."""
    fields: list[str] = []
    for line in lines:
        cut = line.rstrip("\n").split("\t")
        if line.startswith("#fields"):
            fields = cut[1:]
        elif not line.startswith("#"):
            yield dict(zip(fields, cut, strict=True))


def connection(row: dict[str, str]) -> tuple[Any, ...]:
    lasted = 0 if row["duration"] == "-" else round(float(row["duration"]) * 10**6)
    start = int(row["ts"].replace(".", ""))
    port = int(row["id.resp_p"]) if row["proto"] in ("tcp", "udp") else None
    return (start, start + lasted, row["id.orig_h"], port, int(row["orig_ip_bytes"]))


def test_captures_are_exactly_the_packets_that_their_csv_tells(
    declared: Declared, data: Path, tmp_path: Path
) -> None:
    with tarfile.open(data / "iot-packets" / "pcaps.tar.gz") as archive:
        archive.extractall(tmp_path / "captures", filter="data")
    lake = declared(f'preset = "pcap"\nsource = {{ path = "{tmp_path}/captures/**/*.pcap", settle = 0 }}')

    counts = lake.ingest()

    assert (counts["received"], counts["accepted"], counts["files"]) == (37962, 37962, 40)
    with gzip.open(data / "iot-packets" / "packets.csv.gz", "rt") as file:
        expected = [told_packet(row) for row in csv.DictReader(file)]
    ends = ("src", "src_mac", "dst", "dst_mac", "proto", "src_port", "dst_port")
    rows = lake.rows("raw", "source_file", "source_line", "event_us", "captured", "length", *ends)
    assert sorted(map(read_packet, rows), key=repr) == sorted(expected, key=repr)


def told_packet(row: dict[str, str]) -> tuple[Any, ...]:
    named = {"1": "icmp", "2": "igmp", "6": "tcp", "17": "udp", "0x806": "arp", "0x888e": "eapol"}
    ports = (int(row[port]) if row[port] else None for port in ("sport", "dport"))
    where = (row["file"], int(row["seq"]) + 1, int(row["ts"].replace(".", "")))
    sizes = (int(row["caplen"]), int(row["len"]))
    return (*where, *sizes, row["src"], row["dest"], named.get(row["proto"], "ip6"), *ports)


def read_packet(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row of raw as the CSV has it, which reads no IPv6: such frames have hardware addresses there, no ports."""
    file, line, at, captured, length, src, src_mac, dst, dst_mac, proto, *ports = row
    where = ("/".join(file.split("/")[-2:]), line, at, captured, length)
    if src is None:
        return (*where, src_mac, dst_mac, proto, *ports)
    if ":" in src:
        return (*where, src_mac, dst_mac, "ip6", None, None)
    return (*where, src, dst, proto, *ports)


OWN = """
preset = "flow"
event_time = {{ column = "first", unit = "s" }}
arrival_time = {{ plus = "duration" }}
[streams.s.source]
path = "{path}"
format = "csv"
header = "skip"
[streams.s.columns]
src = {{ position = 0 }}
src_port = {{ position = 1 }}
dst = {{ position = 2 }}
dst_port = {{ position = 3 }}
proto = {{ position = 4 }}
uid = {{ position = 5 }}
duration = {{ position = 6 }}
src_bytes = {{ position = 7 }}
dst_bytes = {{ position = 8 }}
src_packets = {{ position = 16 }}
dst_packets = {{ position = 17 }}
first = {{ type = "int", position = 28 }}
"""


def test_flows_are_alike_from_nfdump_and_from_their_own_csv(
    declared: Declared, data: Path, tmp_path: Path
) -> None:
    published, export = data / "unsw-nb15-flows" / "UNSW-NB15_1.csv.gz", tmp_path / "export.csv"
    with gzip.open(published, "rt") as file:
        lines = ["ts,te,td,sa,da,sp,dp,pr,ipkt,ibyt,opkt,obyt", *map(as_nfdump, list(csv.reader(file))[1:])]
    export.write_text("\n".join([*lines, "Summary", "flows,bytes,packets", "12142,1,1"]) + "\n")
    exported = declared(f'preset = "nfdump"\nidentity = []\nsource = {{ path = "{export}", settle = 0 }}')
    own = declared(OWN.format(path=published))

    counts = [lake.ingest() for lake in (exported, own)]

    assert [(c["received"], c["accepted"], c["late"]) for c in counts] == [(12142, 12142, 2644)] * 2
    columns = (*FLOW, "dst_bytes", "src_packets", "dst_packets")
    assert exported.rows("raw", *columns) == own.rows("raw", *columns)
    kinds = {row[0] for row in own.rows("raw", "proto")}
    assert {"tcp", "udp"} <= kinds and kinds == {kind.lower() for kind in kinds}


def as_nfdump(row: list[str]) -> str:
    """A published UNSW-NB15 row as nfdump would write it."""
    start, end = (datetime.fromtimestamp(int(row[at]), UTC).strftime("%Y-%m-%d %H:%M:%S") for at in (28, 29))
    ends = [row[0], row[2], row[1], row[3], row[4].upper()]
    return ",".join([start, end, row[6], *ends, row[16], row[7], row[17], row[8]])


UPLINK = 'preset = "chirpstack-v3"\nevent_time = { column = "_timestamp", unit = "ms" }\n'


def test_uplinks_give_the_same_table_over_mqtt_as_from_their_file(
    declared: Declared, data: Path, tmp_path: Path
) -> None:
    """Some are sent twice and some are retained; bridge and broker go down on the way: no row more, none less."""
    archive = data / "lorawan-sensors" / "d1d1e80000000033_campusiot.ndjson.gz"
    with gzip.open(archive) as file:
        uplinks = [line.rstrip(b"\n") for line in file]
    broker = Broker(tmp_path / "broker")
    broker.folder.mkdir()
    broker.start()
    topics = f'broker = "mqtt://localhost:{broker.port}", topics = ["up/#"]'
    lakes = {
        "files": declared(f'{UPLINK}source.path = "{archive}"'),
        "mqtt": declared(f'{UPLINK}source = {{ kind = "mqtt", {topics} }}'),
    }
    config = lakes["mqtt"].settings.config
    assert config is not None
    bridge = Bridge(config, "s")
    try:
        land(bridge, broker, uplinks)
    finally:
        bridge.end()
        broker.stop()

    counts = {name: lake.ingest() for name, lake in lakes.items()}

    columns = ("event_us", "device", "gateway", "gateway_time", "frame", "rssi", "snr", "source_item")
    assert lakes["mqtt"].rows("raw", *columns) == lakes["files"].rows("raw", *columns)
    assert counts["mqtt"]["accepted"] == counts["files"]["accepted"] > len(uplinks)
    assert counts["mqtt"]["duplicates"] > counts["files"]["duplicates"]


def land(bridge: Bridge, broker: Broker, uplinks: list[bytes]) -> None:
    """Publish all uplinks, a few of them twice, and have them landed by two bridges and two runs of the broker."""
    half, wanted = len(uplinks) // 2, {uplink.decode() for uplink in uplinks}
    process = bridge.start()
    wait_for(lambda: bridge.beat().get("state") == "running", "the bridge")
    with publisher(broker) as publish:
        publish(("up/1", uplink, number % 500 == 0) for number, uplink in enumerate(uplinks[:half]))
        process.kill()
        process.communicate()
        broker.stop()
        broker.start()
        process = bridge.start()
        publish(("up/1", uplink, False) for uplink in uplinks[half - 20 :])
    wait_for(lambda: len(bridge.lines()) >= len(uplinks), "as many messages")
    wait_for(lambda: set(bridge.payloads()) == wanted, "all uplinks")
    process.terminate()
    process.communicate()
