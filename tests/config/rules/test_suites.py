"""Suites of Great Expectations in its own format, as rules of a stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakehouse.config.problems import ConfigError
from lakehouse.config.rules import Rule
from lakehouse.settings import Settings, load_settings

Write = Callable[..., Path]
STREAM = """
[streams.s]
event_time = { column = "at", unit = "iso" }
keys = ["device"]
measures = ["temp"]
groupings = [["device"]]
levels = ["1d forever"]
source = { path = "x/*.csv", format = "csv" }
"""


def _configured(folder: Path, suites: dict[str, Any], more: str = "") -> Settings:
    (folder / "tidemark.toml").write_text(STREAM + more)
    own = folder / "quality" / "s"
    own.mkdir(parents=True)
    for name, suite in suites.items():
        (own / name).write_text(suite if isinstance(suite, str) else json.dumps(suite))
    return load_settings(folder / "tidemark.toml")


def test_a_suite_that_great_expectations_wrote_is_read_as_it_is(tmp_path: Path) -> None:
    gx = pytest.importorskip("great_expectations")
    suite = gx.ExpectationSuite(
        name="air",
        expectations=[
            gx.expectations.ExpectColumnValuesToBeBetween(
                column="temp", min_value=-40, max_value=85, mostly=0.999, meta={"on_failure": "withhold"}
            ),
            gx.expectations.ExpectColumnValuesToNotBeNull(column="temp", description="Each has a value."),
            gx.expectations.ExpectColumnMeanToBeBetween(column="temp", min_value=0, strict_min=True),
            gx.expectations.ExpectColumnQuantileValuesToBeBetween(
                column="temp", quantile_ranges={"quantiles": [0.5], "value_ranges": [[10, 30]]}
            ),
            gx.expectations.ExpectColumnValuesToBeInSet(column="device", value_set=["a", "b"]),
        ],
    )

    settings = _configured(tmp_path, {"air.json": suite.to_json_dict()})
    rules = [rule for rule in settings.streams["s"].rules if isinstance(rule, Rule)]

    assert [(rule.name, rule.on_failure, rule.mostly) for rule in rules] == [
        ("temp_be_between", "withhold", 0.999),
        ("temp_not_be_null", "warn", 1.0),
        ("temp_mean_to_be_between", "warn", 1.0),
        ("temp_quantile_values_to_be_between", "warn", 1.0),
        ("device_be_in_set", "warn", 1.0),
    ]
    assert rules[0].sentence == "temp is at least -40 and at most 85"
    assert rules[1].sentence == "Each has a value."


def test_suites_stand_behind_the_rules_of_the_declaration_and_no_two_have_one_name(tmp_path: Path) -> None:
    kind = {"expectation_type": "expect_column_values_to_be_between"}
    low, high = (
        kind | {"kwargs": {"column": "temp"} | more} for more in ({"min_value": 0}, {"max_value": 9})
    )
    suites = {
        "a.json": {"expectations": [low, high]},
        "b.json": {"expectations": [{**low, "meta": {"name": "low"}}]},
    }
    own = '[[streams.s.rules]]\nexpect = "column_values_to_not_be_null"\ncolumn = "temp"\n'

    rules = _configured(tmp_path, suites, own).streams["s"].rules

    assert [rule.name for rule in rules] == [
        "temp_not_be_null",
        "temp_be_between",
        "temp_be_between_2",
        "low",
    ]


@pytest.mark.parametrize(
    ("suite", "told"),
    [
        ("{", "quality/s/a.json: found Expecting"),
        ([], "quality/s/a.json: found no list of expectations; expected a suite"),
        (
            {"expectations": [{"type": "expect_column_values_to_be_betwen", "kwargs": {"column": "temp"}}]},
            "(did you mean column_values_to_be_between?)",
        ),
        (
            {"expectations": [{"type": "expect_column_values_to_be_null", "kwargs": {"column": "tmp"}}]},
            "quality/s/a.json: expectations.0.column: found 'tmp'; expected",
        ),
        (
            {
                "expectations": [
                    {
                        "type": "expect_column_values_to_be_null",
                        "kwargs": {"column": "temp", "row_condition": "x"},
                    }
                ]
            },
            "quality/s/a.json: expectations.0.row_condition: found 'x'",
        ),
    ],
)
def test_what_cannot_be_read_is_named_with_file_and_number(tmp_path: Path, suite: Any, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        _configured(tmp_path, {"a.json": suite})

    assert told in str(refused.value)
