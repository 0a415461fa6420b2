"""Levels of a stream as they are declared: each by its width and keep, or all by the geometry of the paper's tree."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo

from lakehouse.algorithms.rollup.levels import Level, geometric_levels
from lakehouse.config.durations import parse_duration

_LEVEL = re.compile(r"^\s*(\w+)\s+(?:for\s+(\w+)|(forever))\s*$")
_GEOMETRY = {"first", "alpha", "l"}
_GEOMETRIC = 'such as { first = "1s", alpha = 2, l = 2 }'
# No bounds were readable: they are told of by themselves.
_ANY_SPAN_US = parse_duration("100y")


def _level(value: Any) -> Any:
    if isinstance(value, Level):
        return value
    found = _LEVEL.match(str(value))
    if not found:
        raise ValueError('expected "WIDTH for KEEP" or "WIDTH forever", such as "1m for 2d" or "1d forever"')
    keep = None if found[2] in (None, "forever") else parse_duration(found[2])
    return Level(parse_duration(found[1]), keep)


def _levels(value: Any, info: ValidationInfo) -> Any:
    """Return the levels of a geometry, over the times that the stream's events may have; others as they are."""
    if not isinstance(value, dict):
        return value
    if set(value) != _GEOMETRY:
        raise ValueError(f"expected the keys first, alpha and l, {_GEOMETRIC}")
    for name, least, most in (("alpha", 2, 1000), ("l", 1, 10)):
        number = value[name]
        if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
            raise ValueError(f"expected {name} as a whole number from {least} to {most}, {_GEOMETRIC}")
    low, high = info.data.get("event_time_bounds", (0, _ANY_SPAN_US))
    first_us = parse_duration(value["first"] if isinstance(value["first"], str) else "")
    return geometric_levels(first_us, value["alpha"], value["l"], max(high - low, 1))


StreamLevels = Annotated[tuple[Annotated[Level, BeforeValidator(_level)], ...], BeforeValidator(_levels)]
