"""Rules proposed for a stream by its profile, as tables of ``[[streams.NAME.rules]]``; they hold of the rows profiled.

numbers         from the least to the greatest value, with a quarter of what lies between on either side
columns         the share of rows that have a value, with room for twice as many missing and a hundredth more
keys            the set of their values, if there are few and each was seen often
gaps, volume    freshness from the longest time without a row, rows an hour or a day with as much room again
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from lakehouse.config.checks import stream_problems
from lakehouse.config.columns import Column
from lakehouse.config.durations import format_duration
from lakehouse.config.stream import Stream
from lakehouse.storage.profiles import DAY_US, MINUTES, ROWS, ColumnProfile, Profile

# A set of at most so many values, of which each was in so many rows in the mean.
_MOST_VALUES, _ROWS_A_VALUE = 20, 20
_MINUTE_US, _HOUR = DAY_US // MINUTES, 60
# Most missing values of a column that a rule is proposed for.
_MOST_MISSING = 0.4
Table = dict[str, Any]


def proposed_rules(stream: Stream, days: Profile) -> list[Table]:
    """Return rules that hold of all rows of the days, and that the configuration of the stream accepts."""
    columns = {
        name: ColumnProfile.combined([of[name] for of in days.values() if name in of])
        for name in (*stream.all_columns, ROWS)
        if any(name in of for of in days.values())
    }
    tables = [*_of_columns(stream, columns), *_of_time(days)]
    return [table for table in tables if _is_accepted(stream, table)]


def _of_columns(stream: Stream, columns: Mapping[str, ColumnProfile]) -> Iterator[Table]:
    for name, column in stream.all_columns.items():
        if name not in columns or not columns[name].summary.rows:
            continue
        own = columns[name]
        missing = own.summary.missing / own.summary.rows
        if missing <= _MOST_MISSING:
            mostly = math.floor((0.99 - 2 * missing) * 1000) / 1000
            yield {"expect": "column_values_to_not_be_null", "column": name, "mostly": mostly}
        if name in stream.keys:
            yield from _value_set(name, column, own)
        elif column.is_number and name not in (*stream.event_time.names, *stream.counters):
            yield from _range(name, column, own)


def _value_set(name: str, column: Column, own: ColumnProfile) -> Iterator[Table]:
    counts, is_whole = own.frequent.counts, column.type == "int"
    if own.frequent.error or column.type not in ("string", "int") or not 0 < len(counts) <= _MOST_VALUES:
        return
    if own.summary.count >= _ROWS_A_VALUE * len(counts):
        values = sorted(map(int, counts)) if is_whole else sorted(counts)
        yield {"expect": "column_values_to_be_in_set", "column": name, "value_set": values}


def _range(name: str, column: Column, own: ColumnProfile) -> Iterator[Table]:
    low, high = own.summary.low, own.summary.high
    if low is None or high is None:
        return
    margin = (high - low) / 4 or abs(high) / 4 or 1.0
    least = 0.0 if 0 <= low <= 2 * margin else low - margin
    ends = {
        "min_value": _rounded(least, margin, math.floor),
        "max_value": _rounded(high + margin, margin, math.ceil),
    }
    whole = {key: int(value) for key, value in ends.items() if value.is_integer()}
    yield {"expect": "column_values_to_be_between", "column": name, **ends, **whole}


def _rounded(value: float, margin: float, towards: Any) -> float:
    """Return a number of few digits that is off by less than a tenth of the margin, on its outer side."""
    digits = 1 - math.floor(math.log10(margin))
    scale = 10.0 ** abs(digits)
    return float(towards(value * scale) / scale if digits > 0 else towards(value / scale) * scale)


def _of_time(days: Profile) -> Iterator[Table]:
    """Yield rules about gaps and volume, by the minutes that have rows from the first to the last day."""
    first, last = min(days, default=0), max(days, default=0)
    minutes = np.concatenate(
        [
            days[day][ROWS].minutes if ROWS in days.get(day, {}) else np.zeros(MINUTES, np.int64)
            for day in range(first, last + DAY_US, DAY_US)
        ]
    )
    heard = np.flatnonzero(minutes)
    if len(heard) < 2:
        return
    gap = int(np.diff(heard).max()) + 1
    yield {"freshness": format_duration(_spelled(2 * gap) * _MINUTE_US)}
    for per in (_HOUR, MINUTES):
        # Of the first and the last period there is a part only.
        whole = minutes.reshape(-1, per).sum(1)[heard[0] // per + 1 : heard[-1] // per]
        if len(whole) and whole.min() > 1:
            limits = {"per": format_duration(per * _MINUTE_US), "min": int(whole.min()) // 2}
            yield {"volume": limits | {"max": 2 * int(whole.max())}}
            return


def _spelled(minutes: int) -> int:
    """Return a number of minutes that is no less, in whole quarters of an hour, hours or days."""
    unit = 15 if minutes <= 2 * _HOUR else _HOUR if minutes <= 2 * MINUTES else MINUTES
    return -(-minutes // unit) * unit


def _is_accepted(stream: Stream, table: Table) -> bool:
    """Return whether a configuration of the stream may have such a rule."""
    declared: Any = Stream.model_fields["rules"].annotation
    try:
        rules = TypeAdapter(declared).validate_python((table,))
    except ValidationError:
        return False
    with_rule = stream_problems(stream.model_copy(update={"rules": rules}))
    return not any(".rules." in problem.key for problem in with_rule)


def as_toml(stream: str, rules: list[Table]) -> str:
    """Return rules as a configuration has them."""
    return "\n".join(
        "\n".join(
            [f"[[streams.{stream}.rules]]", *(f"{key} = {_value(value)}" for key, value in table.items()), ""]
        )
        for table in rules
    )


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(part)}" for key, part in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)
