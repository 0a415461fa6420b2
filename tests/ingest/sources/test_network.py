"""Zeek logs, nfdump's exports and captures through a whole ingest: one shape, whoever told of the flow."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable

import pytest

from lakehouse.settings import Settings
from tests.algorithms.packets import made
from tests.ingest.no_session import no_session
from tests.support.readings_lake import Lake

Preset = Callable[..., Lake]
T0 = 1_600_000_000
FLOW = ("event_us", "arrival_us", "src", "dst", "src_port", "dst_port", "proto", "src_bytes", "duration")
CONN = "ts uid id.orig_h id.orig_p id.resp_h id.resp_p proto duration orig_ip_bytes resp_ip_bytes orig_pkts resp_pkts"


@pytest.fixture
def preset(lakehouse_of: Callable[[str], Settings]) -> Preset:
    """Return a lakehouse of one stream that rests on a preset."""

    def make(name: str, more: str = "", path: str = "landing/*") -> Lake:
        text = f'home = "var"\n[streams.flows]\npreset = "{name}"\n{more}\n'
        settings = lakehouse_of(f'{text}[streams.flows.source]\npath = "{path}"\nsettle = 0\n')
        return Lake(no_session(settings), settings, "flows")

    return make


def tsv(*rows: str) -> str:
    head = "#separator \\x09\n#unset_field\t-\n#path\tconn\n#fields\t" + CONN.replace(" ", "\t")
    return "\n".join([head, *(row.replace(" ", "\t") for row in rows), "#close\t2020"]) + "\n"


def test_zeek_connections_have_one_shape_in_either_form(preset: Preset) -> None:
    rows = [
        f"{T0}.500000 C1 10.0.0.1 5353 224.0.0.251 53 udp 0.250000 120 0 2 0",
        f"{T0 + 1}.000000 C2 10.0.0.1 8 10.0.0.9 0 icmp - - - 1 0",
    ]
    lake = preset("zeek-conn")
    lake.land("conn.01.log", tsv(*rows))
    records = [dict(zip(CONN.split(), row.split(), strict=True)) for row in rows]
    numbers = {"ts": float, "id.orig_p": int, "id.resp_p": int, "duration": float, "orig_ip_bytes": int}
    for record in records:
        record["uid"] = f"J{record['uid']}"
        typed = {k: numbers.get(k, str)(v) for k, v in record.items() if v != "-"}
        lake.land(f"conn.{record['uid']}.log", json.dumps(typed) + "\n")

    counts = lake.ingest()

    assert (counts["accepted"], counts["quarantined"]) == (4, 0)
    first = (T0 * 10**6 + 500_000, T0 * 10**6 + 750_000, "10.0.0.1", "224.0.0.251", 5353, 53, "udp", 120)
    second = (T0 * 10**6 + 10**6, T0 * 10**6 + 10**6, "10.0.0.1", "10.0.0.9", None, None, "icmp", None)
    found = lake.rows("raw", *FLOW, "uid")
    assert [row[:8] for row in found] == [first, first, second, second]
    assert [str(row[8]) for row in found] == ["0.250000", "0.250000", "None", "None"]
    assert {row[9] for row in found} == {"C1", "JC1", "C2", "JC2"}


def test_a_line_of_zeek_that_is_neither_form_is_malformed(preset: Preset) -> None:
    lake = preset("zeek-conn")
    lake.land("a.log", '{"ts": 1600000000, "uid": "C1", "id.orig_h": "10.0.0.1"\n{"ts": 1600000000}x\n')

    lake.ingest()

    assert lake.rows("quarantine", "reason", "source_line") == [("malformed", 1), ("malformed", 2)]


def test_a_zeek_log_with_other_marks_is_refused_whole(preset: Preset) -> None:
    lake = preset("zeek-conn")
    lake.land("a.log", tsv().replace("#unset_field\t-", "#unset_field\tNONE"))

    lake.ingest()

    [(reason, detail)] = lake.rows("quarantine", "reason", "detail")
    assert reason == "unreadable_file" and "expected #unset_field -, as Zeek writes" in detail


OLD = """ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt,opkt,obyt,ra
2020-09-13 14:26:40,2020-09-13 14:26:43,3.000,10.0.0.1,10.0.0.2,443,10693,UDP,........,66,24,9,11214,0,0,10.9.9.9
2020-09-13 14:26:41,2020-09-13 14:26:41,0.000,10.0.0.1,10.0.0.2,0,8.0,ICMP,........,0,0,1,84,0,0,10.9.9.9
Summary
flows,bytes,packets,avg_bps,avg_pps,avg_bpp
2,11298,10,29904,3,1246
"""
NEW = """firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes,flows
2020-09-13 14:26:40.250,00:00:03.500,UDP,10.0.0.1,443,10.0.0.2,10693,9,11214,1
2020-09-13 14:26:41.000,1d 00:00:00.001,6,2001:db8::1,80,2001:db8::2,81,1,84,1
Summary: total flows: 2, total bytes: 11298
"""


def test_exports_of_either_nfdump_become_flows_in_utc(preset: Preset) -> None:
    lake = preset("nfdump", 'event_time.timezone = "Europe/Paris"')
    lake.land("1.csv", OLD)
    lake.land("2.csv", NEW)

    counts = lake.ingest()

    assert (counts["received"], counts["accepted"]) == (4, 4)
    second = 10**6
    found = [(*row[:8], str(row[8])) for row in lake.rows("raw", *FLOW)]
    at = T0 * second
    assert sorted(found) == sorted(
        [
            (at, at + 3 * second, "10.0.0.1", "10.0.0.2", 443, 10693, "udp", 11214, "3.000000"),
            (at + second, at + second, "10.0.0.1", "10.0.0.2", None, None, "icmp", 84, "0.000000"),
            (at + 250_000, at + 3_750_000, "10.0.0.1", "10.0.0.2", 443, 10693, "udp", 11214, "3.500000"),
            (
                at + second,
                at + 86_401 * second + 1000,
                "2001:db8::1",
                "2001:db8::2",
                80,
                81,
                "tcp",
                84,
                "86400.001000",
            ),
        ],
        key=lambda row: row,
    )


def test_an_export_without_a_header_is_refused_whole(preset: Preset) -> None:
    lake = preset("nfdump")
    lake.land("1.csv", "\n".join(OLD.splitlines()[1:3]) + "\n")

    lake.ingest()

    [(reason, detail)] = lake.rows("quarantine", "reason", "detail")
    assert reason == "unreadable_file" and "without -q" in detail


def test_packets_become_rows_and_a_cut_last_one_is_quarantined_with_its_bytes(preset: Preset) -> None:
    lake = preset("pcap")
    frame = made.ethernet(made.ipv4(body=made.tcp(40000, 443, 2)))
    lake.land("1.pcap", made.pcap([(T0, 7, frame), (T0, 8, frame), (T0 + 1, 0, frame)])[:-3])
    lake.land("2.pcap.gz", gzip.compress(made.pcap([(T0 + 2, 0, frame)])))

    counts = lake.ingest()

    assert (counts["received"], counts["accepted"], counts["quarantined"]) == (4, 3, 1)
    columns = ("event_us", "src", "dst", "src_port", "dst_port", "proto", "length", "captured", "tcp_flags")
    told = ("10.0.0.1", "10.0.0.2", 40000, 443, "tcp", len(frame) + 10, len(frame), 2)
    assert lake.rows("raw", *columns) == [(T0 * 10**6 + at, *told) for at in (7, 8, 2_000_000)]
    [(reason, line, record)] = lake.rows("quarantine", "reason", "source_line", "record")
    assert (reason, line) == ("truncated_file", 3) and bytes(record).endswith(frame[:-3])
