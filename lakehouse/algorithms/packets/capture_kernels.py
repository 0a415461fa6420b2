"""Compiled walks over the records of a buffer: where each packet lies, until one is not complete.

Both tell where they stopped, why, and five columns with one place per packet met on the way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

# Why a walk stopped: the next record is not complete, is for the caller to read, or cannot be one.
MORE, STOP, BAD = 0, 1, 2
# A packet of a simple block: it has no time, and is of the first interface.
SIMPLE = -1
_SECTION, _INTERFACE, _OLD, _SIMPLE, _ENHANCED = 0x0A0D0D0A, 1, 2, 3, 6
Walked = tuple[int, int, tuple[Any, ...]]


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
