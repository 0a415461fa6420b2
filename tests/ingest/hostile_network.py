"""Hostile captures and logs of networks, seeded: what no sender should have sent, and readers must live with."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

from tests.algorithms.packets import made
from tests.ingest.hostile_values import BYTES, NUMBERS, T0, TIMES, Inputs

FRAME = made.ethernet(made.ipv4(body=made.tcp(40000, 443, 2)))
_POOL = (
    *(text.encode() for text in (*NUMBERS, *TIMES)),
    *BYTES,
    b"-",
    b"(empty)",
    b"\\x09",
    b"a b",
    b"#",
    b"{",
)
_HUGE = (
    0,
    1,
    3,
    11,
    12,
    16,
    20,
    27,
    28,
    32,
    2**16 - 1,
    2**24,
    2**24 + 4,
    2**31 - 1,
    2**31,
    2**32 - 4,
    2**32 - 1,
)


def classic() -> Inputs:
    """Return captures of libpcap: either byte order, wrong magics, links, lengths and frames."""
    dice, found = random.Random(11), Inputs()
    for number, size in enumerate(_HUGE):
        for order in "<>":
            lengths = struct.pack(f"{order}IIII", T0, 0, size, size)
            found[f"claim{number}{'lb'[order == '>']}.pcap"] = (
                made.pcap([(T0, 0, FRAME)], order) + lengths + FRAME
            )
        found[f"snap{number}.pcap"] = made.pcap([(T0, 0, FRAME)], snaplen=size)
        found[f"link{number}.pcap"] = made.pcap([(T0, 0, FRAME)], link=size)
    whole = made.pcap([(T0 + n, n, FRAME) for n in range(3)], ">", 0xA1B23C4D)
    found["mixed.pcap"] = whole + made.pcap([(T0, 0, FRAME)], "<")
    found["turned.pcap"] = whole[:4][::-1] + whole[4:]
    found["version.pcap"] = whole[:4] + b"\xff" * 12 + whole[16:]
    found["empty.pcap"] = made.pcap([(T0, 0, b"")] * 1000)
    for number in range(40):
        packets = [(dice.randrange(2**32), dice.randrange(2**32), _frame(dice)) for _ in range(5)]
        found[f"frames{number}.pcap"] = made.pcap(packets, dice.choice("<>"), link=dice.choice(made.LINKS))
    return found


def blocks() -> Inputs:
    """Return captures of pcapng: sections, interfaces and packets in orders, with counts and clocks that are none."""
    dice, found = random.Random(12), Inputs()
    head, packet = made.section() + made.interface(), made.enhanced(FRAME, T0 * 10**6)
    for number, size in enumerate(_HUGE):
        total = struct.pack("<I", size)
        found[f"total{number}.pcapng"] = head + packet[:4] + total + packet[8:]
        found[f"end{number}.pcapng"] = head + packet[:-4] + total + packet
        found[f"caught{number}.pcapng"] = head + packet[:20] + total + packet[24:]
        found[f"number{number}.pcapng"] = head + packet[:8] + total + packet[12:]
        found[f"section{number}.pcapng"] = made.section()[:4] + total + made.section()[8:] + packet
        option = struct.pack("<HH", 9, size & 0xFFFF) + b"\x06"
        found[f"option{number}.pcapng"] = made.section() + made.block(
            1, struct.pack("<HHI", 1, 0, size) + option
        )
        found[f"option{number}.pcapng"] += packet
    for number, offset in enumerate((2**63 - 1, -(2**63), 2**62, 10**13, -(10**13), -1)):
        found[f"offset{number}.pcapng"] = made.section() + made.interface(offset=offset) + packet
    for resolution in (0, 1, 18, 19, 20, 63, 127, 128, 128 | 44, 128 | 63, 128 | 64, 255):
        clock = made.section() + made.interface(resolution=resolution)
        found[f"clock{resolution}.pcapng"] = clock + packet + made.enhanced(FRAME, 2**64 - 1)
    # As many interfaces as packets: a reader that looks at all of them for each packet takes minutes.
    found["interfaces.pcapng"] = made.section() + (made.interface() + packet) * 3000
    found["sections.pcapng"] = (head + packet) * 500 + made.section(">") + made.interface(order=">")
    found["early.pcapng"] = made.section() + packet + made.interface() + packet
    found["alone.pcapng"] = packet + head
    found["simple.pcapng"] = made.section() + made.simple(FRAME) + made.interface() + made.simple(b"")
    parts = (
        *(made.interface(link) for link in made.LINKS),
        packet,
        packet[:-8],
        made.section(),
        made.section(">"),
    )
    parts += (
        made.simple(FRAME),
        made.block(5, b"x" * 9),
        made.block(0x80000000, b""),
        b"\0" * 12,
        b"\xff" * 16,
    )
    for number in range(40):
        found[f"order{number}.pcapng"] = made.section() + b"".join(dice.choices(parts, k=8))
    return found


def zeek_logs(fields: Sequence[bytes], row: bytes) -> Inputs:
    """Return logs of Zeek: heads in other orders, twice or of other marks, and rows of other widths and values."""
    dice, found = random.Random(13), Inputs()
    named, typed = b"#fields\t" + b"\t".join(fields), b"#types\t" + b"\t".join([b"string"] * len(fields))
    usual = b"#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n" + named + b"\n"
    heads = (
        named + b"\n" + typed,
        typed + b"\n" + named,
        named + b"\n" + named,
        named.replace(b"\t", b" "),
        named + b"\textra" * 40,
        b"#fields\t" + b"\t".join(reversed(fields)),
        b"#fields\t" + b"\t".join([*fields[:3], *fields]),
        b"#fields\t" + b"\t".join([b"`", b"", b".", b"a.b", *fields]),
        b"#fields" + b"\tn" * 20_000,
        b"#separator \\x2c\n" + named,
        b"#unset_field\t?\n" + named,
        b"#empty_field\t\n" + named,
    )
    found |= {f"heads{number}.log": head + b"\n" + row for number, head in enumerate(heads)}
    found |= {f"rows{number}.log": usual + _rows(dice, row, b"\t") for number in range(60)}
    middle = (
        b"#close\t2020",
        named,
        b"#",
        b"##",
        b"#fields",
        b"{}",
        b'{"ts": 1}',
        b"\t" * 9,
        b"\0",
        b"\xff#",
    )
    found |= {f"middle{number}.log": usual + row + line + b"\n" + row for number, line in enumerate(middle)}
    found |= {
        "returns.log": (usual + row).replace(b"\n", b"\r\n"),
        "macs.log": (usual + row).replace(b"\n", b"\r"),
    }
    return found | {"json.log": b'{"ts": 1e400, "uid": "a"}\n' + b'{"ts":' * 2000 + b"\n" + row}


def netflow(head: bytes, row: bytes) -> Inputs:
    """Return NetFlow as nfdump prints it, of other heads and rows; and as devices send it, which is no such text."""
    dice, found = random.Random(14), Inputs()
    heads = (
        head.replace(b"firstSeen", b"ts"),
        head.lower(),
        head + head,
        head.replace(b",", b";"),
        head.replace(b"srcAddr", b"dstAddr"),
        head.rstrip() + b",extra,extra\n",
        b"srcAddr,dstAddr,firstSeen\n",
        b"Summary\n" + head,
        row,
        b"Sys: 0.1s\n" + head,
    )
    found |= {f"heads{number}.csv": text + row for number, text in enumerate(heads)}
    found |= {f"rows{number}.csv": head + _rows(dice, row, b",") for number in range(60)}
    middle = (
        b"Summary",
        b"Summary\nflows",
        b"Summary\n1\n2\n3",
        head.strip(),
        b"No matched flows",
        b"Summary:",
        b'"',
    )
    found |= {f"middle{number}.csv": head + row + line + b"\n" + row for number, line in enumerate(middle)}
    return found | {f"sent{number}.csv": content for number, content in enumerate(_exports(dice, 40))}


def _exports(dice: random.Random, count: int) -> list[bytes]:
    """Export packets of NetFlow 5, 9 and IPFIX: templates behind their data, options, sets of lengths that are none."""
    template = struct.pack(">HHHH", 256, 2, 8, 4) + struct.pack(">HH", 12, 4)
    options = struct.pack(">HHHHHHH", 257, 4, 4, 1, 4, 34, 2)
    sets = [
        (0, template),
        (1, options),
        (2, template),
        (3, options),
        (256, b"\x0a\0\0\1" * 8),
        (257, b"\1" * 7),
    ]
    found = []
    for _ in range(count):
        chosen = dice.choices(sets, k=dice.randint(0, 6))
        body = b""
        for kind, content in chosen:
            size = dice.choice((len(content) + 4, len(content) + 4, 0, 3, 2**16 - 1))
            body += struct.pack(">HH", kind, size) + content
        version, order = dice.choice((5, 9, 10)), dice.choice("<>")
        found.append(
            struct.pack(f"{order}HHIIII", version, dice.choice((0, len(chosen), 65535)), 0, T0, 1, 2) + body
        )
    return found


def _rows(dice: random.Random, row: bytes, separator: bytes) -> bytes:
    """Return a few rows, some of whose fields are other ones, are missing, or stand twice."""
    rows = b""
    for _ in range(dice.randint(1, 4)):
        fields = row.rstrip(b"\n").split(separator)
        for _ in range(dice.randint(1, 3)):
            place = dice.randrange(len(fields)) if fields else 0
            what = dice.randrange(6)
            if what < 4 and fields:
                fields[place] = dice.choice(_POOL)
            elif what == 4:
                del fields[place : place + 1]
            else:
                fields.insert(place, b"%d" % dice.randrange(10**9))
        rows += separator.join(fields) + dice.choice((b"\n", b"\n", b"\r\n", b"\n\n"))
    return rows


def _frame(dice: random.Random) -> bytes:
    """Return a frame whose headers say what is not there, of any length."""
    tags = dice.choices((0x8100, 0x88A8, 0x9100), k=dice.choice((0, 1, 2, 20)))
    protocol, words = dice.choice((0, 43, 44, 51, 60, 6, 17, 132, 255)), dice.randint(0, 15)
    chain = bytes(dice.choices((0, 43, 44, 51, 60, 6, 255), k=dice.randint(0, 64)))
    body = dice.choice(
        (made.ipv4(protocol, chain, dice.randrange(2**16), words), made.ipv6(protocol, chain), chain)
    )
    frame = made.ethernet(body, dice.choice((0x0800, 0x86DD, 0x0806, 0x8100)), tags)
    return frame[: dice.choice((len(frame), dice.randint(0, len(frame))))]
