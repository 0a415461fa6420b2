"""Reader of pcap and pcapng streams in blocks of any size: no file is ever held whole.

Formats: the classic file of libpcap (microseconds or nanoseconds, either byte order), and pcapng (enhanced, simple
and obsolete packet blocks, several sections and interfaces, each with its own link type and clock).
Sources: IETF draft-ietf-opsawg-pcap (pcap) and draft-ietf-opsawg-pcapng (pcapng).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]
NO_TIME = -(2**63)
UNKNOWN_LINK = -1
# How much of a stream that cannot be followed any further is kept to be looked at.
KEPT_BYTES = 65_536
# No packet record is longer: what claims to be has lost its place in the file.
LARGEST = 16 * 1024 * 1024
_USUAL_SNAPLEN = 262_144
_PCAP = {b"\xa1\xb2\xc3\xd4": (">", 6), b"\xa1\xb2\x3c\x4d": (">", 9)}
_PCAP |= {magic[::-1]: ("<", digits) for magic, (_, digits) in list(_PCAP.items())}
_SECTION_MAGIC = b"\x0a\x0d\x0d\x0a"
_BYTE_ORDER = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}
_RESOLUTION, _OFFSET, _BINARY = 9, 14, 0x80
_FARTHEST_S = 2**62 // 1_000_000
# Why a walk stopped: the next record is not complete, is for the caller to read, or cannot be one.
MORE, STOP, BAD = 0, 1, 2
# A packet of a simple block: it has no time, and is of the first interface.
SIMPLE = -1
_SECTION, _INTERFACE, _OLD, _SIMPLE, _ENHANCED = 0x0A0D0D0A, 1, 2, 3, 6
Walked = tuple[int, int, tuple[Any, ...]]


class NoCapture(ValueError):
    """The bytes do not begin as a capture file does."""


@dataclass(frozen=True)
class Packets:
    """Packets inside one buffer, in the order of the file, one place of each array per packet.

    ``start`` and ``captured`` say which bytes of ``buffer`` were captured, ``length`` how long the packet was on the
    wire; ``time_us`` are microseconds since the epoch, rounded down, NO_TIME where the block has none; ``link`` is
    the link type (1: Ethernet), UNKNOWN_LINK where the interface was never described.
    """

    buffer: npt.NDArray[np.uint8]
    start: Ints
    captured: Ints
    length: Ints
    time_us: Ints
    link: Ints


@dataclass(frozen=True)
class Damage:
    """Fault that ends a stream early, with the bytes there (at most KEPT_BYTES of them)."""

    reason: str
    detail: str
    content: bytes


@dataclass(frozen=True)
class _Interface:
    """``clock``: how fine its ticks are, as pcapng writes it: a power of ten, with the highest of 8 bits of two."""

    link: int
    snaplen: int
    clock: int = 6
    offset_us: int = 0


_UNDESCRIBED = _Interface(UNKNOWN_LINK, 0)
_NOTHING: Ints = np.empty((2, 0), np.int64)


class Capture:
    """A capture that is read in pieces: ``feed`` each, then ``finish``.

    The packets do not depend on where the pieces are cut. A stream that cannot be followed gives what came before,
    then a Damage from ``finish``: reason ``truncated_file`` (it ends inside a record) or ``malformed``.

    Cost: O(packets), compiled, and Python per piece and interface. Memory: a piece and the record across its end.

    Raises:
        NoCapture: from ``feed``, when the stream begins as neither format does.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._position = 0
        self._format = ""
        self._order = "<"
        self._interfaces: list[_Interface] = []
        self._damage: Damage | None = None

    @property
    def links(self) -> list[int]:
        """The link types described so far."""
        return [interface.link for interface in self._interfaces]

    def feed(self, piece: bytes) -> list[Packets]:
        """Return the packets that this piece completes."""
        if self._damage:
            return []
        content = self._rest + piece
        at = 0 if self._format else self._begin(content)
        found: list[Packets] = []
        if self._format:
            found, at = self._pcap(content, at) if self._format == "pcap" else self._pcapng(content)
        self._rest = content[at:]
        self._position += at
        return found

    def finish(self) -> Damage | None:
        """Return what kept the stream from being read to its end, None when it ended where a record does."""
        if self._damage or (self._format and not self._rest):
            return self._damage
        told = f"the last record, at byte {self._position}, has only {len(self._rest)} bytes"
        return Damage("truncated_file", told, self._rest[:KEPT_BYTES])

    def _begin(self, content: bytes) -> int:
        """Tell which format this is, once there is enough of it; return where its records begin."""
        if content[:4] == _SECTION_MAGIC:
            self._format = "pcapng"
            return 0
        if content[:4] not in _PCAP:
            if any(magic.startswith(content) for magic in (*_PCAP, _SECTION_MAGIC)):
                return 0
            raise NoCapture(f"expected a pcap or pcapng file, found the bytes {content[:4].hex(' ')}")
        if len(content) < 24:
            return 0
        self._format = "pcap"
        self._order, digits = _PCAP[content[:4]]
        snaplen, link = struct.unpack_from(f"{self._order}II", content, 16)
        # The upper bits tell of checksums at the end of frames.
        self._interfaces = [_Interface(link & 0xFFFF, snaplen, digits)]
        return 24

    def _pcap(self, content: bytes, at: int) -> tuple[list[Packets], int]:
        (interface,) = self._interfaces
        buffer = np.frombuffer(content, np.uint8)
        largest = min(max(interface.snaplen, _USUAL_SNAPLEN), LARGEST)
        end, state, columns = walk_pcap(buffer, at, self._order == ">", largest)
        if state == BAD:
            self._broken(content, end, "no packet is that long")
        start, captured, length, seconds, fraction = columns
        time_us = seconds * 1_000_000 + fraction // 10 ** (interface.clock - 6)
        link = np.full(len(start), interface.link, np.int64)
        return ([Packets(buffer, start, captured, length, time_us, link)] if len(start) else []), end

    def _pcapng(self, content: bytes) -> tuple[list[Packets], int]:
        buffer = np.frombuffer(content, np.uint8)
        # One array for all packets of the piece: there may be as many interfaces as packets.
        out, count, at = room_for_packets(len(buffer)), 0, 0
        timed = [_NOTHING]
        while True:
            snaplen = self._interfaces[0].snaplen if self._interfaces else 0
            before = count
            count, at, state = walk_pcapng(buffer, at, self._order == ">", LARGEST, snaplen, out, before)
            if count > before:
                timed.append(self._timed(*out[3:, before:count]))
            if state == BAD:
                self._broken(content, at, "no block is like this")
            after = self._described(content, at) if state == STOP else at
            if after == at:
                break
            at = after
        start, captured, length = out[:3, :count]
        time_us, link = np.concatenate(timed, axis=1)
        return ([Packets(buffer, start, captured, length, time_us, link)] if count else []), at

    def _described(self, content: bytes, at: int) -> int:
        """Take in a section or an interface; return where it ends, or ``at`` while there is too little of it."""
        is_section = content[at : at + 4] == _SECTION_MAGIC
        if is_section:
            if len(content) < at + 12:
                return at
            order = _BYTE_ORDER.get(content[at + 8 : at + 12])
            if order is None:
                self._broken(content, at, "a section without a byte order mark")
                return at
            self._order = order
        total = self._u32(content, at + 4)
        if total % 4 or not (28 if is_section else 20) <= total <= LARGEST:
            self._broken(content, at, "no block is like this")
            return at
        if len(content) < at + total:
            return at
        if is_section:
            self._interfaces = []
        else:
            self._interfaces.append(self._interface(content[at : at + total]))
        return at + total

    def _interface(self, block: bytes) -> _Interface:
        link, _, snaplen = struct.unpack_from(f"{self._order}HHI", block, 8)
        clock, offset_s, at = 6, 0, 16
        while at + 4 <= len(block) - 4:
            code, size = struct.unpack_from(f"{self._order}HH", block, at)
            value = block[at + 4 : at + 4 + size]
            if code == _RESOLUTION and size == 1:
                clock = value[0]
            elif code == _OFFSET and size == 8:
                (offset_s,) = struct.unpack(f"{self._order}q", value)
            at += 4 + size + (-size % 4)
        # A clock that is further off than microseconds can tell is off all the same.
        return _Interface(link, snaplen, clock, 1_000_000 * max(-_FARTHEST_S, min(offset_s, _FARTHEST_S)))

    def _timed(self, ticks: Ints, number: Ints) -> Ints:
        """Return times and link types of packets; cost: Python per interface that has one, and per kind of clock."""
        # A packet without a time of its own is of the first interface, told as -1.
        places, which = np.unique(np.maximum(number, 0), return_inverse=True)
        known = len(self._interfaces)
        of = [self._interfaces[place] if place < known else _UNDESCRIBED for place in places.tolist()]
        clock, offset_us, link = (
            np.array([getattr(each, name) for each in of], np.int64)[which]
            for name in ("clock", "offset_us", "link")
        )
        time_us = np.full(len(ticks), NO_TIME, np.int64)
        has_time = (number >= 0) & (number < known)
        for kind in np.unique(clock[has_time]).tolist():
            mine = has_time & (clock == kind)
            time_us[mine] = _microseconds(ticks[mine].view(np.uint64), kind) + offset_us[mine]
        return np.stack([time_us, link])

    def _broken(self, content: bytes, at: int, why: str) -> None:
        told = f"{why}, at byte {self._position + at}; the file cannot be followed from there"
        self._damage = Damage("malformed", told, content[at : at + KEPT_BYTES])

    def _u32(self, content: bytes, at: int) -> int:
        (value,) = struct.unpack_from(f"{self._order}I", content, at)
        return int(value)


def _microseconds(ticks: npt.NDArray[np.uint64], clock: int) -> Ints:
    """Microseconds of a clock's ticks, rounded down; what does not fit wraps, to be seen as out of bounds."""
    digits = clock & ~_BINARY
    if not clock & _BINARY:
        power = digits - 6
        scaled = ticks // np.uint64(10 ** min(power, 19)) if power >= 0 else ticks * np.uint64(10**-power)
        return scaled.view(np.int64)
    bits = np.uint64(min(digits, 63))
    # Twenty bits are kept free, to multiply by a million.
    less = np.uint64(max(int(bits) - 44, 0))
    fraction = (ticks & ((np.uint64(1) << bits) - np.uint64(1))) >> less
    micros = (fraction * np.uint64(1_000_000)) >> (bits - less)
    return ((ticks >> bits) * np.uint64(1_000_000) + micros).view(np.int64)


def room_for_packets(size: int) -> Any:
    """Return a table for the packets of so many bytes: five rows, a column for each packet that there can be."""
    return np.empty((5, size // 16 + 1), np.int64)


def walk_pcap(buffer: Any, at: int, is_big: bool, largest: int) -> Walked:
    """Return start, captured bytes, length, seconds and fraction of the packets from ``at`` on; cost O(packets)."""
    out = room_for_packets(len(buffer) - at)
    count, end, state = _walk_pcap(buffer, at, is_big, largest, out)
    return int(end), int(state), tuple(out[:, :count])


@njit(cache=True)
def _walk_pcap(buffer: Any, at: int, is_big: bool, largest: int, out: Any) -> Any:
    count, end = 0, len(buffer)
    while end - at >= 16:
        captured = _u32(buffer, at + 8, is_big)
        if captured > largest:
            return count, at, BAD
        if end - at - 16 < captured:
            break
        out[0, count] = at + 16
        out[1, count] = captured
        out[2, count] = _u32(buffer, at + 12, is_big)
        out[3, count] = _u32(buffer, at, is_big)
        out[4, count] = _u32(buffer, at + 4, is_big)
        count += 1
        at += 16 + captured
    return count, at, MORE


def walk_pcapng(
    buffer: Any, at: int, is_big: bool, largest: int, snaplen: int, out: Any, before: int
) -> tuple[int, int, int]:
    """Write start, captured bytes, length, ticks and interface of the packets from ``at`` on into columns of ``out``.

    ``before``: how many columns are taken. Return how many are taken then, where the walk stopped, and why; it stops at
    a section or an interface. ``snaplen`` is the first interface's, 0 for none: a simple block needs it. O(blocks).
    """
    count, end, state = _walk_pcapng(buffer, at, is_big, largest, snaplen, out, before)
    return int(count), int(end), int(state)


@njit(cache=True)
def _walk_pcapng(buffer: Any, at: int, is_big: bool, largest: int, snaplen: int, out: Any, count: int) -> Any:
    end = len(buffer)
    while end - at >= 12:
        kind, total = _u32(buffer, at, is_big), _u32(buffer, at + 4, is_big)
        if kind == _SECTION:
            return count, at, STOP
        if total < 12 or total > largest or total % 4:
            return count, at, BAD
        if end - at < total:
            return count, at, MORE
        if _u32(buffer, at + total - 4, is_big) != total:
            return count, at, BAD
        if kind == _INTERFACE:
            return count, at, STOP
        if kind in (_ENHANCED, _OLD, _SIMPLE):
            if not _take_packet(buffer, at, kind, total, is_big, snaplen, out[:, count]):
                return count, at, BAD
            count += 1
        at += total
    return count, at, MORE


@njit(cache=True)
def _take_packet(
    buffer: Any, at: int, kind: int, total: int, is_big: bool, snaplen: int, packet: Any
) -> bool:
    """Write one packet down; false when it does not fit into its block."""
    if kind == _SIMPLE:
        if total < 16:
            return False
        length = _u32(buffer, at + 8, is_big)
        captured = min(length, snaplen) if snaplen else length
        packet[0], packet[1], packet[2], packet[3], packet[4] = at + 12, captured, length, 0, SIMPLE
        return bool(captured <= total - 16)
    if total < 32:
        return False
    captured = _u32(buffer, at + 20, is_big)
    packet[0], packet[1] = at + 28, captured
    packet[2] = _u32(buffer, at + 24, is_big)
    packet[3] = _u32(buffer, at + 12, is_big) << 32 | _u32(buffer, at + 16, is_big)
    number = _u32(buffer, at + 8, is_big)
    if kind == _OLD:
        # Sixteen bits of interface, sixteen of a count of drops.
        number = number >> 16 if is_big else number & 0xFFFF
    packet[4] = number
    return bool(captured <= total - 32)


@njit(cache=True)
def _u32(buffer: Any, at: int, is_big: bool) -> Any:
    a, b, c, d = (
        np.int64(buffer[at]),
        np.int64(buffer[at + 1]),
        np.int64(buffer[at + 2]),
        np.int64(buffer[at + 3]),
    )
    if is_big:
        return a << 24 | b << 16 | c << 8 | d
    return d << 24 | c << 16 | b << 8 | a
