"""Rows that break a rule about their values: of batches as they are judged, and of raw as it is checked."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial, reduce
from itertools import combinations
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.rules import Rule
from lakehouse.spark.comparisons import compared

Values: TypeAlias = pa.Array | pa.ChunkedArray
_AND, _OR = partial(reduce, pc.and_kleene), partial(reduce, pc.or_kleene)


def broken(rows: Mapping[str, Values] | pa.Table, rule: Rule) -> Values:
    """Return which rows break a rule, without nulls."""
    return pc.fill_null(verdicts(rows, rule), False)


def verdicts(rows: Mapping[str, Values] | pa.Table, rule: Rule) -> Values:
    """Return which rows break a rule, and null of those that it does not judge; values are by column."""
    values = [rows[name] for name in rule.columns]
    if len(values) == 1:
        return JUDGES[rule.expect](values, rule)
    breaks = pc.fill_null(JUDGES[rule.expect](_comparable(values), rule), True)
    if rule.ignored in ("neither", "never"):
        return breaks
    every = rule.ignored.startswith(("all", "both"))
    left_out = (_AND if every else _OR)([pc.is_null(each) for each in values])
    return pc.if_else(left_out, pa.scalar(None, pa.bool_()), breaks)


def _comparable(values: Sequence[Values]) -> Sequence[Values]:
    """Return numbers as one type, exact where all of them are; the sum of sixteen fits."""
    kinds = [each.type for each in values]
    if not all(pa.types.is_integer(kind) or _is_fraction(kind) for kind in kinds):
        return values
    exact = pa.decimal256(57, max(getattr(kind, "scale", 0) for kind in kinds))
    kind = pa.float64() if any(map(pa.types.is_floating, kinds)) else exact
    return [each.cast(kind) for each in values]


def _is_fraction(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind) or pa.types.is_floating(kind))


def _outside(values: Values, rule: Rule) -> Values:
    return _OR(list(_beyond(values, rule)))


def _beyond(values: Values, rule: Rule) -> Iterator[Values]:
    if rule.min_value is not None:
        yield _compared("LTE" if rule.strict_min else "LT", values, rule.min_value)
    if rule.max_value is not None:
        yield _compared("GTE" if rule.strict_max else "GT", values, rule.max_value)


def _compared(name: str, values: Values, number: int | float) -> Values:
    """Compare values with a number of a rule: exactly, where both are exact."""
    return compared(name, values, Decimal(str(number)))


def _of_type(value: str | int | float | bool, kind: pa.DataType) -> object:
    """Return a value as a column of a type has it, None where the column has no such value."""
    if pa.types.is_string(kind):
        return str(value)
    if pa.types.is_boolean(kind) or isinstance(value, bool | str):
        return value if pa.types.is_boolean(kind) == isinstance(value, bool) else None
    if pa.types.is_floating(kind):
        return float(value)
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    units = Fraction(str(value)) * 10**scale
    if units.denominator != 1 or abs(units) >= (10**38 if pa.types.is_decimal(kind) else 2**63):
        return None
    return Decimal(f"{units.numerator}e-{scale}") if pa.types.is_decimal(kind) else units.numerator


def _among(values: Values, rule: Rule) -> Values:
    """Return which values are in the set; null where there is none."""
    wanted = pa.array([_of_type(each, values.type) for each in rule.value_set], values.type)
    is_in = pc.is_in(values, wanted)
    return pc.if_else(pc.is_valid(values), is_in, pa.scalar(None, pa.bool_()))


def _matching(patterns: Sequence[str], how: Callable[[Sequence[Values]], Values], values: Values) -> Values:
    return how([pc.match_substring_regex(values, pattern) for pattern in patterns])


def _in_pairs(values: Sequence[Values], rule: Rule) -> Values:
    one, other = values
    return _OR(
        [
            pc.and_(
                pc.equal(one, pa.scalar(_of_type(a, one.type), one.type)),
                pc.equal(other, pa.scalar(_of_type(b, other.type), other.type)),
            )
            for a, b in rule.value_pairs_set
        ]
    )


def _alike(values: Sequence[Values], rule: Rule) -> Values:
    """Return the rows of which two columns are the same; two missing values are."""
    pairs = combinations(values, 2)
    both_null = (pc.and_(pc.is_null(a), pc.is_null(b)) for a, b in combinations(values, 2))
    same = [pc.fill_null(pc.equal(a, b), False) for a, b in pairs]
    return _OR([*same, *both_null])


def _not_after(values: Sequence[Values], rule: Rule) -> Values:
    return (pc.less if rule.or_equal else pc.less_equal)(*values)


# By expectation, which rows break it; null where a value is missing.
JUDGES: Mapping[str, Callable[[Sequence[Values], Rule], Values]] = {
    "column_values_to_be_between": lambda each, rule: _outside(each[0], rule),
    "column_values_to_not_be_null": lambda each, rule: pc.is_null(each[0]),
    "column_values_to_be_null": lambda each, rule: pc.is_valid(each[0]),
    "column_values_to_be_in_set": lambda each, rule: pc.invert(_among(each[0], rule)),
    "column_values_to_not_be_in_set": lambda each, rule: _among(each[0], rule),
    "column_values_to_match_regex": lambda each, rule: pc.invert(_matching([rule.regex or ""], _OR, each[0])),
    "column_values_to_not_match_regex": lambda each, rule: _matching([rule.regex or ""], _OR, each[0]),
    "column_values_to_match_regex_list": lambda each, rule: pc.invert(
        _matching(rule.regex_list, _AND if rule.match_on == "all" else _OR, each[0])
    ),
    "column_values_to_not_match_regex_list": lambda each, rule: _matching(rule.regex_list, _OR, each[0]),
    "column_values_to_match_like_pattern": lambda each, rule: pc.invert(
        pc.match_like(each[0], rule.like_pattern)
    ),
    "column_values_to_not_match_like_pattern": lambda each, rule: pc.match_like(each[0], rule.like_pattern),
    "column_value_lengths_to_be_between": lambda each, rule: _outside(pc.utf8_length(each[0]), rule),
    "column_value_lengths_to_equal": lambda each, rule: pc.not_equal(pc.utf8_length(each[0]), rule.value),
    "column_pair_values_a_to_be_greater_than_b": _not_after,
    "column_pair_values_to_be_equal": lambda each, rule: pc.not_equal(*each),
    "column_pair_values_to_be_in_set": lambda each, rule: pc.invert(_in_pairs(each, rule)),
    "multicolumn_sum_to_equal": lambda each, rule: _compared(
        "NEQ", reduce(pc.add, each), rule.sum_total or 0
    ),
    "select_column_values_to_be_unique_within_record": _alike,
}
