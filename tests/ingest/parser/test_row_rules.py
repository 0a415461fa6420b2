"""Rows that break a rule are those of Great Expectations' own pandas engine, for every expectation that is offered."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from lakehouse.config.rules import EXPECTATIONS, Rule
from lakehouse.ingest.parser.row_rules import JUDGES, verdicts

KWARGS: list[dict[str, Any]] = [
    {"expect": "column_values_to_be_between", "column": "a", "min_value": -2, "max_value": 3},
    {"expect": "column_values_to_be_between", "column": "x", "max_value": 1.5, "strict_max": True},
    {"expect": "column_values_to_not_be_null", "column": "a"},
    {"expect": "column_values_to_be_null", "column": "x"},
    {"expect": "column_values_to_be_in_set", "column": "a", "value_set": [1, 2, -3]},
    {"expect": "column_values_to_not_be_in_set", "column": "s", "value_set": ["ab", "b"]},
    {"expect": "column_values_to_match_regex", "column": "s", "regex": "^a"},
    {"expect": "column_values_to_not_match_regex", "column": "s", "regex": "b$"},
    {"expect": "column_values_to_match_regex_list", "column": "s", "regex_list": ["^a", "b$"]},
    {
        **{"expect": "column_values_to_match_regex_list", "column": "s", "regex_list": ["^a", "b$"]},
        "match_on": "all",
    },
    {"expect": "column_values_to_not_match_regex_list", "column": "s", "regex_list": ["^b", "aa"]},
    {"expect": "column_value_lengths_to_be_between", "column": "s", "min_value": 2, "strict_min": True},
    {"expect": "column_value_lengths_to_equal", "column": "s", "value": 2},
    {"expect": "column_pair_values_a_to_be_greater_than_b", "column_A": "a", "column_B": "b"},
    {
        **{"expect": "column_pair_values_a_to_be_greater_than_b", "column_A": "a", "column_B": "b"},
        **{"or_equal": True, "ignore_row_if": "either_value_is_missing"},
    },
    {"expect": "column_pair_values_to_be_equal", "column_A": "a", "column_B": "b"},
    {
        **{"expect": "column_pair_values_to_be_equal", "column_A": "a", "column_B": "b"},
        "ignore_row_if": "neither",
    },
    {
        **{"expect": "column_pair_values_to_be_in_set", "column_A": "a", "column_B": "b"},
        "value_pairs_set": [[1, 2], [0, 0], [-1, 3]],
    },
    {"expect": "multicolumn_sum_to_equal", "column_list": ["a", "b"], "sum_total": 1},
    {
        **{"expect": "multicolumn_sum_to_equal", "column_list": ["a", "b", "x"], "sum_total": 2},
        "ignore_row_if": "any_value_is_missing",
    },
    {"expect": "select_column_values_to_be_unique_within_record", "column_list": ["a", "b", "x"]},
]
PATTERNS = ("column_values_to_match_like_pattern", "column_values_to_not_match_like_pattern")


def rows_of(seed: int) -> pd.DataFrame:
    """Return rows of small numbers and texts, many of them missing."""
    values = random.Random(seed)
    numbers = [None, None, -3, -2, -1, 0, 1, 2, 3, 4]
    return pd.DataFrame(
        {
            "a": [values.choice(numbers) for _ in range(80)],
            "b": [values.choice(numbers) for _ in range(80)],
            "x": [values.choice([*numbers, 0.5, 1.5, 2.25]) for _ in range(80)],
            "s": [values.choice([None, "", "a", "ab", "b", "baa", "äb", "aab"]) for _ in range(80)],
        }
    )


def as_stored(frame: pd.DataFrame, kind: pa.DataType) -> dict[str, pa.Array]:
    given = pa.Table.from_pandas(frame)
    stored = {name: given[name].cast(kind) for name in ("a", "b")}
    return {
        **stored,
        "x": given["x"].cast(pa.decimal128(38, 2) if kind != pa.float64() else kind),
        "s": given["s"],
    }


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.decimal128(38, 1)], ids=str)
def test_rows_that_are_judged_and_break_a_rule_are_those_of_great_expectations(kind: pa.DataType) -> None:
    import great_expectations as gx
    from great_expectations.expectations.registry import get_expectation_impl

    frame = rows_of(7)
    data = gx.get_context(mode="ephemeral").data_sources.add_pandas("given")
    batch = data.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("all")
    given = batch.get_batch({"dataframe": frame})
    for rule in KWARGS:
        options = {name: value for name, value in rule.items() if name != "expect"}
        expectation = get_expectation_impl("expect_" + rule["expect"])(**options)
        result = given.validate(expectation, result_format="COMPLETE").result
        own = verdicts(as_stored(frame, kind), Rule.model_validate(rule)).to_pylist()

        assert [n for n, breaks in enumerate(own) if breaks] == result["unexpected_index_list"], rule
        assert len(own) - own.count(None) == result["element_count"] - (result.get("missing_count") or 0), (
            rule
        )


def test_every_expectation_about_rows_is_offered_judged_and_compared() -> None:
    about_rows = {expect for expect, needs in EXPECTATIONS.items() if not needs.whole}

    # Its pandas engine has no patterns of SQL.
    assert about_rows == JUDGES.keys() == {*PATTERNS, *(rule["expect"] for rule in KWARGS)}


def test_values_of_other_scales_are_compared_exactly() -> None:
    rows = {
        "a": pa.array([Decimal("0.1")], pa.decimal128(38, 1)),
        "b": pa.array([Decimal("0.10")], pa.decimal128(38, 2)),
    }

    equal = Rule(expect="column_pair_values_to_be_equal", column_A="a", column_B="b")

    assert verdicts(rows, equal).to_pylist() == [False]


NUMBERS = [0, 1, -1, 1.5, 0.005, 1e-300, 1e30, -1e30, 1e300, 2**70, -(2**63), 2**63 - 1, 10**38]


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.decimal128(38, 0), pa.decimal128(38, 2), pa.decimal128(38, 18)]
)
@pytest.mark.parametrize("number", NUMBERS)
def test_exact_values_are_compared_with_any_number_as_fractions_are(kind: pa.DataType, number: float) -> None:
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    most = 10**38 - 1 if pa.types.is_decimal(kind) else 2**63 - 1
    units = [0, 1, -1, 150, most, -most, min(10**18, most)]
    texts = [Decimal(f"{each}e-{scale}") for each in units]
    column = pa.array(texts if pa.types.is_decimal(kind) else units, kind)
    values, limit = [Fraction(each) / 10**scale for each in units], Fraction(str(number))
    between = {"expect": "column_values_to_be_between", "column": "a"}
    rules = [
        ({**between, "min_value": number}, [value < limit for value in values]),
        ({**between, "min_value": number, "strict_min": True}, [value <= limit for value in values]),
        ({**between, "max_value": number}, [value > limit for value in values]),
        (
            {"expect": "column_values_to_not_be_in_set", "column": "a", "value_set": [number]},
            [value == limit for value in values],
        ),
    ]

    for rule, expected in rules:
        assert verdicts({"a": column}, Rule.model_validate(rule)).to_pylist() == expected, rule
