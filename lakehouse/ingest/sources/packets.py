"""One capture file -> Arrow batches of numbered records, one per packet, as tab-separated text (no pyspark).

Packets have no text of their own: like rows of Parquet they become records that take the way of lines. Python works
per block of bytes and per address that is new in it, never per packet.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.packets.capture import NO_TIME, Capture, Packets
from lakehouse.algorithms.packets.digest_kernels import digests
from lakehouse.algorithms.packets.headers import ABSENT, LINKS, Headers, headers_of
from lakehouse.ingest.sources.landed_content import ANYWHERE, Landing, blocks
from lakehouse.ingest.sources.protocols import ethertype_name, protocol_name

# The fields of a record, in order; what is not known is empty.
PACKET_FIELDS = (
    *("ts", "src_mac", "dst_mac", "src", "dst", "src_port", "dst_port"),
    *("proto", "length", "captured", "tcp_flags", "digest"),
)
Ints = npt.NDArray[np.int64]


class UnknownLink(ValueError):
    """A capture of a kind of link whose packets cannot be read."""


def packet_fields(path: str, landing: Landing = ANYWHERE) -> tuple[str, ...]:
    """Return the fields of a capture's records, once its beginning has been looked at.

    Raises:
        NoCapture: when the file is no capture.
        UnknownLink: when its packets are of a link type that cannot be read.
        EOFError: when it ends before its first packet could begin.
    """
    capture = Capture()
    for piece, fault in blocks(path, landing):
        capture.feed(piece)
        if capture.links:
            unread = [link for link in capture.links if link not in LINKS]
            if len(unread) == len(capture.links):
                raise UnknownLink(_unread(unread[0]))
            return PACKET_FIELDS
        if fault:
            raise EOFError(fault)
    damage = capture.finish()
    raise EOFError(damage.detail if damage else "no interface is described")


def numbered_packets(path: str, landing: Landing = ANYWHERE) -> Iterator[pa.RecordBatch]:
    """Yield (source_line int64 from 1, record binary, fault string) of a plain or gzip capture file.

    A line is a packet's number in the file. A file that ends inside a packet, cannot be followed to its end, or is a
    damaged gzip file yields what came before and one more record: the bytes there, with the fault ``truncated_file``
    or ``malformed``.
    """
    capture, number = Capture(), 0
    fault: str | None = None
    for piece, damaged in blocks(path, landing):
        fault = damaged
        for packets in capture.feed(piece):
            yield _records(packets, number)
            number += len(packets.start)
    damage = capture.finish()
    if damage and not fault:
        fault = f"{damage.reason}: {damage.detail}"
    if fault:
        rest = damage.content if damage else b""
        yield _batch([number + 1], pa.array([rest or b"\0"], pa.binary()), [fault])


def _records(packets: Packets, before: int) -> pa.RecordBatch:
    headers = headers_of(packets)
    read = np.isin(packets.link, list(LINKS))
    columns = [
        _numbers(packets.time_us, packets.time_us != NO_TIME),
        *(_macs(packets, at) for at in (headers.src_mac_at, headers.dst_mac_at)),
        *(_addresses(packets, at, headers.version) for at in (headers.src_at, headers.dst_at)),
        *(_numbers(port, port != ABSENT) for port in (headers.src_port, headers.dst_port)),
        _protocols(headers),
        *(_numbers(size, size >= 0) for size in (packets.length, packets.captured)),
        _numbers(headers.tcp_flags, headers.tcp_flags != ABSENT),
        # Of all captured bytes, so that records of packets that differ anywhere differ too.
        pc.cast(pa.array(digests(packets.buffer, packets.start, packets.captured)), pa.string()),
    ]
    joined = pc.binary_join_element_wise(*columns, "\t", null_handling="replace", null_replacement="")
    records = joined.cast(pa.binary())
    faults: list[str | None] = [None] * len(read)
    if not read.all():
        records, faults = _with_unread(packets, read, records)
    return _batch(np.arange(before + 1, before + 1 + len(read)), records, faults)


def _with_unread(
    packets: Packets, read: npt.NDArray[np.bool_], records: pa.Array
) -> tuple[pa.Array, list[str | None]]:
    """Put packets that cannot be read in as their bytes, which no requeue takes for a record."""
    faults: list[str | None] = [None] * len(read)
    unread = []
    for row in np.flatnonzero(~read):
        start, end = packets.start[row], packets.start[row] + packets.captured[row]
        unread.append(packets.buffer[start:end].tobytes() or b"\0")
        faults[row] = f"malformed: {_unread(int(packets.link[row]))}"
    return pc.replace_with_mask(records, pa.array(~read), pa.array(unread, pa.binary())), faults


def _batch(numbers: Any, records: pa.Array, faults: list[str | None]) -> pa.RecordBatch:
    columns = [pa.array(numbers, pa.int64()), records, pa.array(faults, pa.string())]
    return pa.record_batch(columns, ["source_line", "record", "fault"])


def _numbers(values: Ints, known: npt.NDArray[np.bool_]) -> pa.Array:
    return pc.cast(pa.array(values, mask=~known), pa.string())


def _macs(packets: Packets, at: Ints) -> pa.Array:
    return _named(packets.buffer, at, 6, at != ABSENT, lambda value: value.hex(":"))


def _addresses(packets: Packets, at: Ints, version: Ints) -> pa.Array:
    def text(value: bytes) -> str:
        return str(ipaddress.ip_address(value))

    four, six = (_named(packets.buffer, at, size, version == v, text) for size, v in ((4, 4), (16, 6)))
    return pc.coalesce(four, six)


def _named(
    buffer: npt.NDArray[np.uint8],
    at: Ints,
    size: int,
    known: npt.NDArray[np.bool_],
    name: Callable[[bytes], str],
) -> pa.Array:
    """Texts of ``size`` bytes at each place where it is known: each different value is named once."""
    values = np.ascontiguousarray(buffer[at[known][:, None] + np.arange(size)])
    whole = pa.Array.from_buffers(pa.binary(size), int(known.sum()), [None, pa.py_buffer(values)])
    return _spread(whole, known, name)


def _protocols(headers: Headers) -> pa.Array:
    is_ip = headers.version != 0
    ip = _words(headers.protocol, is_ip, protocol_name)
    return pc.coalesce(ip, _words(headers.ethertype, ~is_ip & (headers.ethertype != ABSENT), ethertype_name))


def _words(numbers: Ints, known: npt.NDArray[np.bool_], name: Callable[[int], str]) -> pa.Array:
    return _spread(pa.array(numbers[known]), known, name)


def _spread(values: pa.Array, known: npt.NDArray[np.bool_], name: Callable[[Any], str]) -> pa.Array:
    """Name each different value once, and put the names where values are known."""
    encoded = values.dictionary_encode()
    names = pa.array([name(value) for value in encoded.dictionary.to_pylist()], pa.string())
    places = np.zeros(len(known), np.int64)
    places[known] = encoded.indices.to_numpy()
    return names.take(pa.array(places, mask=~known)) if len(names) else pa.nulls(len(known), pa.string())


def _unread(link: int) -> str:
    known = ", ".join(f"{number} ({name})" for number, name in LINKS.items())
    return f"packets of link type {link} cannot be read; expected one of {known}"
