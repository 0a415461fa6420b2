"""Predicates over connections and fire readings, cheap ones in Arrow and expensive ones in Python, and queries of them.

Expensive: regular expressions over put-together text, networks of addresses, lookups, a small model's score, each a
Python call a row. A query draws three to six of its stream's predicates, in an order that is drawn too: who writes a
query does not know what its predicates cost and pass.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.scheduling.contract import Chain, Query
from lakehouse.algorithms.scheduling.operators import Predicate

# Columns, and what is asked of them: of Arrow arrays, or of the Python values of one row.
Vectorised = tuple[tuple[str, ...], Callable[..., Any]]
OFFICE = ipaddress.ip_network("192.168.1.0/26")
SERVERS = re.compile(r"^(192\.168\.1\.\d+) (\d{1,3}\.){3}\d{1,3}:(80|443|53)$")
SETTLED = re.compile(r"^Sh?A?D+a?d+.*[fF]")
WELL_KNOWN = {53: "dns", 80: "http", 137: "netbios", 138: "netbios", 443: "https", 67: "dhcp"}
PLACE = re.compile(r"Quad(?:rant)? ([A-D])\b.*?(?:(\d+(?:\.\d+)?) m Below|25 mm Below)?")


def _row_by_row(ask: Callable[..., bool]) -> Callable[..., Any]:
    """Return a predicate over arrays that calls Python for each row."""

    def run(*columns: pa.Array) -> Any:
        return np.fromiter(map(ask, *(column.to_pylist() for column in columns)), np.bool_, len(columns[0]))

    return run


def _is_in_office(address: str) -> bool:
    return ipaddress.ip_address(address) in OFFICE


def _talks_to_server(src: str, dest: str, port: float) -> bool:
    return SERVERS.match(f"{src} {dest}:{port:.0f}") is not None


def _is_settled(history: str | None) -> bool:
    return history is not None and SETTLED.match(history) is not None


def _is_odd_service(port: float, service: str | None) -> bool:
    return WELL_KNOWN.get(int(port), "other") != service


def _looks_like_scan(sent: float | None, got: float | None, pkts: float, duration: float | None) -> bool:
    score = 0.8 * math.log1p(pkts) - 0.4 * math.log1p(got or 0.0) + 0.1 * math.log1p(sent or 0.0)
    return 1 / (1 + math.exp(-score + 0.2 * math.sqrt(duration or 0.0))) > 0.5


def _is_low(channel: str) -> bool:
    found = PLACE.search(channel)
    return found is not None and float(found[2] or 0.025) >= 1.2


def _is_dangerous(value: float | None, seconds: float) -> bool:
    if value is None:
        return False
    return 1 / (1 + math.exp(-(value - 60.0) / 15.0 - seconds / 4000.0)) > 0.5


def _is_open_room(experiment: str, channel: str) -> bool:
    kind, door, *_ = re.split(r"_+", experiment)
    return door.lower() == "open" and kind.startswith("Red") and not channel.endswith("2.1 m Below Ceiling")


def _greater(limit: float) -> Callable[[Any], Any]:
    return lambda column: pc.greater(column, limit)


CONNECTIONS: dict[str, Vectorised] = {
    "is_tcp": (("proto",), lambda column: pc.equal(column, "tcp")),
    "has_service": (("service",), pc.is_valid),
    "is_established": (("state",), lambda column: pc.is_in(column, pa.array(["SF", "S1"]))),
    "sent_much": (("orig_bytes",), _greater(400.0)),
    "got_much": (("resp_bytes",), _greater(4000.0)),
    "is_long": (("duration",), _greater(5.0)),
    "to_web": (("dest_port",), lambda column: pc.equal(column, 80.0)),
    "is_in_office": (("src",), _row_by_row(_is_in_office)),
    "talks_to_server": (("src", "dest", "dest_port"), _row_by_row(_talks_to_server)),
    "is_settled": (("history",), _row_by_row(_is_settled)),
    "is_odd_service": (("dest_port", "service"), _row_by_row(_is_odd_service)),
    "looks_like_scan": (("orig_bytes", "resp_bytes", "orig_pkts", "duration"), _row_by_row(_looks_like_scan)),
}
READINGS: dict[str, Vectorised] = {
    "is_hot": (("value",), _greater(40.0)),
    "is_very_hot": (("value",), _greater(300.0)),
    "is_burning": (("seconds",), _greater(0.0)),
    "is_late": (("seconds",), _greater(600.0)),
    "is_temperature": (("channel",), lambda column: pc.match_substring(column, "Temperature")),
    "is_low": (("channel",), _row_by_row(_is_low)),
    "is_dangerous": (("value", "seconds"), _row_by_row(_is_dangerous)),
    "is_open_room": (("experiment", "channel"), _row_by_row(_is_open_room)),
}
POOLS = {"connections": CONNECTIONS, "readings": READINGS}


def is_expensive(stream: str, name: str) -> bool:
    """Return whether a predicate calls Python for each row."""
    return POOLS[stream][name][1].__qualname__.startswith(_row_by_row.__name__)


def predicate(stream: str, name: str, is_shared: bool = True) -> Predicate:
    """Return one predicate of a stream's pool; shared with all queries of the stream, unless told not to."""
    columns, ask = POOLS[stream][name]

    def run(rows: Any) -> Any:
        return ask(*(rows[column] for column in columns))

    return Predicate(name, run=run, columns=columns, shared=(stream, name) if is_shared else None)


def drawn(count: int = 20, seed: int = 7) -> list[tuple[str, list[str]]]:
    """Return the stream of each query and its predicates in the written order; streams take turns."""
    rng = np.random.default_rng(seed)
    streams = [list(POOLS)[number % len(POOLS)] for number in range(count)]
    return [
        (stream, [str(name) for name in rng.permutation(list(POOLS[stream]))[: rng.integers(3, 7)]])
        for stream in streams
    ]


def queries(written: list[tuple[str, list[str]]], is_shared: bool = True) -> list[Query]:
    """Return the queries that can be run."""
    return [
        Query(
            f"query{number:02d}", Chain(stream, tuple(predicate(stream, name, is_shared) for name in names))
        )
        for number, (stream, names) in enumerate(written)
    ]
