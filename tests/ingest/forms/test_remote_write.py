"""Bodies of Prometheus' remote write, as protobuf's own library makes them from the published messages."""

from __future__ import annotations

import json
import math
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.config.checks import stream_problems
from lakehouse.config.presets import with_preset
from lakehouse.config.stream import Stream
from lakehouse.ingest.forms.line_objects import as_objects
from lakehouse.ingest.forms.remote_write import samples_of
from lakehouse.ingest.parser.parser import Parser
from lakehouse.ingest.sources.files import landed
from lakehouse.ingest.sources.landed_content import seen
from lakehouse.ingest.sources.lines import parsed_file
from tests.ingest.hostile import damaged, truncated

# prompb/types.proto and remote.proto: name, number, type, and whether it is repeated.
MESSAGES: dict[str, list[tuple[str, int, str, bool]]] = {
    "Label": [("name", 1, "string", False), ("value", 2, "string", False)],
    "Sample": [("value", 1, "double", False), ("timestamp", 2, "int64", False)],
    "Exemplar": [
        ("labels", 1, "Label", True),
        ("value", 2, "double", False),
        ("timestamp", 3, "int64", False),
    ],
    "Histogram": [
        ("count_int", 1, "uint64", False),
        ("sum", 3, "double", False),
        ("schema", 4, "sint32", False),
    ],
    "TimeSeries": [
        *(("labels", 1, "Label", True), ("samples", 2, "Sample", True)),
        *(("exemplars", 3, "Exemplar", True), ("histograms", 4, "Histogram", True)),
    ],
    "MetricMetadata": [("type", 1, "int32", False), ("metric_family_name", 2, "string", False)],
    "WriteRequest": [("timeseries", 1, "TimeSeries", True), ("metadata", 3, "MetricMetadata", True)],
    # io/prometheus/write/v2/types.proto
    "SampleV2": [
        ("value", 1, "double", False),
        ("timestamp", 2, "int64", False),
        ("start_timestamp", 3, "int64", False),
    ],
    "Metadata": [("type", 1, "int32", False), ("help_ref", 3, "uint32", False)],
    "TimeSeriesV2": [
        *(("labels_refs", 1, "uint32", True), ("samples", 2, "SampleV2", True)),
        *(("histograms", 3, "Histogram", True), ("exemplars", 4, "Exemplar", True)),
        ("metadata", 5, "Metadata", False),
    ],
    "Request": [("symbols", 4, "string", True), ("timeseries", 5, "TimeSeriesV2", True)],
}
STALE = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]


def request_classes() -> list[Any]:
    """Return protobuf's classes of the requests of both versions."""
    file = descriptor_pb2.FileDescriptorProto(name="remote.proto", package="prometheus", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for own, number, kind, is_repeated in fields:
            part = message.field.add(name=own, number=number, label=3 if is_repeated else 1)
            if kind in MESSAGES:
                part.type, part.type_name = 11, f".prometheus.{kind}"
            else:
                part.type = getattr(part, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = [pool.FindMessageTypeByName(f"prometheus.{name}") for name in ("WriteRequest", "Request")]
    return [message_factory.GetMessageClass(each) for each in found]


REQUEST, REQUEST_2 = request_classes()


def compressed(content: bytes) -> bytes:
    """Return a block of snappy."""
    return bytes(pa.Codec("snappy").compress(content, asbytes=True))


def body(series: Any, **more: Any) -> bytes:
    """Return the body of a request."""
    return compressed(REQUEST(timeseries=series, **more).SerializeToString())


def body_2(series: Any, symbols_last: bool = False) -> bytes:
    """Return the body of a request of version 2 with the series that one of version 1 would have."""
    symbols = {"": 0}

    def numbers(labels: Any) -> list[int]:
        texts = [text for label in labels for text in (label["name"], label["value"])]
        return [symbols.setdefault(text, len(symbols)) for text in texts]

    own = [{**each, "labels_refs": numbers(each["labels"])} for each in series]
    for each in own:
        del each["labels"]
    parts = [REQUEST_2(timeseries=own), REQUEST_2(symbols=list(symbols))]
    contents = [part.SerializeToString() for part in parts]
    return compressed(b"".join(contents if symbols_last else contents[::-1]))


def one(name: str, *samples: tuple[float, int], **labels: str) -> dict[str, Any]:
    """Return one series."""
    pairs = [{"name": key, "value": value} for key, value in {"__name__": name, **labels}.items()]
    return {"labels": pairs, "samples": [{"value": value, "timestamp": time} for value, time in samples]}


SCRAPE = body(
    [
        one("up", (1.0, 1_769_904_000_000), (0.0, 1_769_904_015_000), job="a", instance='h"1\\'),
        one("gone", (STALE, 1_769_904_000_000)) | {"exemplars": [{"value": 2.0}]},
        one("latency", job="b") | {"histograms": [{"count_int": 7, "sum": 0.5, "schema": -3}]},
    ],
    metadata=[{"type": 1, "metric_family_name": "up"}],
)
NAMES = st.text(st.characters(codec="utf-8"), max_size=5)
SERIES = st.tuples(
    NAMES,
    st.dictionaries(NAMES.filter(lambda name: name != "__name__"), NAMES, max_size=3),
    st.lists(st.tuples(st.floats(), st.integers(-(2**63), 2**63 - 1)), max_size=3),
)


@given(st.lists(SERIES, max_size=4), st.booleans())
def test_any_samples_read_back_with_their_labels_to_the_last_digit(
    series: list[tuple[str, dict[str, str], list[tuple[float, int]]]], symbols_last: bool
) -> None:
    written = [
        {
            "labels": [{"name": n, "value": v} for n, v in {"__name__": name, **labels}.items()],
            "samples": [{"value": value, "timestamp": time} for value, time in samples],
        }
        for name, labels, samples in series
    ]
    expected = [(name, labels, repr(value), str(time)) for name, labels, own in series for value, time in own]

    for content in (body(written), body_2(written, symbols_last)):
        found = samples_of(content)

        assert [(each["name"], each["labels"], each["value"], each["time"]) for each in found] == expected


def stream_of(path: Path, **table: Any) -> Stream:
    source = {"path": str(path), "settle": 0}
    columns = {"job": {"path": "samples.labels.job", "optional": True}}
    whole = {"name": "s", "preset": "prometheus-remote-write", "source": source, "columns": columns} | table
    stream = Stream.model_validate(with_preset(whole))
    assert stream_problems(stream) == []
    return stream


def rows(path: Path, **source: Any) -> list[dict[str, Any]]:
    stream = stream_of(path, source={"path": str(path), **source})
    file = landed(str(path), seen(str(path)), stream.source)
    assert file.unreadable is None
    return [row for table in parsed_file(file, 0, Parser.of(stream, [None])) for row in table.to_pylist()]


@pytest.mark.parametrize("name", ["body", "body.zip"])
def test_a_file_is_one_body_and_each_sample_a_row(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(SCRAPE)
    if name.endswith(".zip"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("body", SCRAPE)

    found = rows(path)

    of = [(r["event_us"], r["metric"], r["value"], r["stale"], r["job"], r["source_item"]) for r in found]
    assert of == [
        (1_769_904_000_000_000, "up", 1.0, False, "a", 0),
        (1_769_904_015_000_000, "up", 0.0, False, "a", 1),
        (1_769_904_000_000_000, "gone", None, True, None, 2),
    ]
    assert {row["reason"] for row in found} == {None}


def test_messages_of_a_topic_are_bodies_too() -> None:
    source = {"kind": "kafka", "servers": ["h:1"], "topics": ["t"]}
    stream = stream_of(Path("x"), source=source)
    lines = {"record": pa.array([SCRAPE, b"\n"], pa.binary()), "fault": pa.nulls(2, pa.string())}

    found = as_objects(lines, stream.source.format)

    first, second = found["fault"].to_pylist()
    assert first is None and len(json.loads(found["record"][0].as_py())["samples"]) == 3
    assert second.startswith("malformed: expected a body of remote-write")


# A series of version 2 that names a symbol which is not there, one whose last label has no value, and one whose number
# does not end; fields in fields without an end.
UNKNOWN, HALF, CUT = (
    b"\x22\x00\x2a\x04\x0a\x02\x00\x01",
    b"\x22\x00\x2a\x03\x0a\x01\x00",
    b"\x2a\x03\x0a\x01\x80",
)
DEEP = b"".join(b"\x0a" + bytes([n]) for n in range(120, 0, -2))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 20,
        b"\xff\xff\xff\xff\x0f" + b"\x00" * 100,
        b"\x00",
        b"# HELP up\nup 1\n",
        SCRAPE[:-3],
        compressed(UNKNOWN),
        compressed(HALF),
        compressed(CUT),
        compressed(b"\x0a\xff\xff\xff\xff\x0f"),
        compressed(b"\x0b\x00"),
        compressed(b"\x0a\x04\x0a\x02\x08\x05"),
        compressed(b"\x0a\x05\x12\x03\x0a\x01\x00"),
        compressed(b"\x0a\x04\x12\x02\x08\x05"),
        compressed(b"\x08\x01"),
        compressed(b"\x0a\x05\x0a\x03\x0a\x01\xff"),
    ],
)
def test_what_is_no_body_or_claims_more_than_there_is_is_refused(content: bytes) -> None:
    if content == b"\x00":
        assert samples_of(content) == []
        return
    with pytest.raises(ValueError):
        samples_of(content)


def test_labels_of_version_2_may_be_numbered_one_by_one() -> None:
    # Field 1 as numbers of their own, symbols behind it, and what version 2 knows besides.
    series = b"\x08\x01\x08\x02\x12\x09\x09" + struct.pack("<d", 2.5) + b"\x2a\x02\x08\x01"
    texts = b"".join(b"\x22" + bytes([len(text)]) + text for text in (b"", b"__name__", b"up"))

    [sample] = samples_of(compressed(b"\x2a" + bytes([len(series)]) + series + texts))

    assert sample == {"name": "up", "labels": {}, "value": "2.5", "time": "0", "stale": False}


def test_fields_in_fields_are_not_followed() -> None:
    assert samples_of(compressed(b"\x1a" + bytes([len(DEEP)]) + DEEP)) == []


def test_a_body_that_inflates_to_millions_of_samples_or_labels_needs_the_memory_of_some() -> None:
    many = compressed(b"\x0a\x02\x12\x00" * 150_000)
    wide = body([one("up", (1.0, 1), **{f"l{number}": "" for number in range(2_000)})])
    long = body([one("up", *[(1.0, 1)] * 15_000, path="x" * 5_000)])
    wide_2 = body_2([one("up", (1.0, 1), **{f"l{number}": "" for number in range(2_000)})])
    symbols = compressed(b"\x22\x00" * 1_500_000)

    tracemalloc.start()
    found = len(samples_of(many))
    for each in (wide, long, wide_2, symbols):
        with pytest.raises(ValueError, match="too many"):
            samples_of(each)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert found == 100_001 and peak < 150_000_000


def test_a_damaged_body_is_one_rejected_record_or_rows(tmp_path: Path) -> None:
    second = body_2([one("up", (1.0, 1), job="a"), one("gone", (2.0, 2))])
    files = [*damaged(SCRAPE, "", 60, seed=3), *truncated(SCRAPE, "", step=5)]
    files += [*damaged(second, "2", 60, seed=3), *truncated(second, "2", step=5)]
    for name, content in files:
        (tmp_path / name).write_bytes(content)

        found = rows(tmp_path / name)

        assert len(found) <= 4 and all(row["source_line"] == 1 for row in found), name


def test_a_file_that_is_too_long_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "body"
    path.write_bytes(SCRAPE)

    [row] = rows(path, max_record_bytes=100)

    assert row["reason"] == "too_long" and "max_record_bytes" in row["detail"]


def test_a_number_that_is_none_is_missing() -> None:
    [sample] = samples_of(body([one("a", (math.nan, 5))]))

    assert (sample["value"], sample["stale"]) == ("nan", False)
