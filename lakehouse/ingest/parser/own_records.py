"""Rows of records that a stream is about, of sources that hold others too: ``source.where`` over their texts.

SQL's logic of three values: a condition that reads what a record lacks is not true, and the record is none of the
stream's. Cost: some Arrow operations a block for each comparison; of numbers in unusual spelling one by one.
"""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.where import Condition, condition
from lakehouse.ingest.parser.field_map import WHERE
from lakehouse.ingest.parser.plain_values import Mask
from lakehouse.spark.comparisons import compared

_NUMBER = pa.decimal128(38, 18)
# What fits into that type with all its digits.
_PLAIN = r"^[+-]?[0-9]{1,19}(\.[0-9]{1,18})?$"


def are_own(texts: Mapping[str, pa.Array], where: str) -> Mask:
    """Return of which rows the condition is true; ``texts``: of wanted fields, null where a record has none."""
    is_true = pc.fill_null(_value(condition(where), texts), False)
    return np.asarray(is_true.to_numpy(zero_copy_only=False))


def _value(of: Condition, texts: Mapping[str, pa.Array]) -> pa.Array:
    match of:
        case ("AND" | "OR" as word, *parts):
            join = pc.and_kleene if word == "AND" else pc.or_kleene
            return reduce(join, [_value(part, texts) for part in parts])
        case ("NOT", part):
            return pc.invert(_value(part, texts))
        case ("NULL", path):
            return pc.is_null(texts[WHERE + path])
        case ("LIKE", path, pattern):
            return pc.match_like(texts[WHERE + path], pattern)
        case (operator, path, literal):
            return _compared(operator, texts[WHERE + path], literal)
    raise AssertionError(of)


def _compared(operator: str, text: pa.Array, literal: str | Decimal) -> pa.Array:
    if isinstance(literal, str):
        return compared(operator, text, pa.scalar(literal))
    is_plain = pc.match_substring_regex(text, _PLAIN)
    plain = pc.if_else(is_plain, text, pa.scalar(None, pa.string())).cast(_NUMBER)
    result = compared(operator, plain, literal)
    is_odd = pc.fill_null(pc.invert(is_plain), False)
    if not pc.any(is_odd).as_py():
        return result
    odd = [_by_itself(operator, each, literal) for each in text.filter(is_odd).to_pylist()]
    return pc.replace_with_mask(result, is_odd, pa.array(odd, pa.bool_()))


def _by_itself(operator: str, text: str, literal: Decimal) -> Any:
    """Compare a text with a number; None where it is none."""
    try:
        number = Decimal(text) if text.isascii() and "_" not in text else Decimal("NaN")
    except InvalidOperation:
        return None
    return compared(operator, number, literal).as_py() if number.is_finite() else None
