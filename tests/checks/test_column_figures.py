"""Figures of columns, and what rules make of them, are those of Great Expectations' own pandas engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lakehouse.algorithms.profile.summary import Summary
from lakehouse.checks.column_figures import FIGURES, judged_figures, summary_of
from lakehouse.config.rules import EXPECTATIONS, Rule

FRAME = pd.DataFrame(
    {
        "x": [
            None if n % 9 == 0 else round(float(x), 1)
            for n, x in enumerate(np.random.default_rng(4).normal(20, 5, 300))
        ],
        "s": [None if n % 7 == 0 else f"dev-{n % 13}" for n in range(300)],
    }
)
RANGES = [(19.0, 21.0), (21.0, None), (None, 5.0), (0.0, 0.9), (13.0, 13.0), (300.0, 300.0)]
RULES: list[dict[str, Any]] = [
    {"expect": expect, "min_value": low, "max_value": high}
    | ({"column": column} if "column" in expect else {})
    for low, high in RANGES
    for column in ("x", "s")
    for expect in FIGURES
    if "equal" not in expect and (column == "x" or EXPECTATIONS[expect].type == "any")
]
RULES += [{"expect": "table_row_count_to_equal", "value": value} for value in (300, 299)]
QUANTILES = "column_quantile_values_to_be_between"
RULES += [
    {
        **{"expect": QUANTILES, "column": "x"},
        "quantile_ranges": {"quantiles": [0.1, 0.5, 0.9], "value_ranges": [[10, 16], [low, 25], [None, 30]]},
    }
    for low in (18, 22)
]


def test_every_figure_and_its_verdict_are_those_of_great_expectations() -> None:
    import great_expectations as gx
    from great_expectations.expectations.registry import get_expectation_impl

    data = gx.get_context(mode="ephemeral").data_sources.add_pandas("given")
    batch = data.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("all")
    given = batch.get_batch({"dataframe": FRAME})
    for rule in RULES:
        options = {name: value for name, value in rule.items() if name != "expect"}
        result = given.validate(get_expectation_impl("expect_" + rule["expect"])(**options))
        column = rule.get("column", "x")
        parts = [
            summary_of(pa.array(FRAME[column][piece], from_pandas=True))
            for piece in (slice(0, 110), slice(110, None))
        ]
        whole = Summary.combined(parts)

        beyond, seen = judged_figures(Rule.model_validate(rule), whole)

        assert (beyond <= 0) == result.success, (rule, seen)
        if rule["expect"] in FIGURES:
            own = FIGURES[rule["expect"]](whole)
            assert own == pytest.approx(result.result["observed_value"]), rule


def test_every_expectation_about_a_whole_column_is_offered_and_judged() -> None:
    whole = {expect for expect, needs in EXPECTATIONS.items() if needs.whole}

    assert whole == {*FIGURES, QUANTILES} == {rule["expect"] for rule in RULES}


def test_a_column_without_values_is_not_judged() -> None:
    rule = Rule(expect="column_mean_to_be_between", column="x", min_value=1)

    assert judged_figures(rule, summary_of(pa.nulls(3, pa.float64()))) == (
        0.0,
        "nothing to judge in 3 new rows",
    )


def test_an_end_that_is_not_part_of_a_range_is_outside_of_it() -> None:
    rule = Rule(expect="column_max_to_be_between", column="x", max_value=5, strict_max=True)

    assert judged_figures(rule, summary_of(pa.array([4.0, 5.0])))[0] > 0
