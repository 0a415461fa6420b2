"""The SQL of range aggregates: the macros of each, and the statement that a connection plans for one series.

The aggregates differ in a few expressions only. ``range_template.sql`` has their common text, and
``range_<aggregate>.sql`` the parts that are filled in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from lakehouse.algorithms.rollup.rounding import NAMED
from sql import statement

_PART = re.compile(r"^-- \[(\w+)\]\n", re.MULTILINE)


def range_macros(aggregate: str) -> str:
    """Return the statements that create an aggregate's macros."""
    return _filled("macros", aggregate, {})


@cache
def point_query(aggregate: str, is_exact: bool) -> str:
    """Return the query of an aggregate over pieces of one series; ``is_exact``: the sums of its measure are exact.

    Its parameters are the pieces, the divisor, whether the measure has values, and whether some of its rows are
    forgotten. It returns no row if no node is inside the range.
    """
    return _filled("point", aggregate, {"table": "'inside'", "is_exact": str(is_exact).lower(), **NAMED})


def _filled(part: str, aggregate: str, own: Mapping[str, str]) -> str:
    """Return a part with those named in it, which may name others, filled in."""
    parts = {**_parts("range_template"), **_parts(f"range_{aggregate}"), "aggregate": aggregate, **own}
    filled, before = parts[part], ""
    while filled != before:
        before = filled
        for name, text in parts.items():
            filled = filled.replace(f"{{{name}}}", text)
    return filled


def _parts(file: str) -> dict[str, str]:
    """Return the parts of a file by name; the text before the first part is for people."""
    _, *found = _PART.split(statement(f"serving/{file}"))
    return {name: part.strip() for name, part in zip(found[::2], found[1::2], strict=True)}
