"""Addresses, protocol and ports of packets, out of the headers that were captured.

Link layers: Ethernet (with VLAN tags), Linux cooked captures (SLL, SLL2), loopback, and bare IP. Above them IPv4 and
IPv6 with extension headers; the outermost IP header counts, a tunnel is not opened. Nothing is guessed: what the
captured bytes do not hold is absent.
Sources: the link types of tcpdump.org; RFC 791, RFC 8200, RFC 9293, IEEE 802.1Q.
"""

import ipaddress
from dataclasses import dataclass
from functools import lru_cache

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
_ETHERNET = 1
# Of cooked headers: size, and where are the ethertype, the address' length, the address.
_COOKED = {113: (16, 14, 5, 6), 276: (20, 0, 11, 12)}
# Four bytes of address family, in the byte order of whoever captured: the version nibble is surer.
_LOOPBACK = (0, 108)
_VLAN_TAGS = (0x8100, 0x88A8, 0x9100)
_VERSIONS = {0x0800: 4, 0x86DD: 6}
_TCP, _WITH_PORTS = 6, (6, 17, 33, 132, 136)
_FRAGMENT, _AUTHENTICATION = 44, 51
_EXTENSIONS = (0, 43, _FRAGMENT, _AUTHENTICATION, 60)
_KEPT_ADDRESSES = 65_536


@dataclass(slots=True)
class Headers:
    """Headers of a packet; None where it lacks one.

    ``ethertype`` is the frame's, after VLAN tags; ``protocol`` the number of what IP carries, after extension headers.
    Ports are those of TCP, UDP, UDP-Lite, DCCP and SCTP, in a first fragment only.
    """

    src_mac: str | None = None
    dst_mac: str | None = None
    ethertype: int | None = None
    src: str | None = None
    dst: str | None = None
    protocol: int | None = None
    src_port: int | None = None
    dst_port: int | None = None
    tcp_flags: int | None = None


def headers_of(body: bytes, link: int | None) -> Headers:
    """Return what the headers of a packet say; link types that LINKS does not name say nothing."""
    headers = Headers()
    at = _link_layer(body, link, headers)
    version = body[at] >> 4 if at < len(body) else 0
    if headers.ethertype is None or _VERSIONS.get(headers.ethertype) == version:
        if version == 4 and len(body) >= at + 20:
            _ipv4(body, at, headers)
        elif version == 6 and len(body) >= at + 40:
            _ipv6(body, at, headers)
    return headers


def _link_layer(body: bytes, link: int | None, headers: Headers) -> int:
    """Return where an IP header may be; at the end, if nowhere."""
    size = len(body)
    if link == _ETHERNET and size >= 14:
        return _ethernet(body, headers)
    if link in _COOKED and size >= _COOKED[link][0]:
        end, type_at, size_at, mac_at = _COOKED[link]
        if body[size_at] == 6:
            headers.src_mac = body[mac_at : mac_at + 6].hex(":")
        headers.ethertype = _u16(body, type_at)
        return end
    is_bare = link in LINKS and link != _ETHERNET and link not in _COOKED
    return (4 if link in _LOOPBACK else 0) if is_bare else size


def _ethernet(body: bytes, headers: Headers) -> int:
    headers.dst_mac, headers.src_mac = body[:6].hex(":"), body[6:12].hex(":")
    at, ethertype = 12, _u16(body, 12)
    while ethertype in _VLAN_TAGS:
        at += 4
        if len(body) < at + 2:
            return len(body)
        ethertype = _u16(body, at)
    headers.ethertype = ethertype
    return at + 2


def _ipv4(body: bytes, at: int, headers: Headers) -> None:
    headers.src, headers.dst = _address(body[at + 12 : at + 16]), _address(body[at + 16 : at + 20])
    headers.protocol = body[at + 9]
    size = (body[at] & 0x0F) * 4
    is_first = _u16(body, at + 6) & 0x1FFF == 0
    if is_first and size >= 20:
        _ports(body, at + size, headers)


def _ipv6(body: bytes, at: int, headers: Headers) -> None:
    headers.src, headers.dst = _address(body[at + 8 : at + 24]), _address(body[at + 24 : at + 40])
    kind, at = body[at + 6], at + 40
    headers.protocol = kind
    while kind in _EXTENSIONS:
        if len(body) < at + 8:
            return
        headers.protocol = body[at]
        if kind == _FRAGMENT and _u16(body, at + 2) >> 3:
            return
        units = body[at + 1]
        at += 8 if kind == _FRAGMENT else (units + 2) * 4 if kind == _AUTHENTICATION else (units + 1) * 8
        kind = headers.protocol
    _ports(body, at, headers)


def _ports(body: bytes, at: int, headers: Headers) -> None:
    if headers.protocol in _WITH_PORTS and len(body) >= at + 4:
        headers.src_port, headers.dst_port = _u16(body, at), _u16(body, at + 2)
        if headers.protocol == _TCP and len(body) >= at + 14:
            headers.tcp_flags = body[at + 13]


@lru_cache(_KEPT_ADDRESSES)
def _address(value: bytes) -> str:
    return str(ipaddress.ip_address(value))


def _u16(body: bytes, at: int) -> int:
    return body[at] << 8 | body[at + 1]


# By IANA's number. Zeek says icmp for both versions; nfdump writes them in capitals.
IP_PROTOCOLS = {
    1: "icmp",
    2: "igmp",
    4: "ipip",
    6: "tcp",
    17: "udp",
    33: "dccp",
    41: "ipv6",
    47: "gre",
    50: "esp",
    51: "ah",
    58: "icmp6",
    88: "eigrp",
    89: "ospf",
    103: "pim",
    112: "vrrp",
    115: "l2tp",
    132: "sctp",
    136: "udplite",
}
_ETHERTYPES = {0x0806: "arp", 0x8035: "rarp", 0x888E: "eapol", 0x88CC: "lldp"}
# Below this the field is a length, and what follows is LLC.
_LEAST_ETHERTYPE = 0x0600
# Those that have ports. Other exporters put ICMP's type and code where ports stand.
WITH_PORTS = ("tcp", "udp", "dccp", "sctp", "udplite")


def protocol_name(number: int) -> str:
    """Return the word for what IP carries; its number as text where we have none.

    >>> protocol_name(6), protocol_name(254)
    ('tcp', '254')
    """
    return IP_PROTOCOLS.get(number, str(number))


def ethertype_name(number: int) -> str:
    """Return the word for a frame that carries no IP.

    >>> ethertype_name(0x0806), ethertype_name(0x88B5), ethertype_name(38)
    ('arp', '0x88b5', 'llc')
    """
    return "llc" if number < _LEAST_ETHERTYPE else _ETHERTYPES.get(number, f"{number:#06x}")
