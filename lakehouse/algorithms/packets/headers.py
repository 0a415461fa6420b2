"""Who sent packets to whom: addresses, protocol and ports out of the headers that were captured.

Link layers: Ethernet (with VLAN tags), Linux cooked captures (SLL, SLL2), loopback, and bare IP. Above them IPv4 and
IPv6 with extension headers; the outermost IP header counts, a tunnel is not opened. Nothing is guessed: what the
captured bytes do not hold is absent.
Sources: the link types of tcpdump.org; RFC 791, RFC 8200, RFC 9293, IEEE 802.1Q.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakehouse.algorithms.packets.capture import Ints, Packets
from lakehouse.algorithms.packets.headers_kernels import COLUMNS, read_headers

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


@dataclass(frozen=True)
class Headers:
    """What the headers of packets say, one place of each array per packet; ABSENT where they do not say it.

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
