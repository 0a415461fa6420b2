"""CSV of nfdump: one name per field over its versions, and the end of its records (no pyspark).

nfdump 1.6 and early 1.7 write short names and no milliseconds, from 1.7.5 on long names, `csv-fast` numbers. All of
them end with a summary, which is no record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# Ours by theirs; fields that are not here keep the name they have.
_NAMES = {
    **{"ts": "first", "te": "last", "tr": "received", "td": "duration", "sa": "src", "da": "dst"},
    **{"sp": "src_port", "dp": "dst_port", "pr": "proto", "flg": "tcp_flags"},
    **{"ipkt": "src_packets", "ibyt": "src_bytes", "opkt": "dst_packets", "obyt": "dst_bytes"},
    **{"firstSeen": "first", "lastSeen": "last", "srcAddr": "src", "dstAddr": "dst"},
    **{"srcPort": "src_port", "dstPort": "dst_port", "flags": "tcp_flags"},
    **{"packets": "src_packets", "bytes": "src_bytes", "inPackets": "src_packets", "inBytes": "src_bytes"},
    **{"outPackets": "dst_packets", "outBytes": "dst_bytes"},
}
_NEEDED = {"first", "src", "dst"}
CLOCK = re.compile(r"(?:([0-9]{1,9})d )?([0-9]{1,9}):([0-9]{2}):([0-9]{2}(?:\.[0-9]{1,9})?)")
# A summary is its title and two lines of CSV; what else nfdump tells of a run is a line each.
_SUMMARY, _SUMMARY_LINES = b"Summary", 3
_REMARKS = (b"Summary:", b"No matched", b"Time window", b"Total flows", b"Sys: ")


class NoHeader(ValueError):
    """A file of nfdump without the line that names its fields."""


def field_names(header: Iterable[str]) -> tuple[str, ...]:
    """Return the fields of a header by our names.

    Raises:
        NoHeader: when it names no start, source or destination: it is a row, or counts of something else than flows.
    """
    names = [name.strip() for name in header]
    found = tuple(_NAMES.get(name, name) for name in names)
    if not set(found) >= _NEEDED:
        expected = (
            "the header of `nfdump -o csv` over flows (ts,te,td,sa,... or firstSeen,duration,...), without -q"
        )
        raise NoHeader(f"expected {expected}; found {','.join(names)[:200]!r}")
    return found


def as_seconds(duration: str) -> str:
    """Return seconds as text, of ``[1d ]02:03:04.005`` as nfdump writes them for people; other texts as they are.

    >>> as_seconds("1d 00:00:03.500"), as_seconds("3.5")
    ('86403.500', '3.5')
    """
    found = CLOCK.fullmatch(duration)
    if not found:
        return duration
    days, hours, minutes = (int(part or 0) for part in found.groups()[:3])
    return str((days * 24 + hours) * 3600 + minutes * 60 + Decimal(found[4]))


def without_remarks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass on numbered lines, but for what nfdump says about all of them together."""
    until = 0
    for batch in batches:
        numbers = batch.column(0).to_numpy()
        keep = numbers > until
        for row in np.flatnonzero(_are(batch.column(1), _SUMMARY)):
            until = int(numbers[row]) + _SUMMARY_LINES - 1
            keep &= (numbers < numbers[row]) | (numbers > until)
        for remark in _REMARKS:
            keep &= ~_are(pc.binary_slice(batch.column(1), 0, len(remark)), remark)
        yield batch.filter(pa.array(keep))


def _are(lines: pa.Array, wanted: bytes) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.equal(lines, pa.scalar(wanted, pa.binary())).to_numpy(
        zero_copy_only=False
    )
    return found
