"""Reader of pcap and pcapng streams in blocks of any size: no file is ever held whole.

Formats: the classic file of libpcap (microseconds or nanoseconds, either byte order), and pcapng (enhanced, simple
and obsolete packet blocks, several sections and interfaces, each with its own link type and clock).
Sources: IETF draft-ietf-opsawg-pcap (pcap) and draft-ietf-opsawg-pcapng (pcapng).
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

# How much of a stream that cannot be followed any further is kept to be looked at.
KEPT_BYTES = 65_536
# No packet record is longer: what claims to be has lost its place in the file.
LARGEST = 16 * 1024 * 1024
_USUAL_SNAPLEN = 262_144
# Byte order, and units of a second's fraction in a microsecond.
_PCAP = {
    b"\xa1\xb2\xc3\xd4": (">", 1),
    b"\xd4\xc3\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1000),
}
_SECTION_MAGIC = b"\x0a\x0d\x0d\x0a"
_BYTE_ORDER = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}
_SECTION, _INTERFACE, _OLD, _SIMPLE, _ENHANCED = 0x0A0D0D0A, 1, 2, 3, 6
# How long a block must be to hold what its kind has.
_LEAST = {_SECTION: 28, _INTERFACE: 20, _OLD: 32, _SIMPLE: 16, _ENHANCED: 32}
_RESOLUTION, _OFFSET, _BINARY = 9, 14, 0x80
_TWO, _FOUR, _FIVE = ({order: struct.Struct(f"{order}{count}I") for order in "<>"} for count in (2, 4, 5))


class NoCapture(ValueError):
    """The bytes do not begin as a capture file does."""


class Packet(NamedTuple):
    """One packet: ``length`` of it on the wire, ``body`` as captured.

    ``time_us`` are microseconds since the epoch, rounded down, None where the block has none; ``link`` is the link type
    (1: Ethernet), None where the interface was never described.
    """

    time_us: int | None
    length: int
    link: int | None
    body: bytes


class Damage(NamedTuple):
    """Fault that ends a stream early, with the bytes there (at most KEPT_BYTES of them)."""

    reason: str
    detail: str
    content: bytes


class _Interface(NamedTuple):
    link: int
    snaplen: int
    ticks_a_second: int = 10**6
    offset_s: int = 0


class _Malformed(ValueError):
    """Bytes that cannot be a record."""


class Capture:
    """A capture that is read in pieces: ``feed`` each, then ``finish``.

    The packets do not depend on where the pieces are cut. A stream that cannot be followed gives what came before,
    then a Damage from ``finish``: reason ``truncated_file`` (it ends inside a record) or ``malformed``.

    Cost: O(packets), in Python. Memory: the packets of a piece and the record across its end. Raises NoCapture from
    ``feed``, when the stream begins as neither format does.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._position = 0
        self._read: Callable[[bytes, int, list[Packet]], int | None] = self._begin
        self._order = "<"
        self._interfaces: list[_Interface] = []
        self._damage: Damage | None = None

    @property
    def links(self) -> list[int]:
        """The link types described so far."""
        return [interface.link for interface in self._interfaces]

    def feed(self, piece: bytes) -> list[Packet]:
        """Return the packets that this piece completes."""
        packets: list[Packet] = []
        content, at = self._rest + piece, 0
        try:
            while not self._damage and (end := self._read(content, at, packets)) is not None:
                at = end
        except _Malformed as error:
            detail = f"{error}, at byte {self._position + at}; the file cannot be followed from there"
            self._damage = Damage("malformed", detail, content[at : at + KEPT_BYTES])
        self._rest = content[at:]
        self._position += at
        return packets

    def finish(self) -> Damage | None:
        """Return what kept the stream from being read to its end, None when it ended where a record does."""
        if self._damage or (self._read != self._begin and not self._rest):
            return self._damage
        detail = f"the last record, at byte {self._position}, has only {len(self._rest)} bytes"
        return Damage("truncated_file", detail, self._rest[:KEPT_BYTES])

    def _begin(self, content: bytes, at: int, _: list[Packet]) -> int | None:
        """Tell which format this is; return where its records begin, None as long as there is too little of it."""
        if content[:4] == _SECTION_MAGIC:
            self._read = self._block
            return at
        if content[:4] not in _PCAP:
            if any(magic.startswith(content) for magic in (*_PCAP, _SECTION_MAGIC)):
                return None
            raise NoCapture(f"expected a pcap or pcapng file, found the bytes {content[:4].hex(' ')}")
        if len(content) < 24:
            return None
        self._read = self._pcap_record
        self._order, self._a_microsecond = _PCAP[content[:4]]
        snaplen, link = _TWO[self._order].unpack_from(content, 16)
        # The upper bits tell of checksums at the end of frames.
        self._interfaces = [_Interface(link & 0xFFFF, snaplen)]
        self._largest = min(max(snaplen, _USUAL_SNAPLEN), LARGEST)
        return 24

    def _pcap_record(self, content: bytes, at: int, packets: list[Packet]) -> int | None:
        start = at + 16
        if start > len(content):
            return None
        seconds, fraction, captured, length = _FOUR[self._order].unpack_from(content, at)
        if captured > self._largest:
            raise _Malformed("no packet is that long")
        end: int = start + captured
        if end > len(content):
            return None
        time_us = seconds * 1_000_000 + fraction // self._a_microsecond
        packets.append(Packet(time_us, length, self._interfaces[0].link, content[start:end]))
        return end

    def _block(self, content: bytes, at: int, packets: list[Packet]) -> int | None:
        if at + 12 > len(content):
            return None
        order = self._order
        if content[at : at + 4] == _SECTION_MAGIC:
            order = _BYTE_ORDER.get(content[at + 8 : at + 12], "")
            if not order:
                raise _Malformed("a section without a byte order mark")
        kind, total = _TWO[order].unpack_from(content, at)
        if total % 4 or not 12 <= total <= LARGEST:
            raise _Malformed("no block is like this")
        end: int = at + total
        if end > len(content):
            return None
        # The second total of a section may be that of an unfinished one.
        is_whole = kind == _SECTION or content[at + 4 : at + 8] == content[end - 4 : end]
        if total < _LEAST.get(kind, 12) or not is_whole:
            raise _Malformed("no block is like this")
        if kind == _SECTION:
            self._order, self._interfaces = order, []
        elif kind == _INTERFACE:
            self._interfaces.append(_interface(content[at:end], order))
        elif kind in (_OLD, _SIMPLE, _ENHANCED):
            packets.append(self._packet(content, at, end, kind))
        return end

    def _packet(self, content: bytes, at: int, end: int, kind: int) -> Packet:
        time_us, link = None, None
        if kind == _SIMPLE:
            start, captured = at + 12, _TWO[self._order].unpack_from(content, at + 8)[0]
            length = captured
            # It has no time, and is of the first interface.
            if self._interfaces:
                link, snaplen = self._interfaces[0][:2]
                captured = min(length, snaplen) if snaplen else length
        else:
            start = at + 28
            number, high, low, captured, length = _FIVE[self._order].unpack_from(content, at + 8)
            if kind == _OLD:
                # Sixteen bits of interface, sixteen of a count of drops.
                number = number >> 16 if self._order == ">" else number & 0xFFFF
            if number < len(self._interfaces):
                link, _, ticks_a_second, offset_s = self._interfaces[number]
                time_us = (high << 32 | low) * 1_000_000 // ticks_a_second + offset_s * 1_000_000
        if start + captured > end - 4:
            raise _Malformed("no block is like this")
        return Packet(time_us, length, link, content[start : start + captured])


def _interface(block: bytes, order: str) -> _Interface:
    link, _, snaplen = struct.unpack_from(f"{order}HHI", block, 8)
    ticks_a_second, offset_s, at = 10**6, 0, 16
    while at + 4 <= len(block) - 4:
        code, size = struct.unpack_from(f"{order}HH", block, at)
        value = block[at + 4 : at + 4 + size]
        if code == _RESOLUTION and size == 1 == len(value):
            digits = value[0]
            ticks_a_second = 2 ** (digits - _BINARY) if digits & _BINARY else 10**digits
        elif code == _OFFSET and size == 8 == len(value):
            (offset_s,) = struct.unpack(f"{order}q", value)
        at += 4 + size + (-size % 4)
    return _Interface(link, snaplen, ticks_a_second, offset_s)
