from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.packets.capture import KEPT_BYTES, Capture, NoCapture
from lakehouse.algorithms.packets.capture import Packet as Captured
from lakehouse.algorithms.packets.headers import headers_of
from tests.algorithms.packets import made
from tests.oracles.packets.struct_scan import Packet, scan

CAPTURES = made.pcaps() | made.pcapngs()


def pieces(content: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, *(cut % (len(content) + 1) for cut in cuts), len(content)})
    return [content[low:high] for low, high in pairwise(places)] or [content]


def read(parts: list[bytes]) -> tuple[list[Packet], str | None]:
    """What the reader says, in the yardstick's words."""
    capture = Capture()
    packets = [described(packet) for part in parts for packet in capture.feed(part)]
    damage = capture.finish()
    return packets, damage.reason if damage else None


def described(packet: Captured) -> Packet:
    headers = asdict(headers_of(packet.body, packet.link))
    return Packet(packet.time_us, packet.length, len(packet.body), packet.link, **headers)


@settings(deadline=None, max_examples=150)
@given(content=CAPTURES)
def test_every_packet_is_what_the_yardstick_reads(content: bytes) -> None:
    assert read([content]) == scan(content)


@settings(deadline=None, max_examples=60)
@given(content=CAPTURES, cuts=st.lists(st.integers(0, 2000), max_size=6))
def test_any_cut_of_the_stream_gives_the_same_packets(content: bytes, cuts: list[int]) -> None:
    assert read(pieces(content, cuts)) == read([content])


def test_a_stream_may_come_byte_by_byte() -> None:
    content = made.pcap([(1, 2, made.ethernet(made.ipv4(body=made.tcp()))), (3, 4, b"")])
    assert read([bytes([value]) for value in content]) == read([content]) == scan(content)


def test_a_packet_says_who_sent_it_to_whom() -> None:
    frame = made.ethernet(made.ipv4(body=made.tcp(40000, 443, 0x12)), tags=[0x8100])

    ([packet], damage) = read([made.pcap([(1600000000, 250, frame)])])

    assert damage is None
    told = Packet(1600000000_000250, len(frame) + 10, len(frame), 1, "02:00:00:00:00:01", "02:00:00:00:00:02")
    ip = {"src": "10.0.0.1", "dst": "10.0.0.2", "src_port": 40000, "dst_port": 443}
    assert asdict(packet) == asdict(told) | ip | {"ethertype": 0x0800, "protocol": 6, "tcp_flags": 0x12}


@pytest.mark.parametrize(
    ("resolution", "ticks", "expected_us"),
    [
        (None, 1_600_000_000_000_001, 1_600_000_000_000_001),
        (9, 1_600_000_000_123_456_789, 1_600_000_000_123_456),
        (3, 1_600_000_000_123, 1_600_000_000_123_000),
        (0x80 | 10, 1_600_000_000 * 1024 + 512, 1_600_000_000_500_000),
        (0x80 | 63, 2**63 + 1, 1_000_000),
    ],
)
def test_ticks_become_microseconds_rounded_down(resolution: int | None, ticks: int, expected_us: int) -> None:
    content = made.section() + made.interface(resolution=resolution) + made.enhanced(b"", ticks)

    ([packet], _) = read([content])

    assert packet.time_us == expected_us


def test_a_last_packet_that_is_cut_off_is_kept_with_its_bytes() -> None:
    content = made.pcap([(1, 0, b"a" * 40), (2, 0, b"b" * 40)])
    capture = Capture()

    found = capture.feed(content[:-5])

    damage = capture.finish()
    assert len(found) == 1
    assert damage and (damage.reason, damage.content[16:]) == ("truncated_file", b"b" * 35)
    assert f"at byte {24 + 56}" in damage.detail


def test_a_record_too_long_to_be_one_ends_the_stream_with_what_came_before() -> None:
    content = made.pcap([(1, 0, b"a" * 40)]) + b"\xff" * KEPT_BYTES * 2
    capture = Capture()

    found = capture.feed(content[:100]) + capture.feed(content[100:])

    damage = capture.finish()
    assert len(found) == 1
    assert damage and damage.reason == "malformed" and "at byte 80" in damage.detail
    assert 0 < len(damage.content) <= KEPT_BYTES


@pytest.mark.parametrize("content", [b"ts,src,dst\n1,2,3\n", b"\x1f\x8b\x08\x00", b"\xa1\xb2\xcd\x34" * 9])
def test_what_is_no_capture_is_refused_with_its_first_bytes(content: bytes) -> None:
    with pytest.raises(NoCapture, match=content[:4].hex(" ")):
        Capture().feed(content)


@pytest.mark.parametrize("content", [b"", b"\xa1", made.section()[:8]])
def test_a_file_that_ends_before_its_first_record_is_told(content: bytes) -> None:
    capture = Capture()

    assert capture.feed(content) == []
    damage = capture.finish()
    assert damage and damage.reason == "truncated_file"
