"""Samples of XML documents, and of lines of metrics and positions, which are read as objects of JSON."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from xml.parsers import expat

import pyarrow as pa

from lakehouse.ingest.forms.line_objects import objects_of
from lakehouse.ingest.forms.xml_records import XmlRecords

# What a line of each format begins with, or one of its remarks: other lines may look like it by chance.
_BEGIN: dict[str, str | tuple[str, ...]] = {
    "influx": "",
    "prometheus": ("# HELP ", "# TYPE "),
    "otlp": '{"resourceMetrics"',
    "nmea": ("$", "!"),
}
_LONGEST = 1024 * 1024
_ALL, _MOST_WAYS = 0.9, 20
# Of a day, or of seconds since 1970.
_TIME = re.compile(r"\d{4}-\d\d-\d\d|\d\d[./]\d\d[./]\d\d|\b\d{10,19}\b")
Records = list[dict[str, Any]]
Found = tuple[str, Records, dict[str, Any], list[str]]


def lines_of_form(lines: Sequence[str]) -> Found | None:
    """Return the format of lines, their records, keys of ``source`` and doubts; None where they are of none."""
    for form, begin in _BEGIN.items():
        own = [line for line in lines if not line.startswith("#")]
        if not own or not lines[0].startswith(begin):
            continue
        found = objects_of(pa.array([line.encode() for line in own], pa.binary()), form).drop_null()
        if len(found) >= _ALL * len(own):
            return form, *_CHOICES[form]([json.loads(each) for each in found.to_pylist()])
    return None


def _of_one(member: str, records: Records) -> tuple[Records, dict[str, Any], list[str]]:
    """Return the records with the most frequent value of a member."""
    counts = Counter(record[member] for record in records)
    chosen = counts.most_common(1)[0][0]
    if len(counts) == 1:
        return records, {}, []
    quoted = chosen.replace("'", "''")
    doubt = f"rows are those whose {member} is {chosen}; others are {', '.join(sorted({*counts} - {chosen}))[:200]}"
    own = [record for record in records if record[member] == chosen]
    return own, {"where": f"{member} = '{quoted}'"}, [doubt]


def _positions(records: Records) -> tuple[Records, dict[str, Any], list[str]]:
    own = [record for record in records if record["type"] == "RMC" and record.get("status") == "A"]
    return own, {"where": "type = 'RMC' AND status = 'A'"}, ["rows are RMC sentences with a fix"]


def _samples(records: Records) -> tuple[Records, dict[str, Any], list[str]]:
    return records, {}, []


def _points(records: Records) -> tuple[Records, dict[str, Any], list[str]]:
    return [{"points": point} for record in records for point in record["points"]], {"explode": "points"}, []


_CHOICES = {
    "influx": lambda records: _of_one("measurement", records),
    "prometheus": _samples,
    "otlp": _points,
    "nmea": _positions,
}


def document_of_xml(content: bytes) -> Found | None:
    """Return the records of the elements that come most often in a document and hold a time of their own.

    Of equally many the outermost; where none holds a time, those that come most often.
    """
    ways = _repeated(content)
    if not ways:
        return None
    keys = next((way for way in ways[:_MOST_WAYS] if is_timed(_elements(content, way), way)), ways[0])
    way = ".".join(keys)
    doubt = f"rows are the elements {way}, which come most often"
    return "xml", _elements(content, keys), {"record_path": way}, [doubt]


def _elements(content: bytes, way: tuple[str, ...]) -> Records:
    lines = XmlRecords(way, _LONGEST).lines(content).splitlines()
    # What the document says of itself is the same in all rows.
    return [_without(json.loads(line), way[0]) for line in lines]


def _without(record: dict[str, Any], root: str) -> dict[str, Any]:
    around = record.get(root)
    if isinstance(around, dict):
        record[root] = {name: value for name, value in around.items() if isinstance(value, dict)}
    return record


def is_timed(records: Records, way: tuple[str, ...] = ()) -> bool:
    """Return whether a record has a text that looks like a time, beside what stands around it."""
    own = [{name: value for name, value in record.items() if name not in way} for record in records[:2]]
    return bool(_TIME.search(json.dumps(own)))


def _repeated(content: bytes) -> list[tuple[str, ...]]:
    """Return the ways to elements that come again, those that come most often first."""
    counts, opened = Counter[tuple[str, ...]](), list[str]()

    def start(name: str, _: Mapping[str, str]) -> None:
        opened.append(name.rpartition(":")[2])
        counts[tuple(opened)] += 1

    def end(_: str) -> None:
        opened.pop()

    def refuse(*_: Any) -> None:
        raise ValueError

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = refuse
    # A sample ends inside of the document.
    with suppress(expat.ExpatError, ValueError):
        parser.Parse(content, False)
    often = [way for way, count in counts.items() if count > 1 and len(way) > 1]
    return sorted(often, key=lambda way: (-counts[way], len(way)))
