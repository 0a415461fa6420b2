"""Yardstick for captures: the whole file in memory, packet by packet, with ``struct`` and ``ipaddress``."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from ipaddress import ip_address
from math import floor

_PCAP = {0xA1B2C3D4: 10**6, 0xA1B23C4D: 10**9}
_WITH_PORTS = (6, 17, 33, 132, 136)
_LARGEST = 16 * 1024 * 1024
# How long a block must be to hold what its kind has.
_LEAST = {0x0A0D0D0A: 28, 1: 20, 2: 32, 3: 16, 6: 32}


@dataclass(frozen=True)
class Packet:
    """One packet; None where it does not say."""

    time_us: int | None
    length: int
    captured: int
    link: int | None
    src_mac: str | None = None
    dst_mac: str | None = None
    ethertype: int | None = None
    src: str | None = None
    dst: str | None = None
    protocol: int | None = None
    src_port: int | None = None
    dst_port: int | None = None
    tcp_flags: int | None = None


def scan(content: bytes) -> tuple[list[Packet], str | None]:
    """Return the packets of a capture file, and why it was not read to its end: truncated_file, malformed or None."""
    walk = _pcapng(content) if content[:4] == b"\x0a\x0d\x0d\x0a" else _pcap(content)
    packets: list[Packet] = []
    try:
        for packet, body in walk:
            packets.append(_with_link_layer(packet, body))
    except EOFError:
        return packets, "truncated_file"
    except ValueError:
        return packets, "malformed"
    return packets, None


def _taken(content: bytes, at: int, size: int) -> bytes:
    if at + size > len(content):
        raise EOFError
    return content[at : at + size]


def _pcap(content: bytes) -> Iterator[tuple[Packet, bytes]]:
    header = _taken(content, 0, 24)
    order = next(o for o in "<>" if struct.unpack(f"{o}I", header[:4])[0] in _PCAP)
    magic, _, _, _, _, snaplen, link = struct.unpack(f"{order}IHHIIII", header)
    at = 24
    while at < len(content):
        seconds, fraction, captured, length = struct.unpack(f"{order}IIII", _taken(content, at, 16))
        if captured > min(max(snaplen, 262_144), _LARGEST):
            raise ValueError
        body = _taken(content, at + 16, captured)
        time_us = seconds * 10**6 + floor(Fraction(fraction * 10**6, _PCAP[magic]))
        yield Packet(time_us, length, captured, link & 0xFFFF), body
        at += 16 + captured


def _pcapng(content: bytes) -> Iterator[tuple[Packet, bytes]]:
    at, order = 0, "<"
    interfaces: list[tuple[int, int, Fraction, int]] = []
    while at < len(content):
        if content[at : at + 4] == b"\x0a\x0d\x0d\x0a":
            order = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}.get(_taken(content, at + 8, 4), "?")
            if order == "?":
                raise ValueError
            interfaces = []
        kind, total = struct.unpack(f"{order}II", _taken(content, at, 12)[:8])
        if total % 4 or not 12 <= total <= _LARGEST:
            raise ValueError
        block = _taken(content, at, total)
        if total < _LEAST.get(kind, 12):
            raise ValueError
        if kind != 0x0A0D0D0A and struct.unpack(f"{order}I", block[-4:])[0] != total:
            raise ValueError
        if kind == 1:
            interfaces.append(_interface(block, order))
        elif kind in (2, 3, 6):
            yield _packet(block, kind, order, interfaces)
        at += total


def _interface(block: bytes, order: str) -> tuple[int, int, Fraction, int]:
    link, _, snaplen = struct.unpack_from(f"{order}HHI", block, 8)
    tick, offset, at = Fraction(1, 10**6), 0, 16
    while at + 4 <= len(block) - 4:
        code, size = struct.unpack_from(f"{order}HH", block, at)
        if code == 9:
            power = block[at + 4]
            tick = Fraction(1, 2 ** (power & 0x7F) if power & 0x80 else 10**power)
        elif code == 14:
            (offset,) = struct.unpack_from(f"{order}q", block, at + 4)
        at += 4 + size + (-size % 4)
    return link, snaplen, tick, offset


def _packet(
    block: bytes, kind: int, order: str, interfaces: list[tuple[int, int, Fraction, int]]
) -> tuple[Packet, bytes]:
    if kind == 3:
        (length,) = struct.unpack_from(f"{order}I", block, 8)
        link, snaplen = interfaces[0][:2] if interfaces else (None, 0)
        captured = min(length, snaplen) if snaplen else length
        at, time_us = 12, None
    else:
        number, high, low, captured, length = struct.unpack_from(f"{order}IIIII", block, 8)
        if kind == 2:
            (number,) = struct.unpack_from(f"{order}H", block, 8)
        at, link, time_us = 28, None, None
        if number < len(interfaces):
            link, _, tick, offset = interfaces[number]
            time_us = floor((high << 32 | low) * tick * 10**6) + offset * 10**6
    if at + captured > len(block) - 4:
        raise ValueError
    return Packet(time_us, length, captured, link), block[at : at + captured]


def _with_link_layer(packet: Packet, body: bytes) -> Packet:
    if packet.link == 1 and len(body) >= 14:
        packet = replace(packet, dst_mac=_mac(body[:6]), src_mac=_mac(body[6:12]))
        rest = body[12:]
        while rest[:2] in (b"\x81\x00", b"\x88\xa8", b"\x91\x00"):
            rest = rest[4:]
        return _typed(packet, rest[:2], rest[2:])
    if packet.link == 113 and len(body) >= 16:
        source = _mac(body[6:12]) if body[5] == 6 else None
        return _typed(replace(packet, src_mac=source), body[14:16], body[16:])
    if packet.link == 276 and len(body) >= 20:
        source = _mac(body[12:18]) if body[11] == 6 else None
        return _typed(replace(packet, src_mac=source), body[:2], body[20:])
    if packet.link in (0, 108):
        return _with_ip(packet, body[4:])
    if packet.link in (12, 14, 101, 228, 229):
        return _with_ip(packet, body)
    return packet


def _typed(packet: Packet, ethertype: bytes, body: bytes) -> Packet:
    if len(ethertype) < 2:
        return packet
    kind = int.from_bytes(ethertype, "big")
    packet = replace(packet, ethertype=kind)
    is_ip = (kind == 0x0800 and body[:1] and body[0] >> 4 == 4) or (
        kind == 0x86DD and body[:1] and body[0] >> 4 == 6
    )
    return _with_ip(packet, body) if is_ip else packet


def _with_ip(packet: Packet, body: bytes) -> Packet:
    version = body[0] >> 4 if body else 0
    if version == 4 and len(body) >= 20:
        src, dst = str(ip_address(body[12:16])), str(ip_address(body[16:20]))
        packet = replace(packet, src=src, dst=dst, protocol=body[9])
        size, fragment = (body[0] & 15) * 4, int.from_bytes(body[6:8], "big") & 0x1FFF
        return packet if fragment or size < 20 else _with_ports(packet, body[size:])
    if version == 6 and len(body) >= 40:
        src, dst = str(ip_address(body[8:24])), str(ip_address(body[24:40]))
        return _after_extensions(replace(packet, src=src, dst=dst, protocol=body[6]), body[40:])
    return packet


def _after_extensions(packet: Packet, body: bytes) -> Packet:
    while packet.protocol in (0, 43, 44, 51, 60):
        if len(body) < 8:
            return packet
        kind, packet = packet.protocol, replace(packet, protocol=body[0])
        if kind == 44 and int.from_bytes(body[2:4], "big") >> 3:
            return packet
        body = body[8 if kind == 44 else (body[1] + 2) * 4 if kind == 51 else (body[1] + 1) * 8 :]
    return _with_ports(packet, body)


def _with_ports(packet: Packet, body: bytes) -> Packet:
    if packet.protocol not in _WITH_PORTS or len(body) < 4:
        return packet
    source, target = struct.unpack(">HH", body[:4])
    flags = body[13] if packet.protocol == 6 and len(body) >= 14 else None
    return replace(packet, src_port=source, dst_port=target, tcp_flags=flags)


def _mac(value: bytes) -> str:
    return value.hex(":")
