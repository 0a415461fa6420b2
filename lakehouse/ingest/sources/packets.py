"""One capture file -> Arrow batches of numbered records, one per packet, as tab-separated text.

Packets have no text of their own: like rows of Parquet they become records that take the way of lines.
"""

from collections.abc import Iterator
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.packets.capture import Capture, Packet
from lakehouse.algorithms.packets.headers import LINKS, ethertype_name, headers_of, protocol_name
from lakehouse.ingest.sources.landed_content import ANYWHERE, Landing, blocks

# The fields of a record, in order; what is not known is empty.
PACKET_FIELDS = (
    *("ts", "src_mac", "dst_mac", "src", "dst", "src_port", "dst_port"),
    *("proto", "length", "captured", "tcp_flags", "digest"),
)


class UnknownLink(ValueError):
    """A capture of a kind of link whose packets cannot be read."""


def packet_fields(path: str, landing: Landing = ANYWHERE) -> tuple[str, ...]:
    """Return the fields of a capture's records, once its beginning has been looked at.

    Raises NoCapture when the file is no capture; UnknownLink when its packets are of a link type that cannot be read;
    EOFError when it ends before its first packet could begin.
    """
    capture = Capture()
    for piece, fault in blocks(path, landing):
        capture.feed(piece)
        if capture.links:
            if not any(link in LINKS for link in capture.links):
                raise UnknownLink(_unread(capture.links[0]))
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
        if packets := capture.feed(piece):
            yield _batch(number, [_record(packet) for packet in packets])
            number += len(packets)
    damage = capture.finish()
    if damage and not fault:
        fault = f"{damage.reason}: {damage.detail}"
    if fault:
        yield _batch(number, [((damage.content if damage else b"") or b"\0", fault)])


def _batch(before: int, records: list[tuple[bytes, str | None]]) -> pa.RecordBatch:
    texts, faults = zip(*records, strict=True)
    numbers = np.arange(before + 1, before + 1 + len(records))
    columns = [pa.array(numbers), pa.array(texts, pa.binary()), pa.array(faults, pa.string())]
    return pa.record_batch(columns, ["source_line", "record", "fault"])


def _record(packet: Packet) -> tuple[bytes, str | None]:
    """Return a packet's record and fault: of one that cannot be read its bytes, which no requeue takes for a record."""
    if packet.link not in LINKS:
        return packet.body or b"\0", f"malformed: {_unread(packet.link)}"
    headers = headers_of(packet.body, packet.link)
    proto = None
    if headers.protocol is not None:
        proto = protocol_name(headers.protocol)
    elif headers.ethertype is not None:
        proto = ethertype_name(headers.ethertype)
    values = (
        *(packet.time_us, headers.src_mac, headers.dst_mac, headers.src, headers.dst),
        *(headers.src_port, headers.dst_port, proto, packet.length, len(packet.body), headers.tcp_flags),
        # Of all captured bytes, so that records of packets that differ anywhere differ too.
        int.from_bytes(blake2b(packet.body, digest_size=16).digest(), "big"),
    )
    return "\t".join("" if value is None else str(value) for value in values).encode(), None


def _unread(link: int | None) -> str:
    known = ", ".join(f"{number} ({name})" for number, name in LINKS.items())
    shown = "-1" if link is None else link
    return f"packets of link type {shown} cannot be read; expected one of {known}"
