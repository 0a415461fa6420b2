from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lakehouse.simulator.faults import KINDS
from lakehouse.simulator.flows import FLOWS
from lakehouse.simulator.form import GARBAGE, Form, hex_names, joined_bytes, lines, milliseconds, seconds
from lakehouse.simulator.sensors import SENSORS


def _written(form: Form, kind: str) -> bytes:
    rng = np.random.default_rng(1)
    timeline = form.timeline(rng, 3, 10_000_000, 2, 0.0, form.tick_us)
    columns: dict[str, Any] = form.columns(rng, timeline, 0, 2)
    rows, kinds = np.array([2]), np.array([KINDS.index(kind)])
    written = lines(form, columns, rows, np.array([1_500_000]), np.array([2_500_000]), kinds)
    return bytes(joined_bytes(written))


@pytest.mark.parametrize("form", [SENSORS, FLOWS], ids=lambda form: form.stream)
def test_one_line_ends_with_one_line_end(form: Form) -> None:
    written = [_written(form, kind) for kind in KINDS]

    assert [line.count(b"\n") for line in written] == [1] * len(KINDS)
    assert all(line.endswith(b"\n") for line in written)


def test_a_sensor_row_is_a_json_object() -> None:
    assert _written(SENSORS, "clean").startswith(b'{"ts":1500,"received":2500,"device":"sensor-00')


def test_a_flow_is_a_csv_line_with_a_field_per_header() -> None:
    line = _written(FLOWS, "clean")

    assert line.startswith(b"1.500000,2.500000,C")
    assert line.count(b",") == FLOWS.header.count(b",")


@pytest.mark.parametrize(
    ("form", "kind", "part"),
    [
        (SENSORS, "nan", b'"temp":NaN,'),
        (SENSORS, "null", b'"temp":null,'),
        (SENSORS, "wrong_type", b'"temp":"warm",'),
        (SENSORS, "no_time", b'{"ts":null,"received":2500'),
        (SENSORS, "bad_utf8", b'"location":"\xc3\x28"'),
        (SENSORS, "garbage", GARBAGE),
        (FLOWS, "nan", b",NaN,"),
        (FLOWS, "null", b",NA,"),
        (FLOWS, "wrong_type", b",many,"),
        (FLOWS, "no_time", b"NA,2.500000,C"),
        (FLOWS, "bad_utf8", b",\xc3\x28,"),
        (FLOWS, "garbage", GARBAGE),
    ],
)
def test_dirt_looks_as_it_is_named(form: Form, kind: str, part: bytes) -> None:
    assert part in _written(form, kind)


@pytest.mark.parametrize("form", [SENSORS, FLOWS], ids=lambda form: form.stream)
def test_a_truncated_line_is_the_start_of_the_whole_one(form: Form) -> None:
    assert _written(form, "truncated") == _written(form, "clean")[: form.cut_at] + b"\n"


def test_times_keep_every_digit() -> None:
    times = np.array([0, 1_000_001, 1_767_225_600_123_456])

    assert seconds(times).to_pylist() == ["0.000000", "1.000001", "1767225600.123456"]
    assert milliseconds(times).to_pylist() == ["0", "1000", "1767225600123"]


def test_hex_names_have_sixteen_digits() -> None:
    names = hex_names(np.array([0, 255, 2**64 - 1], np.uint64)).to_pylist()

    assert names == [b"0" * 16, b"0" * 14 + b"ff", b"f" * 16]
