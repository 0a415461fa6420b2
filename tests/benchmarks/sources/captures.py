"""Packets a second that a core reads of a capture, and how many bytes of it.

Packets of 60 to 1,500 bytes of a hundred connections, in a file of pcap and one of pcapng, the best of three runs.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from typing import Any

from lakehouse.ingest.sources.packets import numbered_packets
from tests.algorithms.packets import made

T0 = 1_600_000_000
PACKETS, QUICK = 200_000, 2_000


def figures(quick: bool) -> dict[str, Any]:
    """Return packets and bytes a second of processors."""
    dice, count = random.Random(1), QUICK if quick else PACKETS
    frames = [
        made.ethernet(
            made.ipv4(body=made.tcp(40_000 + n % 100) + dice.randbytes(dice.choice((6, 500, 1446))))
        )
        for n in range(1_000)
    ]
    chosen = [frames[number % len(frames)] for number in range(count)]
    blocks = (made.enhanced(frame, (T0 + n) * 10**6) for n, frame in enumerate(chosen))
    contents = {
        "pcap": made.pcap([(T0 + n, 0, frame) for n, frame in enumerate(chosen)]),
        "pcapng": made.section() + made.interface() + b"".join(blocks),
    }
    return {"packets": count} | {name: _speed(content, count) for name, content in contents.items()}


def _speed(content: bytes, count: int) -> dict[str, int]:
    least = float("inf")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "capture"
        path.write_bytes(content)
        for _ in range(3):
            began = time.process_time()
            assert sum(batch.num_rows for batch in numbered_packets(str(path))) == count
            least = min(least, time.process_time() - began)
    return {"packets_per_s": round(count / least), "mb_per_s": round(len(content) / least / 1e6)}
