"""Packets and capture files of our own making, whole or broken, for tests to read back."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from hypothesis import strategies as st

MACS = bytes.fromhex("0200000000020200000000010800")
ETHERNET, SLL, SLL2 = 1, 113, 276
LINKS = (0, ETHERNET, 12, 101, 108, SLL, 228, SLL2, 127)


def ipv4(protocol: int = 6, body: bytes = b"", fragment: int = 0, words: int = 5) -> bytes:
    """An IPv4 packet from 10.0.0.1 to 10.0.0.2."""
    head = struct.pack(">BBHHHBBH", 0x40 | words, 0, 20 + len(body), 0, fragment, 64, protocol, 0)
    return head + bytes([10, 0, 0, 1, 10, 0, 0, 2]) + b"\0" * (max(words - 5, 0) * 4) + body


def ipv6(protocol: int = 17, body: bytes = b"") -> bytes:
    """An IPv6 packet from 2001:db8::1 to 2001:db8::2."""
    ends = b"".join(bytes.fromhex("20010db8000000000000000000000000")[:15] + bytes([n]) for n in (1, 2))
    return struct.pack(">IHBB", 6 << 28, len(body), protocol, 64) + ends + body


def tcp(source: int = 40000, target: int = 443, flags: int = 0x12) -> bytes:
    """A TCP header."""
    return struct.pack(">HHIIBBHHH", source, target, 1, 2, 0x50, flags, 1024, 0, 0)


def ethernet(body: bytes, ethertype: int = 0x0800, tags: Sequence[int] = ()) -> bytes:
    """A frame from 02:00:00:00:00:01 to 02:00:00:00:00:02, with VLAN tags."""
    vlans = b"".join(struct.pack(">HH", tag, 7) for tag in tags)
    return MACS[:12] + vlans + struct.pack(">H", ethertype) + body


def pcap(
    packets: Sequence[tuple[int, int, bytes]],
    order: str = "<",
    magic: int = 0xA1B2C3D4,
    link: int = ETHERNET,
    snaplen: int = 65535,
) -> bytes:
    """A classic file of (seconds, fraction, bytes)."""
    head = struct.pack(f"{order}IHHIIII", magic, 2, 4, 0, 0, snaplen, link)
    records = (struct.pack(f"{order}IIII", s, f, len(body), len(body) + 10) + body for s, f, body in packets)
    return head + b"".join(records)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """A block of pcapng."""
    body += b"\0" * (-len(body) % 4)
    total = struct.pack(f"{order}I", len(body) + 12)
    return struct.pack(f"{order}I", kind) + total + body + total


def section(order: str = "<") -> bytes:
    """The start of a pcapng section."""
    return block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(
    link: int = ETHERNET, order: str = "<", resolution: int | None = None, offset: int | None = None
) -> bytes:
    """A description of an interface, with its clock's resolution and offset."""
    options = b""
    if resolution is not None:
        options += struct.pack(f"{order}HHB3x", 9, 1, resolution)
    if offset is not None:
        options += struct.pack(f"{order}HHq", 14, 8, offset)
    return block(1, struct.pack(f"{order}HHI", link, 0, 65535) + options + b"\0\0\0\0", order)


def enhanced(body: bytes, ticks: int, number: int = 0, order: str = "<", kind: int = 6) -> bytes:
    """An enhanced packet block, or (kind 2) an obsolete one."""
    which = struct.pack(f"{order}HH", number, 3) if kind == 2 else struct.pack(f"{order}I", number)
    told = struct.pack(f"{order}IIII", ticks >> 32, ticks & 0xFFFFFFFF, len(body), len(body) + 10)
    return block(kind, which + told + body, order)


def simple(body: bytes, order: str = "<") -> bytes:
    """A simple packet block, which has no time."""
    return block(3, struct.pack(f"{order}I", len(body)) + body, order)


TRANSPORT = st.one_of(
    st.builds(tcp, st.integers(0, 65535), st.integers(0, 65535), st.integers(0, 255)), st.binary(max_size=24)
)
EXTENSION = st.tuples(st.sampled_from([0, 43, 44, 51, 60, 6, 17, 59]), st.integers(0, 3), st.booleans())


@st.composite
def ipv6_bodies(draw: st.DrawFn) -> tuple[int, bytes]:
    """What follows an IPv6 header: the first next-header number, then extensions and a transport."""
    chain = draw(st.lists(EXTENSION, max_size=3))
    last = draw(st.sampled_from([6, 17, 58, 132]))
    numbers = [kind for kind, _, _ in chain] + [last]
    body = b""
    for (kind, units, later), following in zip(chain, numbers[1:], strict=True):
        size = 8 if kind == 44 else (units + 2) * 4 if kind == 51 else (units + 1) * 8
        body += bytes([following, units]) + struct.pack(">H", 8 if later else 0) + b"\0" * (size - 4)
    return numbers[0], body + draw(TRANSPORT)


def _type_of(body: bytes) -> bytes:
    return struct.pack(">H", 0x0800 if body[0] >> 4 == 4 else 0x86DD)


IP = st.one_of(
    st.builds(
        ipv4,
        st.sampled_from([1, 2, 6, 17, 33, 132, 136, 255]),
        TRANSPORT,
        st.sampled_from([0, 0, 0x2000, 1]),
        st.integers(0, 15),
    ),
    ipv6_bodies().map(lambda parts: ipv6(*parts)),
)
FRAMES = st.one_of(
    st.builds(
        ethernet,
        IP | st.binary(max_size=50),
        st.sampled_from([0x0800, 0x86DD, 0x0806, 0x888E, 0x0026]),
        st.lists(st.sampled_from([0x8100, 0x88A8, 0x9100]), max_size=2),
    ),
    IP.map(
        lambda body: (
            b"\0\0\0\1\0\6\2\0\0\0\0\1\0\0" + struct.pack(">H", 0x0800 if body[0] < 0x50 else 0x86DD) + body
        )
    ),
    IP.map(lambda body: _type_of(body) + b"\0" * 9 + b"\6" + b"\2" * 8 + body),
    IP.map(lambda body: b"\2\0\0\0" + body),
    IP,
    st.binary(max_size=60),
)
CUT_FRAMES = st.tuples(FRAMES, st.integers(0, 120)).map(lambda pair: pair[0][: pair[1]])


@st.composite
def pcaps(draw: st.DrawFn) -> bytes:
    """Classic files of either byte order and resolution, whole, cut short, or damaged."""
    packets = draw(
        st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 10**6 - 1), CUT_FRAMES), max_size=6)
    )
    made = pcap(
        packets,
        draw(st.sampled_from("<>")),
        draw(st.sampled_from([0xA1B2C3D4, 0xA1B23C4D])),
        draw(st.sampled_from(LINKS)),
    )
    if draw(st.booleans()):
        made = made[: draw(st.integers(24, len(made)))]
    return made + draw(st.sampled_from([b"", b"", b"\xff" * 16, b"\0" * 3]))


@st.composite
def pcapngs(draw: st.DrawFn) -> bytes:
    """Files of several sections and interfaces, whole, cut short, or damaged."""
    made = b""
    for _ in range(draw(st.integers(1, 2))):
        order = draw(st.sampled_from("<>"))
        parts = st.one_of(
            st.builds(
                interface,
                st.sampled_from(LINKS),
                st.just(order),
                st.sampled_from([None, 3, 6, 9, 0x8A, 0x80 | 30, 0x80 | 50]),
                st.sampled_from([None, 0, -7, 10**9]),
            ),
            st.builds(
                enhanced,
                CUT_FRAMES,
                st.integers(0, 2**40),
                st.integers(0, 2),
                st.just(order),
                st.sampled_from([6, 2]),
            ),
            st.builds(simple, CUT_FRAMES, st.just(order)),
            st.builds(block, st.just(5), st.binary(max_size=20), st.just(order)),
            st.sampled_from([b"\xff" * 12, block(6, b"\0" * 8, order)]),
        )
        made += section(order) + interface(order=order) + b"".join(draw(st.lists(parts, max_size=6)))
    if draw(st.booleans()):
        made = made[: draw(st.integers(12, len(made)))]
    return made
