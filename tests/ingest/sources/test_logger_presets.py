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
INFLUX = r"""# DML
cpu,cpu=cpu0,host=rack\ 4 usage_idle=98.5,usage_user=1i,state="ok, \"fine\"" 1769904000000000000
cpu,host=b usage_idle=97 1769904001000000000
mem,host=b used=12i 1769904001000000000
"""
PROMETHEUS = """\
# HELP http_requests_total The total number of HTTP requests.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200"} 1027 1395066363000
http_requests_total{method="post",code="400",path="C:\\\\DIR \\"x\\""}    3 1395066363000

rpc_duration_seconds_sum 1.7560473e+07 1395066364000
rpc_errors{} NaN 1395066364000
# EOF
"""
OTLP = """\
{"resourceMetrics":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}},\
{"key":"host.id","value":{"intValue":"7"}}]},"scopeMetrics":[{"scope":{"name":"otelcol","version":"1"},"metrics":[\
{"name":"queue.length","unit":"1","gauge":{"dataPoints":[{"timeUnixNano":"1769904000000000001","asInt":"5",\
"attributes":[{"key":"queue","value":{"stringValue":"a"}}]},{"timeUnixNano":"1769904001000000000","asDouble":0.25}]}},\
{"name":"requests","sum":{"aggregationTemporality":2,"isMonotonic":true,"dataPoints":[\
{"startTimeUnixNano":"1769900000000000000","timeUnixNano":"1769904001000000000","asInt":"120"}]}},\
{"name":"latency","unit":"ms","histogram":{"aggregationTemporality":2,"dataPoints":[{"count":"3","sum":12.5,\
"bucketCounts":["1","2"],"explicitBounds":[5],"timeUnixNano":"1769904001000000000"}]}}]}]}]}
"""
VICTORIA = """\
{"metric":{"__name__":"up","job":"node_exporter","instance":"localhost:9100"},"values":[0,null,1],\
"timestamps":[1769904000000,1769904001000,1769904002000]}
"""
NMEA = """\
$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47
$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230326,003.1,W*63
$GPGSV,2,1,08,01,40,083,46,02,17,308,41,12,07,344,39,14,22,228,45*75
$GNRMC,123520.50,A,3751.65000,S,14507.36000,W,,,230326,,,A*4A
$GPRMC,,V,,,,,,,,,,N*53
"""
HOBO = """\
\ufeff"Plot Title: Pond 7"
"#","Date Time, GMT-06:00","Temp, °C (LGR S/N: 20116360, SEN S/N: 20116360)","Host Connected","End Of File"
1,05/24/18 12:00:00 PM,22.561,,
2,05/24/18 12:15:00 AM,-1.5,,
3,05/24/18 12:20:10 PM,,Logged,
"""
WINCC = """\
"VarName";"TimeString";"VarValue";"Validity";"Time_ms"
"Pressure";"01.02.2026 10:00:00";12,5;1;46054416666,6667
"Level";"01.02.2026 10:00:05";-3;0;46054416724,537
"$RT_OFF$";"01.02.2026 10:01:00";0;2;46054417361,1111
"""
WANESY = """\
{"id":"5d0a1c2b0cf2f7d5e8a1b2c3","endDevice":{"devEui":"70B3D57ED0000001","devAddr":"26011F4C","cluster":{"id":52}},\
"fPort":2,"fCntDown":0,"fCntUp":123,"adr":true,"confirmed":false,"encrypted":false,"payload":"0167010e",\
"encodingType":"HEXA","recvTime":1769904000123,"gwRecvTime":1769904000050,"classB":false,"delayed":false,\
"ulFrequency":868.1,"modulation":"LORA","dataRate":"SF7BW125","codingRate":"4/5","gwCnt":2,"gwInfo":[\
{"gwEui":"7276FF000B031E9C","rfRegion":"EU868","rssi":-49,"snr":9.5,"channel":1,"radioId":0},\
{"gwEui":"7276FF000B031EA0","rfRegion":"EU868","rssi":-101,"snr":-2,"channel":1,"radioId":0}]}
"""
V2 = """\
{"subscriptionId":"57458eb60962ef754e7c0998","data":[{"id":"Room1","type":"Room","temperature":{"type":"Number",\
"value":23.5,"metadata":{}},"TimeInstant":{"type":"DateTime","value":"2026-02-01T00:00:00.00Z","metadata":{}}},\
{"id":"Room2","type":"Room","temperature":{"type":"Number","value":21,"metadata":{}},\
"TimeInstant":{"type":"DateTime","value":"2026-02-01T00:00:01.50Z"}}]}
"""
LD = """\
{"id":"urn:ngsi-ld:Notification:5fd0fa684eb81930c97005f3","type":"Notification","subscriptionId":"urn:ngsi-ld:Sub:1",\
"notifiedAt":"2026-02-01T00:00:02.000Z","data":[{"id":"urn:ngsi-ld:Device:temperature001","type":"TemperatureSensor",\
"temperature":{"type":"Property","value":25,"unitCode":"CEL","observedAt":"2026-02-01T00:00:01.000Z"}}]}
"""
GPX = """\
<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<gpx version="1.1" creator="GPSLogger 132 - http://gpslogger.mendhak.com/" xmlns="http://www.topografix.com/GPX/1/1">
<metadata><time>2026-02-01T00:00:00.000Z</time></metadata><trk><name>Walk</name><trkseg>
<trkpt lat="48.1173" lon="-11.51667"><ele>545.4</ele><time>2026-02-01T00:00:00.000Z</time><speed>1.2</speed>\
<src>gps</src><sat>8</sat></trkpt>
<trkpt lat="48.1174" lon="-11.51667"><time>2026-02-01T00:00:01.500Z</time></trkpt></trkseg></trk></gpx>
"""
READING = """<espi:IntervalReading><espi:cost>{cost}</espi:cost><espi:timePeriod>\
<espi:duration>900</espi:duration><espi:start>{start}</espi:start></espi:timePeriod>\
<espi:value>{value}</espi:value></espi:IntervalReading>"""
ESPI = (
    """\
<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xmlns:espi="http://naesb.org/espi"><title>Green Button</title>
<entry><id>urn:uuid:99</id><link rel="self" href="/ReadingType/07"/><content><espi:ReadingType>\
<espi:powerOfTenMultiplier>0</espi:powerOfTenMultiplier><espi:uom>72</espi:uom></espi:ReadingType></content></entry>
<entry><id>urn:uuid:FE</id><link rel="self" href="/MeterReading/01/IntervalBlock/0173"/>
<link rel="up" href="/MeterReading/01/IntervalBlock"/><title/><content><espi:IntervalBlock><espi:interval>
<espi:duration>86400</espi:duration><espi:start>1769904000</espi:start></espi:interval>
"""
    + READING.format(cost=974, start=1_769_904_000, value=282)
    + READING.format(cost=965, start=1_769_904_900, value=323)
    + "</espi:IntervalBlock></content><published>2026-02-02T00:00:00Z</published></entry></feed>"
)
Rows = list[tuple[Any, ...]]
FIRST_US = 1_769_904_000_000_000
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
    "influx": (
        "a.lp",
        INFLUX,
        ("event_us", "measurement", "host", "idle", "state"),
        [
            (FIRST_US, "cpu", "rack 4", 98.5, 'ok, "fine"'),
            (FIRST_US + 1_000_000, "cpu", "b", 97.0, None),
        ],
    ),
    "prometheus": (
        "a.prom",
        PROMETHEUS,
        ("event_us", "metric", "value", "code", "path"),
        [
            (1_395_066_363_000_000, "http_requests_total", 3.0, "400", 'C:\\DIR "x"'),
            (1_395_066_363_000_000, "http_requests_total", 1027.0, "200", None),
            (1_395_066_364_000_000, "rpc_duration_seconds_sum", 1.7560473e07, None, None),
            (1_395_066_364_000_000, "rpc_errors", None, None, None),
        ],
    ),
    "victoria-metrics": (
        "export.jsonl",
        VICTORIA,
        ("event_us", "metric", "value", "job"),
        [
            (FIRST_US, "up", 0.0, "node_exporter"),
            (FIRST_US + 1_000_000, "up", None, "node_exporter"),
            (FIRST_US + 2_000_000, "up", 1.0, "node_exporter"),
        ],
    ),
    "otlp": (
        "metrics.json",
        OTLP,
        ("event_us", "service", "metric", "unit", "kind", "value", "queue"),
        [
            (FIRST_US, "shop", "queue.length", "1", "gauge", 5.0, "a"),
            (FIRST_US + 1_000_000, "shop", "latency", "ms", "histogram", 12.5, None),
            (FIRST_US + 1_000_000, "shop", "queue.length", "1", "gauge", 0.25, None),
            (FIRST_US + 1_000_000, "shop", "requests", None, "sum", 120.0, None),
        ],
    ),
    "nmea": (
        "track.nmea",
        NMEA,
        ("event_us", "talker", "lat", "lon", "speed"),
        [
            (1_774_269_319_000_000, "GP", 48.1173, 11.516666667, 22.4),
            (1_774_269_320_500_000, "GN", -37.860833333, -145.122666667, None),
        ],
    ),
    "hobo": (
        "pond.csv",
        HOBO,
        ("event_us", "logger", "title", "temp"),
        [
            (1_527_142_500_000_000, "20116360", "Pond 7", -1.5),
            (1_527_184_800_000_000, "20116360", "Pond 7", 22.561),
            (1_527_186_010_000_000, "20116360", "Pond 7", None),
        ],
    ),
    "wincc": (
        "tags.csv",
        WINCC,
        ("event_us", "tag", "value", "validity"),
        [
            (1_769_940_000_000_000, "Pressure", 12.5, 1),
            (1_769_940_005_000_000, "Level", -3.0, 0),
        ],
    ),
    "wanesy": (
        "uplinks.ndjson",
        WANESY,
        ("event_us", "device", "gateway", "frame", "rssi", "snr"),
        [
            (FIRST_US + 123_000, "70B3D57ED0000001", "7276FF000B031E9C", 123, -49.0, 9.5),
            (FIRST_US + 123_000, "70B3D57ED0000001", "7276FF000B031EA0", 123, -101.0, -2.0),
        ],
    ),
    "fiware-v2": (
        "room.ndjson",
        V2,
        ("event_us", "entity", "temp"),
        [(FIRST_US, "Room1", 23.5), (FIRST_US + 1_500_000, "Room2", 21.0)],
    ),
    "fiware-ld": (
        "device.ndjson",
        LD,
        ("event_us", "entity", "temp"),
        [(FIRST_US + 2_000_000, "urn:ngsi-ld:Device:temperature001", 25.0)],
    ),
    "gpx": (
        "walk.gpx",
        GPX,
        ("event_us", "track", "lat", "lon", "ele"),
        [
            (FIRST_US, "Walk", 48.1173, -11.51667, 545.4),
            (FIRST_US + 1_500_000, "Walk", 48.1174, -11.51667, None),
        ],
    ),
    "green-button": (
        "meter.xml",
        ESPI,
        ("event_us", "reading", "duration", "value", "cost"),
        [
            (FIRST_US, "/MeterReading/01/IntervalBlock", 900, 282, 974),
            (FIRST_US + 900_000_000, "/MeterReading/01/IntervalBlock", 900, 323, 965),
        ],
    ),
    "usgs-rdb": (
        "gauge.txt",
        RDB,
        ("event_us", "site", "rain"),
        [(1_285_905_600_000_000, "354057080362545", 0.01), (1_285_905_900_000_000, "354057080362545", None)],
    ),
}
FIWARE = 'measures = ["temp"]\ncolumns.temp = { path = "data.temperature.value", type = "double" }'
OWN = {
    "influx": 'measures = ["idle"]\nkeys = ["host"]\ncolumns.host = { path = "tags.host" }\n'
    'columns.idle = { path = "fields.usage_idle", type = "double" }\n'
    'columns.state = { path = "fields.state", optional = true }\nsource.where = "measurement = \'cpu\'"',
    "prometheus": 'columns.code = { path = "labels.code" }\ncolumns.path = { path = "labels.path" }',
    "victoria-metrics": 'columns.job = { path = "metric.job" }',
    "otlp": 'columns.queue = { path = "points.attributes.queue" }',
    "hobo": 'measures = ["temp"]\ncolumns.temp = { position = 2, type = "double" }',
    "fiware-v2": FIWARE,
    "fiware-ld": FIWARE,
    "toa5": 'measures = ["temp"]\ncolumns.temp = { path = "Ts", type = "double" }',
    "usgs-rdb": 'measures = ["rain"]\ncolumns.rain = { path = "90643_00045", type = "double" }\n'
    'event_time.timezone = "America/New_York"',
}


@pytest.mark.parametrize("preset", CASES)
def test_files_are_read_as_they_are_written(lakehouse_of: Make, session: SparkSession, preset: str) -> None:
    file, content, names, expected = CASES[preset]
    text = f'home = "var"\n[streams.s]\npreset = "{preset}"\n{OWN.get(preset, "")}\n'
    settings: Settings = lakehouse_of(text + 'source.path = "landing/*"\nsource.settle = 0\n')
    folder = settings.home.parent / "landing"
    folder.mkdir()
    (folder / file).write_text(content)

    ingest.run(settings, session, "s")

    assert table_rows(settings.layout.quarantine("s"), "reason", "detail") == []
    assert sorted(table_rows(settings.layout.raw("s"), *names)) == expected
