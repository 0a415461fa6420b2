"""CSV of nfdump: one name per field over its versions, and the end of its records (no pyspark).

nfdump 1.6 and early 1.7 write short names and no milliseconds, from 1.7.5 on long names, `csv-fast` numbers. All of
them end with a summary, which is no record.
"""

from collections.abc import Iterable, Iterator

import numpy as np
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
_CLOCK = (
    r"^(?:(?P<d>[0-9]{1,9})d )?(?P<h>[0-9]{1,9}):(?P<m>[0-9]{2}):(?P<s>[0-9]{2})(?P<part>(?:\.[0-9]{1,9})?)$"
)
# A summary is its title and two lines of CSV; what else nfdump tells of a run is a line each.
_SUMMARY, _SUMMARY_LINES = b"Summary", 3
_REMARKS = (b"Summary:", b"No matched", b"Time window", b"Total flows", b"Sys: ")


class NoHeader(ValueError):
    """A file of nfdump without the line that names its fields."""


def field_names(header: Iterable[str]) -> tuple[str, ...]:
    """Return the fields of a header by our names.

    Raises NoHeader when it names no start, source or destination: it is a row, or counts of something else than
    flows.
    """
    names = [name.strip() for name in header]
    found = tuple(_NAMES.get(name, name) for name in names)
    if not set(found) >= _NEEDED:
        expected = (
            "the header of `nfdump -o csv` over flows (ts,te,td,sa,... or firstSeen,duration,...), without -q"
        )
        raise NoHeader(f"expected {expected}; found {','.join(names)[:200]!r}")
    return found


def as_seconds(durations: pa.Array) -> pa.Array:
    """Return seconds as texts, of ``[1d ]02:03:04.005`` as nfdump writes them for people; other texts as they are.

    >>> as_seconds(pa.array(["1d 00:00:03.500", "3.5"])).to_pylist()
    ['86403.500', '3.5']
    """
    clocks = pc.extract_regex(durations, _CLOCK)
    days, hours, minutes, seconds = (_whole(pc.struct_field(clocks, name)) for name in "dhms")
    hours = pc.add(pc.multiply(days, 24), hours)
    whole = pc.add(pc.multiply(pc.add(pc.multiply(hours, 60), minutes), 60), seconds)
    texts = pc.binary_join_element_wise(whole.cast(pa.string()), pc.struct_field(clocks, "part"), "")
    return pc.coalesce(texts, durations)


def _whole(digits: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(digits, ""), "0", digits).cast(pa.int64())


def without_remarks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass on numbered lines, but for what nfdump says about all of them together."""
    until = 0
    for batch in batches:
        numbers = batch.column(0).to_numpy()
        keep = numbers > until
        lines = batch.column(1)
        for row in np.flatnonzero(pc.equal(lines, pa.scalar(_SUMMARY, pa.binary()))):
            until = int(numbers[row]) + _SUMMARY_LINES - 1
            keep &= (numbers < numbers[row]) | (numbers > until)
        for remark in _REMARKS:
            keep &= ~pc.starts_with(lines, remark).to_numpy(zero_copy_only=False)
        yield batch.filter(pa.array(keep))
