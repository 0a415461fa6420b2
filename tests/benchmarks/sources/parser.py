"""Cost of reading records, of every preset and way of spelling, beside plain lines of CSV.

Milliseconds of processors, of a thousand records at once, the least of five runs, and of a hundred thousand, once.
Ratios are to plain CSV of as many records, for which one of 27 bytes is a row; ``bytes`` of a record, ``rows`` of it,
and nanoseconds that each byte takes, of a hundred thousand. ``presets`` measures whole ingest jobs of the same records.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import xor
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakehouse.config.stream import Stream
from lakehouse.ingest.parser.parser import Parser
from lakehouse.ingest.sources.manifest import Layout
from lakehouse.ingest.sources.numbered import located_lines
from lakehouse.settings import load_settings
from lakehouse.storage.envelope import Message
from tests.ingest.forms.test_remote_write import body, one
from tests.ingest.sources.test_network import CONN
from tests.ingest.sources.test_sensors import CHIRPSTACK, HELIUM, TTN, state

T0 = 1_600_000_000
SMALL, LARGE, QUICK = 1_000, 100_000, 2_000
READINGS = """[streams.s]
event_time = {{ column = "ts", unit = "s" }}
levels = ["1d forever"]
source = {{ {source} }}
{more}
[streams.s.columns]
device = {{ {device} }}
v = {{ type = "double" }}
count = {{ type = "int", optional = true }}
"""
FILES, BRIDGE = 'path = "l/*", format = "{}"', 'kind = "mqtt", broker = "mqtt://l", topics = ["a"]'
INFLUX = 'columns.v = { path = "fields.v", type = "double" }\ncolumns.device = { path = "tags.device" }'
LISTS = """[streams.s]
event_time = { column = "list.at", unit = "s" }
levels = ["1d forever"]
source = { path = "l/*", format = "ndjson", explode = ["list", "list.gw"] }
columns.device = "string"
columns.gateway = { path = "list.gw.id" }
columns.v = { path = "list.gw.rssi", type = "double" }
"""
WINCC = ("VarName", "TimeString", "VarValue", "Validity", "Time_ms")
NFDUMP = "first,duration,proto,src,src_port,dst,dst_port,src_packets,src_bytes,flows"


@dataclass(frozen=True)
class Kind:
    """Records of one kind: how they are declared, the names of their fields, and the record of a number."""

    declared: str
    layout: Layout
    record: Callable[[int], bytes]


def readings(file_format: str) -> str:
    """Return a stream of readings in files."""
    return READINGS.format(source=FILES.format(file_format), more="", device="")


def preset(name: str, more: str = "") -> str:
    """Return a stream that rests on a preset."""
    return f'[streams.s]\npreset = "{name}"\n{more}\nsource.path = "l/*"\n'


def reading(number: int, name: str = "device") -> dict[str, Any]:
    """Return a reading as members."""
    return {"ts": T0 + number, name: f"dev-{number % 99}", "v": number % 40 + 0.25, "count": number}


def nested(number: int) -> bytes:
    """Return a record with lists in a list."""
    heard = [{"id": gateway, "rssi": -50 - number % 9} for gateway in ("gw-1", "gw-2")]
    return as_json(
        {"device": f"dev-{number % 99}", "list": [{"at": T0 + number + at, "gw": heard} for at in range(2)]}
    )


def connection(number: int) -> tuple[Any, ...]:
    """Return the values of a connection that Zeek logs."""
    return (T0 + number + 0.5, f"C{number}", "10.0.0.1", 5353, "10.0.0.2", 53, "udp", 0.25, 120, 0, 2, 0)


def flow(number: int) -> bytes:
    """Return a flow as nfdump writes it."""
    at = f"2020-09-13 14:{number // 60 % 60:02}:{number % 60:02}.250"
    return f"{at},00:00:03.{number % 1000:03},UDP,10.0.0.1,443,10.0.0.2,10693,9,11214,1".encode()


def as_json(value: Any) -> bytes:
    """Return a record of JSON."""
    return json.dumps(value, ensure_ascii=False).encode()


def uplink(number: int, whole: dict[str, Any], count: str, name: str = "") -> bytes:
    """Return an uplink that differs from others by its counter, and its name where it has one."""
    named = {name: f"{number:08}{whole[name][8:]}"} if name else {}
    return as_json(whole | {count: number} | named)


def entity_state(number: int) -> bytes:
    """Return a state of an entity, a second after the one before."""
    time = datetime.fromtimestamp(T0 + number, UTC).isoformat()
    return as_json(state(f"{number}.5", time.replace("+", ".265390+")))


def as_line_protocol(number: int) -> bytes:
    """Return a reading in InfluxDB's line protocol."""
    return (
        f"air,device=dev-{number % 99} v={number % 40 + 0.25},count={number}i {T0 + number}000000000".encode()
    )


def written(number: int) -> bytes:
    """Return a body of Prometheus' remote write with one sample."""
    labels = {"job": "node", "instance": f"host-{number % 99}:9100"}
    return body([one("node_load1", (number % 40 + 0.25, (T0 + number) * 1000), **labels)])


def point(number: int) -> bytes:
    """Return a metric of OpenTelemetry with one point."""
    points = {"dataPoints": [{"timeUnixNano": f"{T0 + number}000000000", "asDouble": number + 0.25}]}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    scope = {"scope": {"name": "otelcol"}, "metrics": [{"name": "queue", "unit": "1", "gauge": points}]}
    return as_json({"resourceMetrics": [{"resource": resource, "scopeMetrics": [scope]}]})


def sentence(number: int) -> bytes:
    """Return a position of a satellite receiver."""
    clock = datetime.fromtimestamp(T0 + number, UTC).strftime(
        "%H%M%S.00,A,4807.03812,N,01131.00021,E,022.4,084.4,%d%m%y"
    )
    content = f"GPRMC,{clock},003.1,W".encode()
    return b"$%s*%02X" % (content, reduce(xor, content))


def wincc_line(number: int) -> bytes:
    """Return a value that a panel logs."""
    at = datetime.fromtimestamp(T0 + number, UTC)
    return f'"Pressure";"{at:%d.%m.%Y %H:%M:%S}";{number},5;1;46054416666,6667'.encode()


def kinds() -> dict[str, Kind]:
    """Return every kind of record by name."""
    header = ("ts", "device", "v", "count")
    bridged = READINGS.format(source=BRIDGE, more='identity = ["*"]', device='path = "$topic.1"')
    paris = 'event_time.timezone = "Europe/Paris"'
    return {
        "csv": Kind(readings("csv"), header, lambda n: ",".join(map(str, reading(n).values())).encode()),
        "csv_quoted": Kind(
            readings("csv"), header, lambda n: ",".join(f'"{v}"' for v in reading(n).values()).encode()
        ),
        "ndjson": Kind(readings("ndjson"), None, lambda n: as_json(reading(n))),
        "ndjson_escaped": Kind(
            readings("ndjson"), None, lambda n: as_json(reading(n)).replace(b"dev-", b"dev\\u002d")
        ),
        "lists_in_lists": Kind(LISTS, None, nested),
        "mqtt": Kind(
            bridged, None, lambda n: Message("a/b", as_json(reading(n)), (T0 + n) * 10**6).to_line().strip()
        ),
        "zeek_tsv": Kind(
            preset("zeek-conn"), tuple(CONN.split()), lambda n: "\t".join(map(str, connection(n))).encode()
        ),
        "zeek_json": Kind(
            preset("zeek-conn"), None, lambda n: as_json(dict(zip(CONN.split(), connection(n), strict=True)))
        ),
        "nfdump": Kind(preset("nfdump", paris), tuple(NFDUMP.split(",")), flow),
        "chirpstack": Kind(
            preset("chirpstack"), None, lambda n: uplink(n, CHIRPSTACK, "fCnt", "deduplicationId")
        ),
        "ttn": Kind(preset("ttn"), None, lambda n: uplink(n, TTN, "number")),
        "helium": Kind(preset("helium"), None, lambda n: uplink(n, HELIUM, "fcnt")),
        "home_assistant": Kind(preset("home-assistant"), None, entity_state),
        "influx": Kind(preset("influx", INFLUX), None, as_line_protocol),
        "prometheus": Kind(preset("prometheus"), None, lambda n: f'up{{job="a"}} {n}.5 {T0 + n}000'.encode()),
        "remote_write": Kind(preset("prometheus-remote-write"), None, written),
        "otlp": Kind(preset("otlp"), None, point),
        "nmea": Kind(preset("nmea"), None, sentence),
        "wincc": Kind(preset("wincc"), WINCC, wincc_line),
    }


def figures(quick: bool) -> dict[str, Any]:
    """Return milliseconds of processors, and ratios to CSV."""
    found: dict[str, Any] = {"records": {"small": SMALL, "large": QUICK if quick else LARGE}}
    for name, kind in kinds().items():
        stream = declared(kind)
        small, rows = taken(kind, stream, SMALL, 1 if quick else 5)
        count = QUICK if quick else LARGE
        large, _ = taken(kind, stream, count, 1)
        size = sum(len(kind.record(number)) for number in range(count))
        found[name] = {"small_ms": round(small, 2), "large_ms": round(large, 1), "rows": rows / SMALL}
        found[name] |= {"bytes": size // count, "ns_a_byte": round(large * 1e6 / size)}
    for name in kinds():
        ratios = {
            f"{size}_ratio": found[name][f"{size}_ms"] / found["csv"][f"{size}_ms"]
            for size in ("small", "large")
        }
        found[name] |= {ratio: round(value, 2) for ratio, value in ratios.items()}
    return found


def declared(kind: Kind) -> Stream:
    """Return the stream of a kind."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "tidemark.toml"
        config.write_text(f'home = "var"\n{kind.declared}', encoding="utf-8")
        return load_settings(config).stream("s")


def taken(kind: Kind, stream: Stream, count: int, rounds: int) -> tuple[float, int]:
    """Return the least milliseconds of processors that reading so many records took, and the number of good rows."""
    records = pa.array([kind.record(number) for number in range(count)], pa.binary())
    lines = located_lines(pa.array(range(count), pa.int64()), records, "f")
    least = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        rows = Parser.of(stream, (kind.layout,)).parse(lines)
        least = min(least, time.process_time() - began)
    assert rows["reason"].null_count == rows.num_rows
    return least * 1000, rows.num_rows
