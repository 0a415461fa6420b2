"""Rules -> Great Expectations suites, one per table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakehouse.declare.settings import QualitySettings
from quality.rules import Rule

if TYPE_CHECKING:
    import great_expectations as gx
    from great_expectations.expectations.expectation import Expectation


def build_suite(table: str, rules: Sequence[Rule], settings: QualitySettings) -> gx.ExpectationSuite:
    """Return the suite that judges the table's frame by these rules."""
    import great_expectations as gx

    return gx.ExpectationSuite(name=table, expectations=[_expectation(rule, settings) for rule in rules])


def _expectation(rule: Rule, settings: QualitySettings) -> Expectation:
    from great_expectations.expectations.core.expect_column_max_to_be_between import (
        ExpectColumnMaxToBeBetween,
    )

    return ExpectColumnMaxToBeBetween(
        column=rule.metric,
        max_value=rule.limit(settings),
        description=rule.says,
        meta={"metric": rule.metric},
    )
