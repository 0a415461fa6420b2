"""Profile of a stream as a report shows it: the newest day with rows, and its columns on the days before."""

from typing import Any

from lakehouse.storage.layout import Home
from lakehouse.storage.profiles import (
    DAY_US,
    ROWS,
    ColumnProfile,
    day_text,
    last_day,
    profile_of,
    read_profile,
)

DAYS = 30
Fields = dict[str, Any]


def profile_rows(layout: Home, stream: str, day_us: int) -> list[Fields]:
    """Return a row for each column of the newest day with rows up to a day, and of the day itself, ``*``, first.

    Each has its figures of ``DAYS`` days, as ``trend``; none of a stream without a profile.
    """
    newest_us = last_day(layout, stream)
    if newest_us is None:
        return []
    end_us = min(newest_us, day_us) + DAY_US
    days = read_profile(layout, stream, end_us - DAYS * DAY_US, end_us)
    if not days:
        return []
    return [
        row
        | {
            "trend": [
                {"day": day_text(start_us), "value": _value(columns[row["column"]])}
                for start_us, columns in days.items()
                if row["column"] in columns
            ]
        }
        for row in profile_of(layout, stream, day_text(max(days)))
    ]


def _value(column: ColumnProfile) -> float | None:
    """Return the mean of numbers, the rows of the day itself, and of texts the share of rows with a value."""
    summary = column.summary
    if column.column == ROWS:
        return float(summary.rows)
    if summary.low is not None:
        return summary.mean
    return 1 - summary.missing / summary.rows if summary.rows else None
