"""Wrong streams: the change that makes a good one wrong, and the problem that must be told: key, found, expected."""

from __future__ import annotations

from typing import Any

GOOD: dict[str, Any] = {
    "event_time": {"column": "ts", "unit": "s"},
    "arrival_time": {"column": "received", "unit": "ms"},
    "clock_bounds": {"behind": "30d", "ahead": "1h"},
    "identity": ["device", "ts"],
    "keys": ["device", "room"],
    "measures": ["temp", "humidity"],
    "groupings": [["device"], ["room"], []],
    "levels": ["1s for 1h", "1m for 2d", "1h for 1y", "1d forever"],
    "event_time_bounds": ["2000-01-01", "2100-01-01"],
    "latest": "1d",
    "source": {"path": "landing/*.ndjson", "format": "ndjson"},
    "columns": {"device": "string", "room": "string", "temp": "double", "humidity": "double"},
}
_CSV = {"path": "*.csv", "format": "csv"}
_TOPIC = {"kind": "kafka", "servers": ["x:9092"], "topics": ["t"], "format": "ndjson"}
_STORE = {"path": "s3://bucket/in/*", "format": "ndjson"}
_AVRO = _TOPIC | {"format": "avro"}
_MESSAGE = _TOPIC | {"format": "csv", "fields": ["ts", "device", "temp", "received"]}
# Each seen by looking at one value alone.
ALONE: list[tuple[dict[str, Any], tuple[str, str, str]]] = [
    (
        {"event_time": {"column": "ts", "unit": "min"}},
        ("event_time.unit", "'min'", "'s', 'ms', 'us', 'ns', 'iso' or 'excel'"),
    ),
    ({"event_time": {"unit": "s"}}, ("event_time.column", "nothing", "a value")),
    ({"event_time": "ts"}, ("event_time", "'ts'", "a table")),
    (
        {"event_time": {"column": "ts", "unit": "iso", "timezone": "Mars"}},
        (
            "event_time.timezone",
            "'Mars'",
            'a time zone name such as "Europe/Paris", or an offset such as "+05:30"',
        ),
    ),
    (
        {"event_time": {"column": "ts", "unit": "iso", "timezone": "+24:00"}},
        ("event_time.timezone", "'+24:00'", 'or an offset such as "+05:30"'),
    ),
    ({"levels": []}, ("levels", "[]", "at least one level")),
    ({"levels": ["1m for"]}, ("levels.0", "'1m for'", '"WIDTH for KEEP" or "WIDTH forever"')),
    ({"levels": ["1m for 2d", "1 day forever"]}, ("levels.1", "'1 day forever'", '"WIDTH for KEEP"')),
    ({"levels": "1d forever"}, ("levels", "'1d forever'", "a list")),
    ({"latest": 3}, ("latest", "3", "whole numbers with units")),
    ({"duplicates_within": "0s"}, ("duplicates_within", "'0s'", "whole numbers with units")),
    ({"keep_raw": 90}, ("keep_raw", "90", "whole numbers with units")),
    ({"duplicates_within": "99999999y"}, ("duplicates_within", "'99999999y'", "at most 29000y")),
    ({"clock_bounds": {"behind": "x"}}, ("clock_bounds.behind", "'x'", "whole numbers with units")),
    (
        {"event_time_bounds": ["2000-13-01", "2100-01-01"]},
        ("event_time_bounds.0", "'2000-13-01'", "an ISO date or time"),
    ),
    ({"event_time_bounds": [0, "2100-01-01"]}, ("event_time_bounds.0", "0", "an ISO date or time")),
    ({"event_time_bounds": ["2000-01-01"]}, ("event_time_bounds.1", "nothing", "a value")),
    ({"keys": "device"}, ("keys", "'device'", "a list")),
    ({"keyes": ["device"]}, ("keyes", "an unknown key", "(did you mean keys?)")),
    ({"columns": {"co": "number"}}, ("columns.co.type", "'number'", "'string', 'int', 'double'")),
    ({"columns": {"co": {"type": "int", "pos": 1}}}, ("columns.co.pos", "an unknown key", "position")),
    ({"columns": {"co": {"type": "decimal"}}}, ("columns.co", "{'type': 'decimal'}", "needs decimals")),
    ({"columns": 3}, ("columns", "3", "a table")),
    ({"revisions": "last"}, ("revisions", "'last'", '"newest", or { newest_by = "COLUMN" }')),
    ({"source": {"path": "", "format": "ndjson"}}, ("source.path", "''", "at least 1 character")),
    (
        {"source": {"path": "x", "format": "yaml"}},
        ("source.format", "'yaml'", "'csv', 'ndjson', 'json', 'xml', 'zeek', 'parquet', 'avro'"),
    ),
    (
        {"source": _CSV | {"kind": "kafkaa"}},
        ("source.kind", "'kafkaa'", "'files', 'kafka', 'mqtt' or 'host'"),
    ),
    ({"source": _TOPIC | {"servers": "x"}}, ("source.servers", "'x'", "a list")),
    ({"source": _TOPIC | {"topics": [""]}}, ("source.topics.0", "''", "at least 1 character")),
    ({"source": _TOPIC | {"start": "now"}}, ("source.start", "'now'", '"earliest", "latest" or an ISO time')),
    ({"source": _TOPIC | {"batch_rows": 0}}, ("source.batch_rows", "0", "greater than or equal to 1")),
    ({"source": _TOPIC | {"options": {"a": 5}}}, ("source.options.a", "int", "a string")),
    ({"source": _TOPIC | {"options": {"a": {"b": "c"}}}}, ("source.options.a", "dict", "a string")),
    ({"source": _CSV | {"separator": "::"}}, ("source.separator", "'::'", 'one character, or "whitespace"')),
    ({"source": _CSV | {"settle": "x"}}, ("source.settle", "'x'", '"4h48m", or 0')),
    ({"source": _CSV | {"batch_bytes": 0}}, ("source.batch_bytes", "0", "greater than or equal to 1")),
]
# Each needs more than one value to be seen.
TOGETHER: list[tuple[dict[str, Any], tuple[str, str, str]]] = [
    ({"levels": ["1m for 1h", "1d forever"]}, ("levels, level 1", "keep 1h", "at least 1d")),
    ({"levels": ["1d for 9d", "1m forever"]}, ("levels, level 2", "width 1m", "wider than level 1, 1d")),
    ({"levels": ["2s for 1h", "5s forever"]}, ("levels, level 2", "width 5s", "a multiple of level 1, 2s")),
    ({"levels": ["1s forever", "1m forever"]}, ("levels, level 1", "keep forever", "a limit")),
    ({"groupings": [["devise"]]}, ("groupings", "'devise'", "(did you mean device?)")),
    ({"groupings": []}, ("groupings", "[]", "at least one grouping")),
    ({"groupings": [["device", "room"], ["room", "device"]]}, ("groupings", "'room'", "each grouping once")),
    ({"groupings": [["device", "device"]]}, ("groupings.0", "'device' 2 times", "each name once")),
    ({"keys": ["device", "device", "room"]}, ("keys", "'device' 2 times", "each name once")),
    ({"measures": ["temp", "temp"]}, ("measures", "'temp' 2 times", "each name once")),
    ({"measures": ["temp", "device"]}, ("measures", "'device' of type string", "an int, double or decimal")),
    ({"keys": ["device", "room", "temp"]}, ("keys", "'temp' of type double", "a string, int, boolean")),
    ({"keys": ["device", "room", "temp"]}, ("keys", "'temp'", "a column that is not also a measure")),
    ({"sums": ["tmp"]}, ("sums", "'tmp'", "(did you mean temp?)")),
    (
        {"counters": ["temp"], "groupings": [["device", "room"]], "sums": ["temp"]},
        ("sums", "'temp', a counter", "of a counter ask the increase"),
    ),
    ({"measures": ["Temp"]}, ("columns.Temp", "'Temp'", 'declare it as NAME = { path = "Temp" }')),
    ({"measures": ["batch"]}, ("columns.batch", "'batch'", "another name")),
    ({"measures": ["temp__n"]}, ("columns.temp__n", "'temp__n'", "another name")),
    (
        {"revisions": "newest", "identity": ["device"]},
        ("revisions", "identity = ['device']", "an identity of columns that hold the event time"),
    ),
    ({"revisions": "newest", "identity": ["*"]}, ("revisions", "['*']", "columns that hold the event time")),
    ({"revisions": {"newest_by": "updated"}}, ("revisions.newest_by", "'updated'", "one of device")),
    ({"identity": ["*", "ts"]}, ("identity", "['*', 'ts']", '["*"] alone')),
    (
        {"event_time_bounds": ["2100-01-01", "2000-01-01"]},
        ("event_time_bounds", "us", "the earlier time first"),
    ),
    ({"arrival_time": None}, ("clock_bounds", "no arrival_time", "arrival_time")),
    (
        {"event_time": {"column": "ts", "unit": "s", "timezone": "Europe/Paris"}},
        ("event_time.timezone", "'Europe/Paris' with unit 's'", 'only "iso" has one'),
    ),
    ({"source": {"path": "x", "format": "xml"}}, ("source.record_path", "nothing", "gpx.trk.trkseg.trkpt")),
    (
        {"source": _CSV | {"constants": {"a": "(b)"}, "format": "ndjson"}},
        ("source.constants", "ndjson", '"csv"'),
    ),
    ({"source": _CSV | {"explode": "items"}}, ("source.explode", "format 'csv'", 'format "ndjson"')),
    (
        {
            "source": {
                "path": "x",
                "format": "ndjson",
                "unpivot": {"columns": "t", "name": "device", "value": "temp"},
            }
        },
        ("source.unpivot", "format 'ndjson'", 'format "csv" in files with header "names"'),
    ),
    (
        {"source": _CSV | {"unpivot": {"columns": "t", "name": "temp", "value": "temp"}}},
        ("source.unpivot.value", "'temp'", "another name"),
    ),
    (
        {"source": _CSV | {"unpivot": {"columns": "t", "value": "temp"}}},
        ("source.unpivot.name", "no column that reads 'channel'", "one, by its name or path"),
    ),
    (
        {"source": {"path": "x", "format": "zeek", "header": "skip"}},
        ("source.header", "format 'zeek'", 'format "csv"'),
    ),
    ({"source": _CSV | {"header": "none"}}, ("columns.temp", "no position", "temp = { position = 0 }")),
    ({"columns": {"co": {"position": 1}}}, ("columns.co.position", "format 'ndjson'", "path; only csv")),
    ({"source": {"format": "csv"}}, ("source.path", "nothing", "a value")),
    ({"source": _CSV | {"topics": ["t"]}}, ("source.topics", "kind 'files'", 'kind "kafka"')),
    ({"source": _CSV | {"format": "avro"}}, ("source.format", "'avro' with kind 'files'", "'csv', 'ndjson'")),
    ({"source": _TOPIC | {"format": "zeek"}}, ("source.format", "'zeek' with kind 'kafka'", "'avro'")),
    ({"source": _TOPIC | {"path": "x"}}, ("source.path", "kind 'kafka'", 'kind "files"')),
    ({"source": _TOPIC | {"settle": "1s"}}, ("source.settle", "kind 'kafka'", 'kind "files"')),
    ({"source": _TOPIC | {"servers": []}}, ("source.servers", "nothing", "a value")),
    ({"source": _TOPIC | {"topics": []}}, ("source.topics", "nothing", "a value")),
    ({"source": _TOPIC | {"topics": ["t", "t"]}}, ("source.topics", "'t' 2 times", "each topic once")),
    ({"source": _TOPIC | {"fields": ["a"]}}, ("source.fields", "format 'ndjson'", 'format "csv"')),
    ({"source": _TOPIC | {"format": "csv"}}, ("source.fields", "nothing", "the names of a message's fields")),
    ({"source": _MESSAGE}, ("columns.humidity", "no field 'humidity'", "one of source.fields")),
    (
        {"source": _MESSAGE, "columns": {"co": {"position": 4}}},
        ("columns.co.position", "4", "below 4, the number of source.fields"),
    ),
    (
        {"source": _MESSAGE, "event_time": {"column": "time", "unit": "s"}},
        ("event_time.column", "'time'", "one of source.fields"),
    ),
    ({"source": _AVRO}, ("source.schema_file", "nothing", 'schema_file = "FILE"')),
    (
        {"source": _AVRO | {"schema_file": "a", "schema_files": {"1": "b"}}},
        ("source.schema_file", "schema_files as well", 'or schema_files = { "ID" = "FILE" }'),
    ),
    ({"source": _AVRO | {"schema_files": {"x": "f"}}}, ("source.schema_files.x", "'x'", "the number")),
    ({"source": _TOPIC | {"schema_file": "a"}}, ("source.schema_file", "format 'ndjson'", 'format "avro"')),
    (
        {"source": _TOPIC | {"options": {"auto.offset.reset": "x"}}},
        ("source.options.auto.offset.reset", "a value", "source.start"),
    ),
    (
        {"source": _TOPIC | {"options": {"sasl.jaas.config": "x"}}},
        ("source.options.sasl.jaas.config", "a value", "sasl.username and sasl.password"),
    ),
    (
        {"source": _TOPIC | {"options": {"ssl.key.password": "${A-B}"}}},
        ("source.options.ssl.key.password", "begins no ${NAME}", "the name of a variable"),
    ),
    ({"columns": {"co": {"path": "$key"}}}, ("columns.co.path", "'$key'", "a field of the record")),
    (
        {"event_time": {"column": "$timestamp", "unit": "ms"}},
        ("event_time.column", "'$timestamp'", "a field of the record"),
    ),
    (
        {"source": _TOPIC, "columns": {"co": {"path": "$ofset"}}},
        ("columns.co.path", "'$ofset'", "(did you mean $offset?)"),
    ),
    (
        {"source": _STORE | {"path": "s3://user:hunter2@bucket/*"}},
        ("source.path", "a user name or password in it", "credentials come from the environment"),
    ),
    ({"source": _STORE | {"path": "ftp://bucket/*"}}, ("source.path", "'ftp://'", "s3://bucket/prefix")),
    (
        {"source": _STORE | {"path": "gs://user:hunter2@bucket/*"}},
        ("source.path", "a user name or password in it", "gs://bucket/prefix"),
    ),
    (
        {"source": _STORE | {"path": "abfss://in:hunter2@lake.dfs.core.windows.net/*"}},
        ("source.path", "a user name or password in it", "abfss://container@account.dfs"),
    ),
    (
        {"source": _STORE | {"path": "abfss://in/*"}},
        ("source.path", "the bucket 'in'", "abfss://container@account.dfs.core.windows.net/prefix"),
    ),
    (
        {"source": _STORE | {"path": "gs://bucket/*", "endpoint": "https://store.example"}},
        ("source.endpoint", "a path on gs://", "a path on s3://"),
    ),
    (
        {"source": _STORE | {"path": "s3://buck*/a"}},
        ("source.path", "the bucket 'buck*'", "without a pattern"),
    ),
    (
        {"source": _STORE | {"kind": "mqtt", "broker": "mqtt://h", "topics": ["a"]}},
        ("source.path", "a store with kind 'mqtt'", "a folder of this machine"),
    ),
    (
        {"source": _STORE | {"endpoint": "https://user:hunter2@store"}},
        ("source.endpoint", "a user name or password in it", '"https://HOST:PORT"'),
    ),
    (
        {"source": _STORE | {"endpoint": "store:9000"}},
        ("source.endpoint", "no such address", '"https://HOST:PORT"'),
    ),
    (
        {"source": _STORE | {"full_listing": "1d"}},
        ("source.full_listing", "no key_order", 'key_order = "time"'),
    ),
    ({"source": _STORE | {"follow_links": True}}, ("source.follow_links", "a path on a store", "a folder")),
    (
        {"source": {"path": "landing/*", "format": "ndjson", "endpoint": "https://store"}},
        ("source.endpoint", "path 'landing/*'", "a path on a store"),
    ),
]
