from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from lakehouse.ingest.sources.nfdump import NoHeader, field_names, without_remarks

OLD = "ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt,opkt,obyt,in,out,sas,das"
NEW = "firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes,flows"
FAST = "cnt,af,firstSeen,lastSeen,proto,srcAddr,srcPort,dstAddr,dstPort,srcAS,dstAS,input,flags,packets,bytes"
SUMMARY = [b"Summary", b"flows,bytes,packets,avg_bps,avg_pps,avg_bpp", b"2,11214,9,29904,3,1246"]


@pytest.mark.parametrize("header", [OLD, NEW, FAST])
def test_every_version_names_the_same_fields_alike(header: str) -> None:
    found = set(field_names(header.split(",")))

    assert {"first", "src", "dst", "src_port", "dst_port", "proto", "src_packets", "src_bytes"} <= found


def test_fields_that_the_shape_lacks_keep_their_names() -> None:
    assert field_names(OLD.split(","))[-2:] == ("sas", "das")


@pytest.mark.parametrize(
    "line",
    [
        "2024-06-28 23:17:41,2024-06-28 23:17:44,3.000,10.0.0.1,10.0.0.2,443,10693,UDP",
        "ts,te,td,pr,val,fl,flP,pkt,pktP,byt,bytP,pps,bps,bpp",
        "",
    ],
)
def test_a_file_without_a_header_of_flows_is_refused_with_what_is_there(line: str) -> None:
    with pytest.raises(NoHeader, match="without -q") as refused:
        field_names(line.split(","))

    assert line[:50] in str(refused.value)


def batches(lines: list[bytes], size: int) -> Iterator[pa.RecordBatch]:
    for low in range(0, len(lines), size):
        part = lines[low : low + size]
        numbers = pa.array(np.arange(low + 2, low + 2 + len(part)))
        columns = [numbers, pa.array(part, pa.binary()), pa.nulls(len(part), pa.string())]
        yield pa.record_batch(columns, ["source_line", "record", "fault"])


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_summary_is_no_record_wherever_it_stands(size: int) -> None:
    """Exports that were put one behind the other have theirs in the middle."""
    lines = [b"a", *SUMMARY, b"b", b"Summary of nothing", b"No matched flows", *SUMMARY]

    kept = [row for batch in without_remarks(batches(lines, size)) for row in batch.column(1).to_pylist()]

    assert kept == [b"a", b"b", b"Summary of nothing"]
