"""Rules that a stream declares, judged by the figures of its new rows -> a frame for each consequence.

A metric of the frame is one rule: the number of rows that break it beyond those that may, or how far a figure of all
new rows is outside of its range; 0 if it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.profile.summary import Summary
from lakehouse.checks.column_figures import combined, judged_figures
from lakehouse.spark.deviations import Frame

if TYPE_CHECKING:
    from lakehouse.config.rules import Rule
    from lakehouse.config.stream import Stream

# Before the name of a rule: how many rows it judges, and how many of them break it.
JUDGED, BROKEN = "judged_", "broken_"
# Examples of rows that break a rule.
EXAMPLES = 3
_LONGEST = 40
# A share is a double: 0.001 of 1,000 rows is one row.
_ROUNDING = 1e-6
_TABLES = {"withhold": "rules", "warn": "warnings"}
Row = dict[str, Any]


def rule_frames(stream: Stream, raw: Sequence[Row], files: Mapping[str, Row]) -> Iterator[Frame]:
    """Yield the frames of a stream's rules about new rows, by batch and by file; none where no row is new."""
    for on_failure, table in _TABLES.items():
        rules = [rule for rule in stream.checked_rules if rule.on_failure == on_failure] if raw else []
        judged = {
            rule.name: (_as_a_whole if rule.expectation.whole else _judged)(rule, raw, files)
            for rule in rules
        }
        if judged:
            deviations = {name: deviation for name, (deviation, _) in judged.items()}
            says = {rule.name: rule.sentence for rule in rules}
            yield Frame(table, (), [deviations], says, {name: seen for name, (_, seen) in judged.items()})


def _as_a_whole(rule: Rule, raw: Sequence[Row], files: Mapping[str, Row]) -> tuple[float, str]:
    """Return how far a figure of all new rows is outside of its range, and a sentence on it."""
    if not rule.columns:
        return judged_figures(rule, Summary(sum(row["found"] for row in raw)))
    parts = [of["columns"][rule.columns[0]] for of in files.values() if of["columns"]]
    return judged_figures(rule, combined(parts))


def _judged(rule: Rule, raw: Sequence[Row], files: Mapping[str, Row]) -> tuple[int, str]:
    """Return how many rows break a rule beyond those that may, and a sentence on them."""
    count, number = (sum(row[part + rule.name] for row in raw) for part in (JUDGED, BROKEN))
    allowed = int((1 - rule.mostly) * count + _ROUNDING)
    seen = f"{number:,} of {count:,} new rows do not"
    if number:
        seen += f" ({number / count:.2%}), such as "
        found = (example for of in files.values() for example in of["examples"].get(rule.name, ()))
        seen += "; ".join(islice(found, EXAMPLES))
    return max(number - allowed, 0), seen


def examples_of(rows: pa.Table, values: Mapping[str, pa.ChunkedArray], breaks: pa.Array) -> list[str]:
    """Return some rows that break a rule: where they came from, and their values, of texts the form only."""
    places = pc.indices_nonzero(pc.fill_null(breaks, False))[:EXAMPLES]
    origin = rows.select(["source_file", "source_line"]).take(places).to_pylist()
    found = pa.table(dict(values)).take(places).to_pylist()
    return [
        f"{of['source_file']}:{of['source_line']}: "
        + ", ".join(f"{name} is {masked(value)}" for name, value in row.items())
        for of, row in zip(origin, found, strict=True)
    ]


def masked(value: object) -> str:
    """Return a value as a report may show it: of a text its form, not its letters and digits.

    >>> masked("dev-17"), masked(71.5), masked(None)
    ("'xxx-99'", '71.5', 'missing')
    """
    if not isinstance(value, str):
        return "missing" if value is None else str(value)
    form = re.sub(r"[^\W\d_]", "x", re.sub(r"\d", "9", value[:_LONGEST]))
    return f"'{form}{'...' if len(value) > _LONGEST else ''}'"
