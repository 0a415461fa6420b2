"""Rows that break a rule about a column's values: of batches as they are judged, and of raw as it is checked."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.rules import Rule


def broken(values: pa.Array | pa.ChunkedArray, rule: Rule) -> pa.Array | pa.ChunkedArray:
    """Return which values break a rule, without nulls: a missing one breaks only a rule that asks for one."""
    if rule.expect == "column_values_to_not_be_null":
        return pc.is_null(values)
    if rule.expect == "column_values_to_be_in_set":
        wanted = pa.array([_of_type(each, values.type) for each in rule.value_set], values.type)
        return pc.and_(pc.is_valid(values), pc.invert(pc.is_in(values, wanted)))
    if rule.expect == "column_values_to_match_regex":
        return pc.fill_null(pc.invert(pc.match_substring_regex(values, rule.regex or "")), False)
    return pc.fill_null(reduce(pc.or_, _beyond(values, rule)), False)


def _beyond(values: pa.Array | pa.ChunkedArray, rule: Rule) -> Iterable[pa.Array | pa.ChunkedArray]:
    if rule.min_value is not None:
        compare = pc.less_equal if rule.strict_min else pc.less
        yield compare(values, _limit(rule.min_value, values.type))
    if rule.max_value is not None:
        compare = pc.greater_equal if rule.strict_max else pc.greater
        yield compare(values, _limit(rule.max_value, values.type))


def _limit(number: int | float, kind: pa.DataType) -> pa.Scalar:
    """Return a limit as values of a type are compared with it: exactly, where both are exact."""
    if pa.types.is_floating(kind):
        return pa.scalar(float(number), pa.float64())
    return pa.scalar(Decimal(str(number)))


def _of_type(value: str | int | float | bool, kind: pa.DataType) -> object:
    if pa.types.is_decimal(kind):
        scale = Decimal((0, (1,), -kind.scale))
        number = Decimal(str(value))
        # A number of more digits than the column has is no value of it.
        return number.quantize(scale) if number == number.quantize(scale) else None
    if pa.types.is_string(kind):
        return str(value)
    return value
