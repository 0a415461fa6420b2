from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakehouse.config.presets import preset_names, preset_problem, with_preset
from lakehouse.config.problems import ConfigError
from lakehouse.config.stream import Stream
from lakehouse.settings import Settings, load_settings


def configured(folder: Path, text: str) -> Settings:
    config = folder / "tidemark.toml"
    config.write_text(text, encoding="utf-8")
    return load_settings(config)


def stream_of(**table: Any) -> Stream:
    return Stream.model_validate(with_preset(table | {"name": "s"}))


BASES = ("flow", "lorawan")


@pytest.mark.parametrize("name", [name for name in preset_names() if name not in BASES])
def test_every_preset_needs_no_more_than_where_its_files_are(tmp_path: Path, name: str) -> None:
    settings = configured(tmp_path, f'[streams.s]\npreset = "{name}"\nsource.path = "x/*"\n')

    stream = settings.streams["s"]
    assert stream.levels and stream.columns and stream.groupings and stream.preset == name


@pytest.mark.parametrize("name", BASES)
def test_a_preset_that_others_rest_on_leaves_time_and_format_open(tmp_path: Path, name: str) -> None:
    text = f'[streams.s]\npreset = "{name}"\nevent_time = {{ column = "at", unit = "s" }}\n'
    text += '[streams.s.source]\npath = "x/*"\nformat = "parquet"\n'

    assert configured(tmp_path, text).streams["s"].source.format == "parquet"


def test_what_a_stream_declares_itself_wins_value_by_value() -> None:
    stream = stream_of(
        preset="zeek-conn",
        event_time={"unit": "iso"},
        measures=["src_bytes"],
        source={"path": "x", "settle": "5s"},
        columns={"service": "string", "src_bytes": {"path": "orig_bytes"}},
    )

    assert (stream.event_time.column, stream.event_time.unit) == ("ts", "iso")
    assert (stream.source.format, stream.source.settle, stream.measures) == (
        "zeek",
        5_000_000,
        ("src_bytes",),
    )
    assert stream.columns["src_bytes"].model_dump() == stream.columns["dst_bytes"].model_dump() | {
        "path": "orig_bytes"
    }
    assert stream.columns["service"].type == "string" and len(stream.columns) == 12


def test_a_time_that_names_another_column_replaces_the_presets() -> None:
    stream = stream_of(
        preset="nfdump", arrival_time={"column": "received", "unit": "iso"}, source={"path": "x"}
    )

    assert stream.arrival_time and (stream.arrival_time.column, stream.arrival_time.plus) == (
        "received",
        None,
    )


def test_seconds_are_added_to_the_event_time_unless_another_is_named() -> None:
    stream = stream_of(preset="nfdump", event_time={"timezone": "Asia/Tokyo"}, source={"path": "x"})

    assert stream.arrival_time and stream.arrival_time.model_dump(exclude_defaults=True) == {
        "column": "first",
        "unit": "iso",
        "timezone": "Asia/Tokyo",
        "plus": "duration",
    }


def test_a_position_takes_the_place_of_a_path_and_a_type_in_short_is_the_type_alone() -> None:
    stream = stream_of(
        preset="zeek-conn", source={"path": "x"}, columns={"src": {"position": 2}, "src_port": "string"}
    )

    assert (stream.columns["src"].position, stream.columns["src"].path) == (2, None)
    assert (stream.columns["src_port"].type, stream.columns["src_port"].path) == ("string", "id.orig_p")


def test_fewer_keys_leave_the_groupings_that_they_allow() -> None:
    assert stream_of(preset="pcap", keys=["proto"], source={"path": "x"}).groupings == (("proto",), ())


def test_bytes_and_packets_of_presets_add_up_and_readings_do_not(tmp_path: Path) -> None:
    amounts = {"src_bytes", "dst_bytes", "src_packets", "dst_packets", "length"}
    for name in [name for name in preset_names() if name not in BASES]:
        settings = configured(tmp_path, f'[streams.s]\npreset = "{name}"\nsource.path = "x/*"\n')
        stream = settings.streams["s"]
        # Energy of an interval is an amount, too.
        own = amounts | {"value"} if name == "green-button" else amounts
        assert set(stream.sums) == own & set(stream.measures), name


def test_other_measures_or_counters_leave_the_sums_that_they_allow() -> None:
    fewer = stream_of(preset="nfdump", measures=["src_bytes", "duration"], source={"path": "x"})
    meters = stream_of(preset="nfdump", counters=["src_bytes"], source={"path": "x"})

    assert fewer.sums == ("src_bytes",)
    assert meters.sums == ("dst_bytes", "src_packets", "dst_packets")


def test_a_preset_that_is_not_there_is_the_only_problem_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        configured(tmp_path, '[streams.s]\npreset = "zeek_conn"\n')

    [problem] = refused.value.problems
    assert (problem.key, problem.found) == ("streams.s.preset", "'zeek_conn'")
    assert "(did you mean zeek-conn?)" in problem.expected


@pytest.mark.parametrize("name", ["../presets", 3, ["pcap"], ""])
def test_a_preset_is_looked_for_by_its_name_alone(name: Any) -> None:
    assert preset_problem({"preset": name}) is not None


def test_a_flow_lacks_no_column_that_its_shape_is_about(tmp_path: Path) -> None:
    text = """
[streams.s]
event_time = { column = "ts", unit = "s" }
levels = ["1d forever"]
source = { path = "x", format = "csv", shape = "flow" }
columns = { proto = "string" }
"""
    with pytest.raises(ConfigError) as refused:
        configured(tmp_path, text)

    assert [problem.found for problem in refused.value.problems] == [
        "'flow' without the column 'src_port'",
        "'flow' without the column 'dst_port'",
    ]
