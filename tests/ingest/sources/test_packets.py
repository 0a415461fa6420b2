from __future__ import annotations

import gzip
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from lakehouse.config.stream import Source
from lakehouse.ingest.sources import landed_content
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.ingest.sources.packets import PACKET_FIELDS, numbered_packets
from lakehouse.storage.layout import Home
from tests.algorithms.packets import made

FRAME = made.ethernet(made.ipv4(body=made.tcp(40000, 443, 2)))
TOLD = "02:00:00:00:00:01\t02:00:00:00:00:02"


def records(path: Path) -> list[tuple[int, str | bytes, str | None]]:
    found: list[tuple[int, Any, str | None]] = []
    for batch in numbered_packets(str(path)):
        found += zip(*batch.to_pydict().values(), strict=True)
    return [(number, record if fault else record.decode(), fault) for number, record, fault in found]


def digest_of(content: bytes) -> int:
    return int(blake2b(content, digest_size=16).hexdigest(), 16)


def test_packets_that_differ_in_a_byte_that_no_field_shows_are_different_records(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    other = FRAME[:-1] + bytes([FRAME[-1] ^ 1])
    path.write_bytes(made.pcap([(1, 0, FRAME), (1, 0, other), (1, 0, FRAME)]))

    first, second, third = (record for _, record, _ in records(path))

    assert first == third != second


def test_packets_are_records_numbered_as_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    arp = made.ethernet(b"\0" * 28, ethertype=0x0806)
    path.write_bytes(made.pcap([(1600000000, 250, FRAME), (1600000001, 0, arp), (1600000002, 0, b"")]))

    first, second, third = (digest_of(content) for content in (FRAME, arp, b""))
    assert records(path) == [
        (1, f"1600000000000250\t{TOLD}\t10.0.0.1\t10.0.0.2\t40000\t443\ttcp\t64\t54\t2\t{first}", None),
        (2, f"1600000001000000\t{TOLD}\t\t\t\t\tarp\t52\t42\t\t{second}", None),
        (3, f"1600000002000000\t\t\t\t\t\t\t\t10\t0\t\t{third}", None),
    ]
    assert len(PACKET_FIELDS) == records(path)[0][1].count("\t") + 1  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a.pcap", "a.pcap.gz"])
@pytest.mark.parametrize("block", [1, 64, 1000])
def test_block_size_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, block: int
) -> None:
    content = made.pcap([(n, n, FRAME) for n in range(40)])
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    expected = records(path)

    monkeypatch.setattr(landed_content, "BLOCK_BYTES", block * 8)

    assert records(path) == expected and len(expected) == 40


def test_a_file_that_ends_inside_a_packet_gives_those_before_and_the_bytes_there(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(made.pcap([(1, 0, FRAME), (2, 0, FRAME)])[:-4])

    (first, last) = records(path)

    assert first[0] == 1 and first[2] is None
    assert last[0] == 2 and str(last[2]).startswith(
        "truncated_file: the last record, at byte 94, has only 66"
    )
    assert isinstance(last[1], bytes) and last[1].endswith(FRAME[:-4])


def test_a_gzip_file_cut_behind_a_packet_is_told_although_all_packets_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap.gz"
    path.write_bytes(gzip.compress(made.pcap([(1, 0, FRAME), (2, 0, FRAME)]))[:-8])

    *packets, last = records(path)

    assert [(number, fault) for number, _, fault in packets] == [(1, None), (2, None)]
    assert last == (3, b"\0", "truncated_file: the gzip stream ends too early")


def test_an_interface_that_cannot_be_read_costs_its_packets_only(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    parts = [
        made.interface(),
        made.interface(link=127),
        made.enhanced(FRAME, 10**15),
        made.enhanced(b"wifi", 10**15, 1),
    ]
    path.write_bytes(made.section() + b"".join(parts) + made.simple(FRAME))

    _, unread, _ = found = records(path)

    faults = [fault for _, _, fault in found]
    assert [bool(fault) for fault in faults] == [False, True, False] and unread[1] == b"wifi"
    assert (
        "malformed: packets of link type 127 cannot be read; expected one of 0 (BSD loopback), 1 (Ethernet)"
        in str(faults[1])
    )


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"ts,src\n1,2\n", "NoCapture: expected a pcap or pcapng file, found the bytes 74 73 2c 73"),
        (made.pcap([], link=105), "UnknownLink: packets of link type 105 cannot be read"),
        (b"\xd4\xc3\xb2", "EOFError: the last record, at byte 0, has only 3 bytes"),
        (b"", "EOFError"),
    ],
)
def test_a_file_that_is_no_capture_is_handed_out_with_what_is_wrong(
    tmp_path: Path, content: bytes, told: str
) -> None:
    (tmp_path / "a.pcap").write_bytes(content)
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))

    store.add_files(Source.model_validate({"path": f"{tmp_path}/*.pcap", "format": "pcap", "settle": 0}))

    assert told in (store.behind(0)[0].files[0].unreadable or "")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_capture(tmp_path: Path) -> None:
    paths = [tmp_path / "few.pcap", tmp_path / "many.pcap"]
    body = made.pcap([(n, 0, FRAME + b"x" * 1200) for n in range(1000)])
    program = (
        "import resource, sys\n"
        "from lakehouse.ingest.sources.packets import numbered_packets\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024\n"
        "found = [(sum(batch.num_rows for batch in numbered_packets(path)), peak()) for path in sys.argv[1:]]\n"
        "print(*found[0], *found[1])"
    )
    for path, times in zip(paths, (10, 100), strict=True):
        with path.open("wb") as file:
            file.write(body[:24])
            for _ in range(times):
                file.write(body[24:])

    said = subprocess.run(
        [sys.executable, "-c", program, *paths], stdout=subprocess.PIPE, text=True, check=True
    )

    few, peak_of_few, many, peak_of_many = map(int, said.stdout.split())
    assert (few, many) == (10_000, 100_000)
    assert peak_of_many - peak_of_few < 50
