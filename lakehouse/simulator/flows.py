"""The stream `flows`: connections of a network link, csv in the manner of a connection log, sizes with heavy tails."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from lakehouse.simulator.arrays import constant, integers, strings
from lakehouse.simulator.delays import CONNECTION_MS
from lakehouse.simulator.form import ABSENT, Form, hex_names, seconds
from lakehouse.simulator.timeline import Timeline, heavy_choice, irregular

SERVERS = 400
PROTOCOLS = ("udp", "tcp", "icmp")
LARGEST_BYTES = 10_000_000_000
UNSET_DURATION = 0.055


def _columns(rng: np.random.Generator, timeline: Timeline, start_us: int, sources: int) -> dict[str, Any]:
    """Return addresses, sizes, packets and microseconds of duration, which some connections lack."""
    count = len(timeline.source)
    size = np.minimum(60 * (1 + rng.pareto(0.9, count)), LARGEST_BYTES).astype(np.int64)
    packets = 1 + size // rng.integers(200, 1400, count)
    duration = np.minimum(rng.lognormal(12.0, 2.5, count), 7.2e10).astype(np.int64)
    duration[rng.random(count) < UNSET_DURATION] = ABSENT
    protocol = rng.choice(len(PROTOCOLS), count, p=(0.55, 0.4, 0.05))
    return {
        "uid": pc.binary_join_element_wise(
            constant(b"C"), hex_names(_scattered(start_us, count)), constant(b"")
        ),
        "src": _addresses("10.0", sources).take(integers(timeline.source)),
        "dst": _addresses("203.0", SERVERS).take(integers(heavy_choice(rng, SERVERS, count))),
        "proto": strings(PROTOCOLS).take(integers(protocol)),
        "duration": duration,
        "bytes": size,
        "packets": packets,
    }


def _scattered(start_us: int, count: int) -> npt.NDArray[np.uint64]:
    """Return numbers that look random and never repeat, as each step of splitmix64 can be undone.

    Runs cannot meet either: each counts from its own start, and a timeline holds no more rows than microseconds.
    """
    mixed = np.uint64(start_us) + np.arange(count, dtype=np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    scattered: npt.NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
    return scattered


def _addresses(network: str, count: int) -> Any:
    return strings([f"{network}.{number // 250}.{number % 250 + 1}" for number in range(count)])


FLOWS = Form(
    stream="flows",
    suffix=".csv",
    header=b"ts,received,uid,src,dst,proto,duration,bytes,packets\n",
    template=(
        *("ts", b",", "received", b",", "uid", b",", "src", b",", "dst", b",", "proto", b","),
        *("duration", b",", "bytes", b",", "packets", b"\n"),
    ),
    measures={"duration": 6, "bytes": 0, "packets": 0},
    spoiled="bytes",
    marked="dst",
    null=b"NA",
    word=b"many",
    cut_at=30,
    tick_us=1,
    delays_ms=CONNECTION_MS,
    timeline=irregular,
    columns=_columns,
    times=seconds,
)
