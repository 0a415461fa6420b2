"""Comparisons of Arrow values, each an array or a scalar, and of literals, which are exact numbers of any size.

Whole numbers, decimals and literals are compared exactly, beside a double all as doubles.
"""

import operator
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_IN_ARROW: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": pc.equal,
    "NEQ": pc.not_equal,
    "LT": pc.less,
    "LTE": pc.less_equal,
    "GT": pc.greater,
    "GTE": pc.greater_equal,
}
_TURNED = {"EQ": "EQ", "NEQ": "NEQ", "LT": "GT", "LTE": "GTE", "GT": "LT", "GTE": "LTE"}
_OF_LITERALS: dict[str, Callable[[Decimal, Decimal], bool]] = {
    "EQ": operator.eq,
    "NEQ": operator.ne,
    "LT": operator.lt,
    "LTE": operator.le,
    "GT": operator.gt,
    "GTE": operator.ge,
}
COMPARISONS = frozenset(_IN_ARROW)


def compared(name: str, one: Any, two: Any) -> Any:
    """Compare two values; booleans as 0 and 1, and null with null only where the operator says so."""
    if isinstance(one, Decimal) and isinstance(two, Decimal):
        return pa.scalar(_OF_LITERALS[name](one, two))
    if isinstance(one, Decimal):
        return compared(_TURNED[name], two, one)
    if isinstance(two, Decimal):
        if pa.types.is_integer(one.type) or pa.types.is_decimal(one.type):
            return _beside_literal(name, one, two)
        two = double(two)
    one, two = _alike(one, two)
    if pa.types.is_floating(one.type) and any(pc.any(pc.is_nan(each)).as_py() for each in (one, two)):
        return _IN_ARROW[name](*_ranked(one, two))
    return _IN_ARROW[name](one, two)


def _beside_literal(name: str, one: Any, literal: Decimal) -> Any:
    """Compare whole numbers or decimals with a literal exactly: with what it is, rounded down, in their own type."""
    scale = one.type.scale if pa.types.is_decimal(one.type) else 0
    scaled = Fraction(literal) * 10**scale
    floor = scaled.numerator // scaled.denominator
    if floor != scaled:
        if name in ("EQ", "NEQ"):
            return _all(one, name == "NEQ")
        name = "LTE" if name in ("LT", "LTE") else "GT"
    least, most = _range(one.type)
    if least <= floor <= most:
        # Calculating with decimals would round to the digits of their context.
        number = floor if not scale else Decimal(f"{floor}E-{scale}")
        return _IN_ARROW[name](one, pa.scalar(number, one.type))
    return _all(one, name == "NEQ" or name in (("LT", "LTE") if floor > most else ("GT", "GTE")))


def _all(one: Any, is_so: bool) -> Any:
    """Return the same for every value that is not null."""
    return pc.if_else(pc.is_valid(one), pa.scalar(is_so), pa.scalar(None, pa.bool_()))


def _range(kind: pa.DataType) -> tuple[int, int]:
    """Return the least and the greatest value of a type, of decimals in units of the last digit."""
    if pa.types.is_decimal(kind):
        return 1 - 10**kind.precision, 10**kind.precision - 1
    return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1


def _ranked(one: Any, two: Any) -> tuple[Any, Any]:
    """Return whole numbers that compare as doubles do: NaN equals itself and is greater than all others."""
    is_above, is_below = pc.greater(one, two), pc.less(one, two)
    nan_one, nan_two = pc.is_nan(one), pc.is_nan(two)
    first = pc.if_else(pc.or_(is_above, pc.and_not(nan_one, nan_two)), 1, 0)
    second = pc.if_else(pc.or_(is_below, pc.and_not(nan_two, nan_one)), 1, 0)
    return first, second


def _alike(one: Any, two: Any) -> tuple[Any, Any]:
    """Return two values in a common type."""
    if pa.types.is_null(one.type) and pa.types.is_null(two.type):
        return one.cast(pa.int64()), two.cast(pa.int64())
    if pa.types.is_null(one.type):
        return _alike(one.cast(two.type), two)
    if pa.types.is_null(two.type):
        return _alike(one, two.cast(one.type))
    types = (one.type, two.type)
    if any(map(pa.types.is_boolean, types)):
        return one.cast(pa.int8()), two.cast(pa.int8())
    if any(map(pa.types.is_floating, types)):
        return double(one), double(two)
    if pa.types.is_decimal(types[0]) != pa.types.is_decimal(types[1]) or types[0] != types[1]:
        return _exact(one, two)
    return one, two


def _exact(one: Any, two: Any) -> tuple[Any, Any]:
    """Return whole numbers and decimals as decimals of one type; texts as they are."""
    types = [each.type for each in (one, two)]
    if not any(map(pa.types.is_decimal, types)):
        return one, two
    scale = max(each.scale for each in types if pa.types.is_decimal(each))
    wide = pa.decimal256(76, scale)
    return one.cast(wide), two.cast(wide)


def same(one: Any, two: Any) -> Any:
    """Return where two values are equal or both null."""
    both = pc.and_(is_null(one), is_null(two))
    return pc.or_(both, pc.fill_null(compared("EQ", one, two), False))


def is_null(one: Any) -> Any:
    """Return where a value is null; a literal never is."""
    return pa.scalar(False) if isinstance(one, Decimal) else pc.is_null(one)


def double(one: Any) -> Any:
    """Return the nearest doubles; Arrow's own conversion of decimals is often off by one unit in the last place."""
    if isinstance(one, Decimal):
        return pa.scalar(float(one))
    exact = pc.cast(one, pa.string()) if pa.types.is_decimal(one.type) else one
    return pc.cast(exact, pa.float64(), safe=False)
