"""Problems of a configuration name the line of their key, whatever way it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.config.problems import ConfigError
from lakehouse.config.toml_lines import lines_of
from lakehouse.settings import load_settings

CONFIG = '''home = "var"
[streams.meters]
event_time = { column = "at", unit = "iso" }
keys = ["device"]
groupings = [["device"]]
levels = ["1d forever"]
source = { path = "landing/*.csv", format = "csv" }
columns = { temp = "double" }
[[streams.meters.rules]]
expect = "column_values_to_be_between"
column = "tmp"
min_value = 1
[[streams.meters.rules]]
expect = "column_values_to_be_betwen"
column = "temp"
min_value = 1
[[streams.meters.rules]]
says = """
[[streams.meters.rules]]
freshness = 3"""
fresness = "15m"
[[streams.meters.rules]]
silent.key = "devise"
silent.after = "30m"
'''
MEANT = [f"(did you mean {name}?)" for name in ("temp", "column_values_to_be_between", "freshness", "device")]


def refusals(folder: Path, text: str) -> list[str]:
    (folder / "tidemark.toml").write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_settings(folder / "tidemark.toml")
    return [str(problem) for problem in refused.value.problems]


def test_each_problem_of_a_rule_has_its_line_what_was_found_and_what_could_be_meant(tmp_path: Path) -> None:
    found = refusals(tmp_path, CONFIG)

    assert [
        (line.partition(": found")[0], line.endswith(meant)) for line, meant in zip(found, MEANT, strict=True)
    ] == [
        ("line 11: streams.meters.rules.0.column", True),
        ("line 14: streams.meters.rules.1.expect", True),
        ("line 21: streams.meters.rules.2.fresness", True),
        ("line 23: streams.meters.rules.3.silent.key", True),
    ]


def test_problems_of_other_sections_have_lines_too(tmp_path: Path) -> None:
    text = (
        "\ufeff"
        + CONFIG.partition("[[streams")[0].replace('"device"', '"devise"')
        + "[serving]\nkeep_versions = 'x'\n"
    )

    first, second = refusals(tmp_path, text.replace('["1d forever"]', '[\n"1h for 1m",\n"1d forever"]'))

    assert first.startswith("line 6: streams.meters.levels, ")
    assert second.startswith("line 12: serving.keep_versions: found 'x'")


def test_lines_are_those_of_keys_tables_and_items_of_lists() -> None:
    text = '[a."b.c"]\nd.e = 1 # [x]\n[[a.f]]\n[a.f.g]\nh = 1\n[[a.f]]\n[[a.f.i]]\n[[a.f.i]]\nj = [1,\n2]\r\nk = 2'

    lines = lines_of(text)

    assert {
        key: lines[key]
        for key in ("a.b.c", "a.b.c.d.e", "a.f.0.g.h", "a.f.1.i.0", "a.f.1.i.1.j", "a.f.1.i.1.k")
    } == {**{"a.b.c": 1, "a.b.c.d.e": 2, "a.f.0.g.h": 5, "a.f.1.i.0": 7, "a.f.1.i.1.j": 9, "a.f.1.i.1.k": 11}}
