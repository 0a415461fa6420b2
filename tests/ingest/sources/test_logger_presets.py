"""Files of loggers and flow exporters, as these write them, by their presets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jobs import ingest
from lakehouse.settings import Settings
from tests.ingest.test_logger_files import Make
from tests.support.table_rows import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVE = """\
{"timestamp":"2020-02-29T00:00:12.734324+0000","flow_id":914989792375924,"event_type":"dns","dns":{"id":30266}}
{"timestamp":"2020-02-29T00:00:14.000538+0000","flow_id":1357371404246463,"event_type":"flow",\
"src_ip":"192.168.10.154","src_port":46289,"dest_ip":"10.18.255.254","dest_port":53,"proto":"UDP","app_proto":"dns",\
"flow":{"pkts_toserver":1,"pkts_toclient":1,"bytes_toserver":87,"bytes_toclient":142,\
"start":"2020-02-28T23:55:12.974271+0000","end":"2020-02-28T23:55:13.085657+0000","age":1,"state":"established"}}
{"timestamp":"2026-01-15T10:30:45.123456+0000","flow_id":1234567890123456,"event_type":"alert",\
"src_ip":"10.0.0.1","src_port":54321,"dest_ip":"10.0.0.2","dest_port":443,"proto":"TCP",\
"alert":{"action":"allowed","gid":1,"signature_id":2013028,"signature":"ET POLICY curl","severity":2}}
{"timestamp":"2026-01-15T10:30:50.000001+0000","event_type":"stats","stats":{"uptime":8,"decoder":{"pkts":75}}}
"""
ARGUS = """\
StartTime,Dur,Proto,SrcAddr,Sport,Dir,DstAddr,Dport,State,sTos,dTos,SrcPkts,DstPkts,SrcBytes,DstBytes
2011/08/10 09:46:59.607825,1.026539,tcp,94.44.127.113,1577,   ->,147.32.84.59,6881,S_RA,0,0,3,1,156,120
2011/08/10 09:47:00.634364,1.009595,icmp,94.44.127.113,0x0303,  <->,147.32.84.59,0x0d1b,URP,0,0,1,1,60,74
"""
TOA5 = """\
"TOA5","6843","CR3000","6843","CR3000.Std.22","CPU:CA_Flux__GOOD.CR3","24006","ts_Above"
"TIMESTAMP","RECORD","Ux","Ts"
"TS","RN","m/s","C"
"","","Smp","Smp"
"2012-06-07 12:45:00.05",111850400,2.00875,27.65771
"2012-06-07 12:45:00.1",111850401,2.0785,"NAN"
"""
RDB = """\
# Data provided for site 354057080362545
#         90643       00045     Precipitation, total, inches
#
agency_cd\tsite_no\tdatetime\ttz_cd\t90643_00045\t90643_00045_cd
5s\t15s\t20d\t6s\t14n\t10s
USGS\t354057080362545\t2010-10-01 00:00\tEDT\t0.01\tA
USGS\t354057080362545\t2010-10-01 00:05\tEDT\tEqp\tA
"""
FLOW = ("event_us", "src", "dst", "src_port", "dst_port", "proto", "src_bytes", "dst_packets")


def surfrad_line(hour: int, temp: str) -> str:
    pairs = [f"{value} 0" for value in ("-1.0", "-9999.9", "0.1", "0.2", *("9.0",) * 11, temp, "81.2", "3.4")]
    return f" 2026  32  2  1 {hour:2d}  0  6.000 101.02  {'  '.join(pairs)}  280.1 0 990.2 0"


SURFRAD = f" Bondville\n   40.05  -88.37  213 m version 1\n{surfrad_line(6, '-3.5')}\n{surfrad_line(7, '-9999.9')}\n"
Rows = list[tuple[Any, ...]]
CASES: dict[str, tuple[str, str, tuple[str, ...], Rows]] = {
    "suricata-flow": (
        "eve.json",
        EVE,
        FLOW,
        [(1_582_934_112_974_271, "192.168.10.154", "10.18.255.254", 46289, 53, "udp", 87, 1)],
    ),
    "suricata-alert": (
        "eve.json",
        EVE,
        ("event_us", "signature", "severity", "src"),
        [(1_768_473_045_123_456, "ET POLICY curl", 2, "10.0.0.1")],
    ),
    "argus": (
        "flows.csv",
        ARGUS,
        FLOW,
        [
            (1_312_969_619_607_825, "94.44.127.113", "147.32.84.59", 1577, 6881, "tcp", 156, 1),
            (1_312_969_620_634_364, "94.44.127.113", "147.32.84.59", None, None, "icmp", 60, 1),
        ],
    ),
    "toa5": (
        "ts_Above.dat",
        TOA5,
        ("event_us", "number", "temp"),
        [(1_339_073_100_050_000, 111850400, 27.65771), (1_339_073_100_100_000, 111850401, None)],
    ),
    "surfrad": (
        "bon26032.dat",
        SURFRAD,
        ("event_us", "station", "solar_down", "solar_up", "direct", "temp", "humidity", "wind"),
        [
            (1_769_925_600_000_000, "bon", -1.0, None, 0.1, -3.5, 81.2, 3.4),
            (1_769_929_200_000_000, "bon", -1.0, None, 0.1, None, 81.2, 3.4),
        ],
    ),
    "usgs-rdb": (
        "gauge.txt",
        RDB,
        ("event_us", "site", "rain"),
        [(1_285_905_600_000_000, "354057080362545", 0.01), (1_285_905_900_000_000, "354057080362545", None)],
    ),
}
OWN = {
    "toa5": 'measures = ["temp"]\ncolumns.temp = { path = "Ts", type = "double" }',
    "usgs-rdb": 'measures = ["rain"]\ncolumns.rain = { path = "90643_00045", type = "double" }\n'
    'event_time.timezone = "America/New_York"',
}


@pytest.mark.parametrize("preset", CASES)
def test_files_are_read_as_they_are_written(lakehouse_of: Make, session: SparkSession, preset: str) -> None:
    file, content, names, expected = CASES[preset]
    text = f'home = "var"\n[streams.s]\npreset = "{preset}"\n{OWN.get(preset, "")}\n'
    settings: Settings = lakehouse_of(text + '[streams.s.source]\npath = "landing/*"\nsettle = 0\n')
    folder = settings.home.parent / "landing"
    folder.mkdir()
    (folder / file).write_text(content)

    ingest.run(settings, session, "s")

    assert table_rows(settings.layout.quarantine("s"), "reason", "detail") == []
    assert sorted(table_rows(settings.layout.raw("s"), *names)) == expected
