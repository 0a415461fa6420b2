"""Summaries of the columns that rules are about as a whole, and the figures of them that the rules judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.profile.summary import DISTINCT_ERROR, SIZE, Summary
from lakehouse.spark.row_hash import xxhash64

if TYPE_CHECKING:
    from lakehouse.config.rules import Rule

# The smallest distance from a range: that of a value on an end which is not part of it.
_TINY = float(np.nextafter(0.0, 1.0))
Range = tuple[float | None, float | None]


def summary_of(values: pa.ChunkedArray | pa.Array) -> Summary:
    """Return the summary of a column's values."""
    there = pc.drop_null(values)
    kind, numbers = values.type, None
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = there.cast(pa.float64(), safe=False).to_numpy()
    return Summary.of(values.null_count, xxhash64([there], len(there)), numbers)


def combined(stored: Sequence[Mapping[str, Any]]) -> Summary:
    """Return the summary of all parts of a column, which JSON holds."""
    return Summary.combined([Summary(**part) for part in stored])


def _of_rows(summary: Summary, figure: float | None) -> float | None:
    return figure if summary.count else None


# By expectation, the figure of a summary that has to be in a range; None where there is none.
FIGURES: Mapping[str, Callable[[Summary], float | None]] = {
    "column_min_to_be_between": lambda column: column.low,
    "column_max_to_be_between": lambda column: column.high,
    "column_mean_to_be_between": lambda column: _of_rows(column, column.mean),
    "column_median_to_be_between": lambda column: column.median if column.count else None,
    "column_sum_to_be_between": lambda column: _of_rows(column, column.total),
    "column_stdev_to_be_between": lambda column: column.deviation,
    "column_unique_value_count_to_be_between": lambda column: column.distinct,
    "column_proportion_of_unique_values_to_be_between": lambda column: (
        min(column.distinct / column.count, 1.0) if column.count else None
    ),
    "column_proportion_of_non_null_values_to_be_between": lambda column: (
        column.count / column.rows if column.rows else None
    ),
    "table_row_count_to_be_between": lambda column: float(column.rows),
    "table_row_count_to_equal": lambda column: float(column.rows),
}


def judged_figures(rule: Rule, column: Summary) -> tuple[float, str]:
    """Return how far the figures of a summary are outside of the rule's ranges, and a sentence on them."""
    figures = list(_figures(rule, column))
    if any(figure is None for _, figure, _ in figures):
        return 0.0, f"nothing to judge in {column.rows:,} new rows"
    beyond = max(_beyond(figure or 0.0, within, rule) for _, figure, within in figures)
    shown = ", ".join(f"{name}{figure:.10g}" for name, figure, _ in figures)
    about = ""
    if "unique" in rule.expect and len(column.hashes) >= SIZE:
        about = f" (give or take {2 * DISTINCT_ERROR:.0%})"
    return beyond, f"it is {shown}{about} in {column.rows:,} new rows"


def _figures(rule: Rule, column: Summary) -> Iterator[tuple[str, float | None, Range]]:
    if rule.quantile_ranges is None:
        ends = (rule.value, rule.value) if rule.value is not None else (rule.min_value, rule.max_value)
        yield "", FIGURES[rule.expect](column), ends
        return
    for share, within in zip(rule.quantile_ranges.quantiles, rule.quantile_ranges.value_ranges, strict=True):
        yield f"at {share:g} ", column.quantile(share) if column.count else None, within


def _beyond(figure: float, within: Range, rule: Rule) -> float:
    low, high = within
    apart = 0.0
    if low is not None and (figure < low or (rule.strict_min and figure == low)):
        apart = max(low - figure, _TINY)
    if high is not None and (figure > high or (rule.strict_max and figure == high)):
        apart = max(figure - high, _TINY, apart)
    return apart
