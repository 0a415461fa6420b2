"""Lines of forms of their own -> objects of JSON, whose values are texts, which the parser reads as those of ndjson.

influx       InfluxDB's line protocol: measurement, tags, fields, time
prometheus   Prometheus' text exposition: name, labels, value, time
otlp         metrics of OpenTelemetry: points, each beside its metric, resource and scope
remote-write bodies of Prometheus' remote write: samples, each beside the name and labels of its series
nmea         sentences of satellite receivers whose checksum is right: RMC and GGA with their parts

A line that begins with # is a remark of the first two.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.formats import WHOLE
from lakehouse.ingest.forms.remote_write import samples_of
from lakehouse.ingest.parser.json_record import json_object
from lakehouse.ingest.parser.json_shapes import letters_of
from lakehouse.ingest.parser.plain_lines import text_array

_EXPECTED = {
    "influx": "measurement,tag=a field=1 1769904000000000000",
    "prometheus": 'name{label="a"} 1 1769904000000',
    "remote-write": "a block of snappy around a request of protobuf",
    "otlp": 'an object with the list "resourceMetrics"',
    "nmea": "a sentence with a right checksum, such as $GPRMC,...*6A",
}
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*[ \t]*=[ \t]*"(?:[^"\\]|\\.)*"[ \t]*'
_SAMPLE = (
    r"^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*"
    rf"(?:\{{[ \t]*(?P<labels>(?:{_LABEL},[ \t]*)*(?:{_LABEL})?)\}})?[ \t]*"
    r"(?:[ \t](?P<value>[^ \t{]+))(?:[ \t]+(?P<time>-?[0-9.]+))?[ \t]*(?:# .*)?$"
)
_ONE_LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*'
_SENTENCE = (
    r"^\$(?P<content>(?P<talker>[A-Z]{2})(?P<type>[A-Z]{3}),(?P<rest>[ -~]*))\*(?P<sum>[0-9A-Fa-f]{2})$"
)
_PARTS = "^" + ",".join(f"(?P<p{number}>[^,]*)" for number in range(1, 10)) + "(?:,.*)?$"
# Parts of sentences by name, counted from 1.
_NAMES = {
    "RMC": {"status": 2, "speed": 7, "course": 8},
    "GGA": {"quality": 6, "satellites": 7, "hdop": 8, "altitude": 9},
}
_PLACES = {"RMC": (3, 4, 5, 6), "GGA": (2, 3, 4, 5)}
# Receivers write two digits of a year.
_PIVOT = "80"
_NANO = 10**9


def as_objects(lines: Mapping[str, pa.Array], form: str) -> dict[str, pa.Array]:
    """Return lines with their records as objects of JSON; one that is none of the form has a fault."""
    records = objects_of(lines["record"], form)
    verdict = f"malformed: expected {'a body' if form in WHOLE else 'a line'} of {form}: {_EXPECTED[form]}"
    faults = pc.if_else(records.is_null(), verdict, pa.scalar(None, pa.string()))
    return {**lines, "record": records, "fault": pc.coalesce(lines["fault"], faults)}


def objects_of(records: pa.Array, form: str) -> pa.Array:
    """Return records of a form as objects of JSON, null where they are none."""
    # Messages of a topic may have the end of their line.
    if form not in WHOLE and pc.any(pc.ends_with(records, b"\n")).as_py():
        records = pc.replace_substring_regex(records, b"[\r\n]+$", b"")
    return _READERS[form](records).cast(pa.binary())


def _influx(records: pa.Array) -> pa.Array:
    # What compiles loads slowly: only those who have such lines wait for it.
    from lakehouse.algorithms.ingest.line_protocol import as_json

    letters, ends = as_json(*letters_of(records))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(letters)]
    found = pa.Array.from_buffers(pa.large_binary(), len(records), buffers)
    return pc.if_else(pc.equal(pc.binary_length(found), 0), None, found)


def _prometheus(records: pa.Array) -> pa.Array:
    found = pc.extract_regex(_texts(records), _SAMPLE)
    name, labels, value, time = (pc.struct_field(found, part) for part in ("name", "labels", "value", "time"))
    # What labels escape JSON escapes alike.
    pairs = pc.replace_substring_regex(labels, _ONE_LABEL, r'"\1":"\2"')
    pairs = pc.replace_substring(pc.replace_substring_regex(pairs, r",[ \t]*$", ""), "\t", r"\t")
    return _joined('{"name":"', name, '","labels":{', pairs, '},"value":"', value, '","time":"', time, '"}')


def _remote_write(records: pa.Array) -> pa.Array:
    return text_array([_samples(record) for record in records.to_pylist()])


def _samples(record: bytes | None) -> str | None:
    with suppress(ValueError):
        return None if record is None else json.dumps({"samples": samples_of(record)}, ensure_ascii=False)
    return None


def _otlp(records: pa.Array) -> pa.Array:
    return text_array([_points(record) for record in _texts(records).to_pylist()])


def _points(record: str | None) -> str | None:
    try:
        document = json_object(record or "")
        points = None if document is None else list(_points_of(document))
    except (AttributeError, TypeError, KeyError):
        return None
    return None if points is None else json.dumps({"points": points}, ensure_ascii=False)


def _points_of(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the points of a document, each with its own members and what is known of its metric."""
    for resource in document["resourceMetrics"]:
        about: dict[str, Any] = {"resource": _attributes(resource.get("resource") or {})}
        for scope in resource.get("scopeMetrics") or ():
            about["scope"] = (scope.get("scope") or {}).get("name")
            for metric in scope["metrics"]:
                of = {"metric": metric["name"], "unit": metric.get("unit")}
                for kind, data in metric.items():
                    points = data.get("dataPoints") or () if isinstance(data, dict) else ()
                    for point in points:
                        value = point.get("asDouble", point.get("asInt", point.get("sum")))
                        own = {"kind": kind, "value": value, "attributes": _attributes(point)}
                        yield point | about | of | own


def _attributes(holder: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of something by name, with an underscore for each dot."""
    pairs = holder.get("attributes") or ()
    return {each["key"].replace(".", "_"): next(iter(each["value"].values()), None) for each in pairs}


def _nmea(records: pa.Array) -> pa.Array:
    found = pc.extract_regex(_texts(records), _SENTENCE)
    talker, kind, rest = (pc.struct_field(found, name) for name in ("talker", "type", "rest"))
    parts, more = pc.extract_regex(rest, _PARTS), pa.repeat(pa.scalar(""), len(records))
    for name in _NAMES:
        is_of = pc.fill_null(pc.and_(pc.equal(kind, name), parts.is_valid()), False)
        more = pc.if_else(is_of, _members(parts, name), more)
    is_right = _have_sums(pc.struct_field(found, "content"), pc.struct_field(found, "sum"))
    return _joined('{"talker":"', pc.if_else(is_right, talker, None), '","type":"', kind, '"', more, "}")


def _texts(records: pa.Array) -> pa.Array:
    """Return records as texts, null where they are not UTF-8."""
    try:
        return records.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(record) for record in records.to_pylist()], pa.string())


def _text(record: bytes | None) -> str | None:
    with suppress(UnicodeDecodeError):
        return None if record is None else record.decode()
    return None


def _have_sums(contents: pa.Array, sums: pa.Array) -> pa.Array:
    """Return which contents have their checksum: the exclusive or of all of their bytes."""
    letters, ends = letters_of(pc.fill_null(contents, " "))
    found = np.bitwise_xor.reduceat(letters, ends[:-1]) if len(contents) else letters
    texts = pa.array([f"{number:02X}" for number in range(256)]).take(pa.array(found))
    return pc.equal(texts, pc.ascii_upper(sums))


def _members(parts: pa.Array, kind: str) -> pa.Array:
    """Return the members of a sentence of RMC or GGA: moment, place in degrees, and parts as they stand."""
    part = [pc.struct_field(parts, number) for number in range(9)]
    first, second, third, fourth = (part[number - 1] for number in _PLACES[kind])
    clock = pc.replace_substring_regex(part[0], "^([0-9]{2})([0-9]{2})([0-9]{2}(?:[.][0-9]+)?)$", r"\1:\2:\3")
    moment = {"clock": clock} if kind == "GGA" else {"at": _joined(_date(part[8]), "T", clock)}
    members = moment | {"lat": _degrees(first, second), "lon": _degrees(third, fourth)}
    members |= {name: part[number - 1] for name, number in _NAMES[kind].items()}
    return _joined(*(_joined(f',"{name}":"', pc.fill_null(text, ""), '"') for name, text in members.items()))


def _date(texts: pa.Array) -> pa.Array:
    digits = pc.extract_regex(texts, "^(?P<d>[0-9]{2})(?P<m>[0-9]{2})(?P<y>[0-9]{2})$")
    day, month, year = (pc.struct_field(digits, name) for name in "dmy")
    century = pc.if_else(pc.greater_equal(year, _PIVOT), "19", "20")
    return _joined(century, year, "-", month, "-", day)


def _degrees(texts: pa.Array, sides: pa.Array) -> pa.Array:
    """Return degrees of ``ddmm.mmm``, rounded to the ninth digit."""
    found = pc.extract_regex(texts, "^(?P<d>[0-9]{1,3})(?P<m>[0-9]{2})(?:[.](?P<f>[0-9]{1,9}))?$")
    degrees, minutes = (pc.struct_field(found, name).cast(pa.int64()) for name in "dm")
    nanos = pc.utf8_rpad(pc.struct_field(found, "f"), 9, "0").cast(pa.int64())
    more = pc.divide(pc.add(pc.add(pc.multiply(minutes, _NANO), nanos), 30), 60)
    whole = pc.add(pc.multiply(degrees, _NANO), more)
    digits = pc.utf8_lpad(whole.cast(pa.string()), 10, "0")
    sign = pc.if_else(pc.is_in(sides, pa.array(["S", "W"])), "-", "")
    return _joined(sign, pc.replace_substring_regex(digits, "([0-9]{9})$", r".\1"))


def _joined(*parts: Any) -> pa.Array:
    """Return parts put together, texts of rows and those of all rows; null where one is."""
    return pc.binary_join_element_wise(*parts, "")


_READERS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "influx": _influx,
    "prometheus": _prometheus,
    "remote-write": _remote_write,
    "otlp": _otlp,
    "nmea": _nmea,
}
