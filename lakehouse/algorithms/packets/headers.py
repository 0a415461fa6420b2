"""Addresses, protocol and ports of packets, out of the headers that were captured.

Link layers: Ethernet (with VLAN tags), Linux cooked captures (SLL, SLL2), loopback, and bare IP. Above them IPv4 and
IPv6 with extension headers; the outermost IP header counts, a tunnel is not opened. Nothing is guessed: what the
captured bytes do not hold is absent.
Sources: the link types of tcpdump.org; RFC 791, RFC 8200, RFC 9293, IEEE 802.1Q.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from lakehouse.algorithms.packets.capture import Ints, Packets

# Link types whose packets can be read, by number.
LINKS = {
    0: "BSD loopback",
    1: "Ethernet",
    12: "raw IP",
    14: "raw IP",
    101: "raw IP",
    108: "OpenBSD loopback",
    113: "Linux cooked",
    228: "raw IPv4",
    229: "raw IPv6",
    276: "Linux cooked v2",
}
ABSENT = -1
COLUMNS = 10
_SRC_MAC, _DST_MAC, _ETHERTYPE, _VERSION, _SRC, _DST, _PROTOCOL, _SRC_PORT, _DST_PORT, _FLAGS = range(COLUMNS)
_NULL, _ETHERNET, _LOOP, _SLL, _SLL2 = 0, 1, 108, 113, 276
_RAW = (12, 14, 101, 228, 229)
_TYPE_IPV4, _TYPE_IPV6 = 0x0800, 0x86DD
_TCP, _UDP, _DCCP, _SCTP, _UDPLITE = 6, 17, 33, 132, 136
_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION = 0, 43, 44, 51, 60


@dataclass(frozen=True)
class Headers:
    """Headers of packets, one entry of each array per packet; ABSENT where a header lacks it.

    ``src_mac_at`` and ``dst_mac_at`` are offsets of six bytes in the packets' buffer; ``src_at`` and ``dst_at`` of
    four bytes where ``version`` is 4 and sixteen where it is 6; ``version`` is 0 for packets that are not IP.
    ``ethertype`` is the frame's, after VLAN tags; ``protocol`` the number of what IP carries, after extension
    headers. ``src_port`` and ``dst_port`` are those of TCP, UDP, UDP-Lite, DCCP and SCTP, in a first fragment only.
    """

    src_mac_at: Ints
    dst_mac_at: Ints
    ethertype: Ints
    version: Ints
    src_at: Ints
    dst_at: Ints
    protocol: Ints
    src_port: Ints
    dst_port: Ints
    tcp_flags: Ints


def headers_of(packets: Packets) -> Headers:
    """Return what the headers of packets say; link types that LINKS does not name say nothing. Cost: O(packets)."""
    out: npt.NDArray[np.int64] = np.full((COLUMNS, len(packets.start)), ABSENT, np.int64)
    read_headers(packets.buffer, packets.start, packets.captured, packets.link, out)
    return Headers(*out)


@njit(cache=True)
def read_headers(buffer: Any, start: Any, captured: Any, link: Any, out: Any) -> None:
    """Fill one column of ``out`` per packet; cost O(packets)."""
    for packet in range(len(start)):
        said = out[:, packet]
        said[_VERSION] = 0
        at = start[packet]
        end = at + captured[packet]
        version, at = _link_layer(buffer, at, end, link[packet], said)
        if version == 4:
            _ipv4(buffer, at, end, said)
        elif version == 6:
            _ipv6(buffer, at, end, said)


@njit(cache=True)
def _link_layer(buffer: Any, at: int, end: int, link: int, said: Any) -> Any:
    """Return which IP version follows, 0 for none, and where."""
    if link == _ETHERNET:
        return _ethernet(buffer, at, end, said)
    if link == _SLL:
        return _cooked(buffer, at, end, 16, 14, 5, 6, said)
    if link == _SLL2:
        return _cooked(buffer, at, end, 20, 0, 11, 12, said)
    if link in (_NULL, _LOOP):
        # Four bytes of address family, in the byte order of whoever captured: the version nibble is surer.
        return _bare(buffer, at + 4, end), at + 4
    if link in _RAW:
        return _bare(buffer, at, end), at
    return 0, at


@njit(cache=True)
def _ethernet(buffer: Any, at: int, end: int, said: Any) -> Any:
    if end - at < 14:
        return 0, at
    said[_DST_MAC], said[_SRC_MAC] = at, at + 6
    at += 12
    ethertype = _u16(buffer, at)
    while ethertype == 0x8100 or ethertype == 0x88A8 or ethertype == 0x9100:
        at += 4
        if end - at < 2:
            return 0, at
        ethertype = _u16(buffer, at)
    said[_ETHERTYPE] = ethertype
    return _version_of(ethertype), at + 2


@njit(cache=True)
def _cooked(
    buffer: Any, at: int, end: int, size: int, type_at: int, size_at: int, mac_at: int, said: Any
) -> Any:
    """Linux's cooked header: it has the sender's address only."""
    if end - at < size:
        return 0, at
    if buffer[at + size_at] == 6:
        said[_SRC_MAC] = at + mac_at
    said[_ETHERTYPE] = _u16(buffer, at + type_at)
    return _version_of(said[_ETHERTYPE]), at + size


@njit(cache=True)
def _bare(buffer: Any, at: int, end: int) -> int:
    if at >= end:
        return 0
    version = buffer[at] >> 4
    return version if version == 4 or version == 6 else 0


@njit(cache=True)
def _version_of(ethertype: int) -> int:
    return 4 if ethertype == _TYPE_IPV4 else 6 if ethertype == _TYPE_IPV6 else 0


@njit(cache=True)
def _ipv4(buffer: Any, at: int, end: int, said: Any) -> None:
    if end - at < 20 or buffer[at] >> 4 != 4:
        return
    said[_VERSION], said[_SRC], said[_DST] = 4, at + 12, at + 16
    said[_PROTOCOL] = buffer[at + 9]
    size = (buffer[at] & 0x0F) * 4
    is_first = _u16(buffer, at + 6) & 0x1FFF == 0
    if is_first and size >= 20:
        _ports(buffer, at + size, end, said)


@njit(cache=True)
def _ipv6(buffer: Any, at: int, end: int, said: Any) -> None:
    if end - at < 40 or buffer[at] >> 4 != 6:
        return
    said[_VERSION], said[_SRC], said[_DST] = 6, at + 8, at + 24
    said[_PROTOCOL] = buffer[at + 6]
    at += 40
    while _is_extension(said[_PROTOCOL]):
        if end - at < 8:
            return
        kind = said[_PROTOCOL]
        said[_PROTOCOL] = buffer[at]
        if kind == _FRAGMENT and _u16(buffer, at + 2) >> 3:
            return
        units: Any = np.int64(buffer[at + 1])
        at += 8 if kind == _FRAGMENT else (units + 2) * 4 if kind == _AUTHENTICATION else (units + 1) * 8
    _ports(buffer, at, end, said)


@njit(cache=True)
def _is_extension(kind: int) -> bool:
    return kind in (_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION)


@njit(cache=True)
def _ports(buffer: Any, at: int, end: int, said: Any) -> None:
    protocol = said[_PROTOCOL]
    if protocol not in (_TCP, _UDP, _DCCP, _SCTP, _UDPLITE) or end - at < 4:
        return
    said[_SRC_PORT], said[_DST_PORT] = _u16(buffer, at), _u16(buffer, at + 2)
    if protocol == _TCP and end - at >= 14:
        said[_FLAGS] = buffer[at + 13]


@njit(cache=True)
def _u16(buffer: Any, at: int) -> Any:
    return np.int64(buffer[at]) << 8 | np.int64(buffer[at + 1])
