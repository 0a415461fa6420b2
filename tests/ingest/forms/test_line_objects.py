"""Lines of forms of their own as objects of JSON."""

from __future__ import annotations

import json
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.config.checks import stream_problems
from lakehouse.config.presets import with_preset
from lakehouse.config.stream import Stream
from lakehouse.ingest.forms.line_objects import as_objects, objects_of
from lakehouse.ingest.parser.parser import Parser
from lakehouse.ingest.sources.numbered import located_lines

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\\\n\r"), min_size=1)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"))


def objects(form: str, *lines: str | bytes) -> list[Any]:
    records = [line if isinstance(line, bytes) else line.encode() for line in lines]
    found = objects_of(pa.array(records, pa.binary()), form).to_pylist()
    return [each and json.loads(each) for each in found]


def escaped(text: str, signs: str) -> str:
    return "".join(f"\\{letter}" if letter in signs else letter for letter in text)


@given(
    NAMES,
    st.dictionaries(NAMES, NAMES, max_size=3),
    st.dictionaries(NAMES, TEXTS, min_size=1, max_size=3),
    st.none() | st.integers(-(2**63), 2**63 - 1),
)
def test_a_line_of_the_line_protocol_reads_back_as_it_was_meant(
    name: str, tags: dict[str, str], fields: dict[str, str], time: int | None
) -> None:
    tagged = "".join(f",{escaped(key, ',= ')}={escaped(value, ',= ')}" for key, value in tags.items())
    quoted = (f'{escaped(key, ",= ")}="{escaped(value, chr(34) + chr(92))}"' for key, value in fields.items())
    line = f"{escaped(name, ', ')}{tagged} {','.join(quoted)}" + (f" {time}" if time is not None else "")

    [found] = objects("influx", line)

    moment = "" if time is None else str(time)
    assert found == {"measurement": name, "tags": tags, "fields": fields, "time": moment}


@given(
    st.dictionaries(st.from_regex("[a-zA-Z_][a-zA-Z0-9_]*", fullmatch=True), TEXTS, max_size=3),
    st.sampled_from(["1", "-1.5e3", "+Inf", "NaN"]),
    st.booleans(),
)
def test_a_sample_of_prometheus_reads_back_as_it_was_meant(
    labels: dict[str, str], value: str, has_comma: bool
) -> None:
    texts = {
        key: "".join(letter for letter in text if letter >= " " or letter == "\t")
        for key, text in labels.items()
    }
    pairs = ",".join(f'{key}="{escaped(text, chr(34) + chr(92))}"' for key, text in texts.items())
    braces = f"{{{pairs}{',' if pairs and has_comma else ''}}}"

    [found] = objects("prometheus", f"up{braces} {value} 1")

    assert found == {"name": "up", "labels": texts, "value": value, "time": "1"}


@pytest.mark.parametrize(
    ("form", "line"),
    [("influx", "a b=1"), ("influx", "a b=1 1"), ("prometheus", "up 1"), ("nmea", "$GPRMC,,V,,,,,,,,,,N*53")],
)
def test_the_end_of_a_line_in_a_message_is_no_part_of_it(form: str, line: str) -> None:
    assert objects(form, f"{line}\n", f"{line}\r\n", line) == objects(form, line) * 3


@pytest.mark.parametrize(
    ("form", "line"),
    [
        *(
            ("influx", line)
            for line in ("a", "a b", "a b=", 'a b="c', "a b=1 1x", "a,b c=1", ",a=b c=1", "", "a =1")
        ),
        *(
            ("prometheus", line)
            for line in ("up", "up{a=1} 2", 'up{a="1} 2', "1up 2", "up 1 2 3", b'up{a="\xff"} 1')
        ),
        *(
            ("otlp", line)
            for line in (
                "{}",
                "[]",
                "x",
                '{"resourceMetrics": 1}',
                '{"resourceMetrics": [{"scopeMetrics": [{}]}]}',
            )
        ),
        *(
            ("nmea", line)
            for line in ("$GPRMC,1*00", "GPRMC", "$GPRMC,,V,,,,,,,,,,N*54", "!AIVDM,1,1,,A,1*00", b"\xff")
        ),
    ],
)
def test_a_line_of_another_form_is_malformed(form: str, line: str | bytes) -> None:
    record = line if isinstance(line, bytes) else line.encode()
    lines = {"record": pa.array([record], pa.binary()), "fault": pa.nulls(1, pa.string())}

    [fault] = as_objects(lines, form)["fault"].to_pylist()

    assert fault.startswith(f"malformed: expected a line of {form}")


@given(st.integers(0, 89), st.integers(0, 59), st.integers(0, 10**5 - 1), st.sampled_from("NS"))
def test_a_place_is_in_degrees_to_the_last_digit(degrees: int, minutes: int, part: int, side: str) -> None:
    content = f"GPGGA,000000,{degrees:02}{minutes:02}.{part:05},{side},00000.00000,W,1,,,,M"
    line = f"${content}*{reduce(lambda left, right: left ^ right, content.encode()):02X}"

    [found] = objects("nmea", line)

    exact = degrees * 10**9 + round((minutes * 10**5 + part) * 10**4 / 60)
    sign = -1 if side == "S" else 1
    assert abs(float(found["lat"]) * 10**9 - sign * exact) < 1
    assert (found["lon"], found["clock"]) == ("-0.000000000", "00:00:00")


def test_messages_of_a_topic_are_read_like_lines_of_files() -> None:
    source = {"kind": "kafka", "servers": ["a:9092"], "topics": ["t"]}
    table = {"name": "s", "preset": "influx", "source": source, "columns": {"room": {"path": "tags.room"}}}
    stream = Stream.model_validate(with_preset(table))
    records = pa.array([b"air,room=a t=1 1769904000000000000\n", b"air\xff\n"], pa.binary())

    rows = Parser.of(stream, [None]).parse(located_lines(pa.array([0, 1]), records, "t/0"))

    assert stream_problems(stream) == []
    assert rows["room"].to_pylist() == ["a", None]
    assert [(each or "")[:9] for each in rows["reason"].to_pylist()] == ["", "malformed"]
