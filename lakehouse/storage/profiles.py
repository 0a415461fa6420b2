"""Profile of a stream, read without an engine: figures of each column and day of event time, from the table of parts.

``profile_of`` returns the rows that pages and `--json` show. Cost: the files of the days that are asked for, of which
there are few once ``maintain`` has folded them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.profile.frequent import Frequent
from lakehouse.algorithms.profile.summary import BINS, DISTINCT_ERROR, SIZE, Summary
from lakehouse.config.durations import format_timestamp, spelled_duration
from lakehouse.storage.corrections import TAKEN_OUT, read_corrections
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import read_extent
from lakehouse.storage.tables.table_log import bounds, newest_version
from lakehouse.storage.tables.table_reads import read_between

DAY_US = 24 * 3600 * 1_000_000
MINUTES = 1440
# The column of the day itself, and the day of rejected records whose time is not known.
ROWS, NO_DAY = "*", -1
# Bins of a column of a day.
DAY_BINS = 512
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_NO_UNITS: Mapping[str, str] = MappingProxyType({})
_MICROSECONDS = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
_SUMMARY = ("rows", "missing", "mean", "squares", "least", "greatest", "shift", "bins", "weights", "hashes")


@dataclass(frozen=True)
class ColumnProfile:
    """Figures of a column's values; of the column ``*`` those of the rows, whose bins are minutes of the day."""

    column: str
    summary: Summary
    frequent: Frequent = field(default_factory=Frequent)
    late: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> ColumnProfile:
        """Return the figures that a row of the table holds."""
        frequent = Frequent(dict(row["frequent"] or ()), row["frequent_error"] or 0)
        summary = Summary(*(row[name] for name in _SUMMARY))
        return cls(row["column"], summary, frequent, row["late"] or 0, dict(row["rejected"] or ()))

    @classmethod
    def of_day(cls, late: int, rejected: Mapping[str, int]) -> ColumnProfile:
        """Return what late rows and rejected records add to a day."""
        return cls(ROWS, Summary(), late=late, rejected=rejected)

    @classmethod
    def combined(cls, parts: Sequence[ColumnProfile]) -> ColumnProfile:
        """Return the figures of all parts of one column."""
        most = BINS if parts[0].column == ROWS else DAY_BINS
        summary = Summary.combined([part.summary for part in parts], most)
        rejected = dict[str, int]()
        for reason, count in (each for part in parts for each in part.rejected.items()):
            rejected[reason] = rejected.get(reason, 0) + count
        frequent = Frequent.combined(part.frequent for part in parts)
        return cls(parts[0].column, summary, frequent, sum(part.late for part in parts), rejected)

    def as_row(self) -> dict[str, Any]:
        """Return the figures as a row of the table, without day and batch."""
        own = self.summary
        values = (own.rows, own.missing, own.mean, own.squares, own.low, own.high, own.shift)
        arrays = (own.bins, own.weights, own.hashes)
        row: dict[str, Any] = dict(zip(_SUMMARY, (*values, *arrays), strict=True)) | {"column": self.column}
        row |= {"frequent": [*self.frequent.counts.items()], "frequent_error": self.frequent.error}
        return row | {"late": self.late, "rejected": sorted(self.rejected.items())}

    @cached_property
    def minutes(self) -> npt.NDArray[np.int64]:
        """Rows in each minute of the day, of the column ``*``."""
        counts = np.zeros(MINUTES, np.int64)
        np.add.at(counts, np.asarray(self.summary.bins, np.int64), np.asarray(self.summary.weights, np.int64))
        return counts


# By day, its columns by name.
Profile = Mapping[int, Mapping[str, ColumnProfile]]


def read_profile(home: Home, stream: str, from_us: int, to_us: int) -> Profile:
    """Return the figures of the days that begin in ``[from_us, to_us)``, of finished batches, in order."""
    table = home.profile(stream)
    if newest_version(table) is None:
        return {}
    rows = read_between(table, ("day_us", from_us, to_us - 1))
    rows = rows.filter(pc.less_equal(rows["batch"], read_extent(home, stream).batch))
    parts: dict[tuple[int, str], list[ColumnProfile]] = {}
    for row in rows.to_pylist():
        parts.setdefault((row["day_us"], row["column"]), []).append(ColumnProfile.of(row))
    days: dict[int, dict[str, ColumnProfile]] = {}
    for (day, column), own in sorted(parts.items()):
        days.setdefault(day, {})[column] = ColumnProfile.combined(own)
    return days


def last_day(home: Home, stream: str) -> int | None:
    """Return the start of the last day that has rows, None where there is none."""
    if newest_version(home.profile(stream)) is None:
        return None
    ((_, day),) = bounds(home.profile(stream), ("day_us",))
    return None if day is None or day < 0 else int(day)


def day_of(text: str) -> int:
    """Return the start of a day in microseconds.

    >>> day_of("1970-01-02")
    86400000000
    """
    return (date.fromisoformat(text) - date(1970, 1, 1)).days * DAY_US


def day_text(day_us: int) -> str:
    """Return a day as ISO has it.

    >>> day_text(86_400_000_000)
    '1970-01-02'
    """
    return f"{datetime.fromtimestamp(day_us // 1_000_000, UTC):%Y-%m-%d}"


def profile_of(
    home: Home, stream: str, day: str | None = None, units: Mapping[str, str] = _NO_UNITS
) -> list[dict[str, Any]]:
    """Return a day's profile as rows for people, by default that of the last day with rows; none without rows.

    One row a column, first that of the column ``*``, the day itself, with its ``rows``, ``late`` rows, ``rejected``
    records by reason, rows ``by_hour``, and those ``retracted`` since at most, which all figures still count. Others
    have ``rows`` and those with ``missing`` values, how many are ``distinct`` (give or take ``distinct_error`` of it,
    twice that 19 times of 20), of numbers ``least``, ``greatest``, ``mean``, ``deviation`` and ``quantiles`` by share
    (give or take ``quantile_error`` of the value), each null of texts, and of keys the most ``frequent`` values with
    their rows (at most ``frequent_error`` more). All have the ``day``. ``units``: of columns that hold times.
    """
    day_us = last_day(home, stream) if day is None else day_of(day)
    if day_us is None:
        return []
    columns = read_profile(home, stream, day_us, day_us + DAY_US).get(day_us, {})
    retracted = _retracted(home, stream, day_us)
    shown = [_shown(day_text(day_us), own, retracted) for own in columns.values()]
    return [row if row["column"] == ROWS else row | {"unit": units.get(row["column"])} for row in shown]


def _retracted(home: Home, stream: str, day_us: int) -> int:
    """Return how many rows retractions of times of a day took out of raw: a retraction knows no days of its rows."""
    return sum(
        sum(found.batches.values())
        for found in read_corrections(home, stream)
        if found.done and found.kind in TAKEN_OUT
        if (found.from_us is None or found.from_us < day_us + DAY_US)
        and (found.to_us is None or found.to_us >= day_us)
    )


def _shown(day: str, own: ColumnProfile, retracted: int) -> dict[str, Any]:
    if own.column == ROWS:
        by_hour = own.minutes.reshape(24, 60).sum(1).tolist()
        counts = {"rows": own.summary.rows, "late": own.late, "rejected": dict(own.rejected)}
        return {"day": day, "column": ROWS, **counts, "by_hour": by_hour, "retracted": retracted}
    column, frequent = own.summary, own.frequent
    has_numbers = column.low is not None
    shares = QUANTILES if has_numbers else ()
    quantiles = {f"{share:g}": short(column.quantile(share), column.error) for share in shares}
    by_count = sorted(frequent.counts.items(), key=lambda each: (-each[1], each[0]))
    return {
        "day": day,
        "column": own.column,
        "rows": column.rows,
        "missing": column.missing,
        "distinct": round(column.distinct),
        "distinct_error": DISTINCT_ERROR if len(column.hashes) >= SIZE else 0.0,
        "least": column.low,
        "greatest": column.high,
        "mean": column.mean if has_numbers else None,
        "deviation": column.deviation if has_numbers else None,
        "quantiles": quantiles or None,
        "quantile_error": 2 * column.error if has_numbers else None,
        "frequent": [list(each) for each in by_count],
        "frequent_error": frequent.error,
    }


def with_times(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a column's figures for people: where it holds times, texts of these, but no quantiles.

    >>> row = dict(unit="ms", least=0.0, greatest=3_600_000.0, mean=5e5, deviation=1500.2, quantiles={"0.5": 1.0})
    >>> with_times(row)["greatest"], with_times(row)["deviation"], with_times(row | {"unit": None})["least"]
    ('1970-01-01 01:00:00', '1s', 0.0)
    """
    if row["unit"] is None or row["least"] is None:
        return dict(row)
    size = _MICROSECONDS[row["unit"]]
    times = {name: format_timestamp(int(row[name] * size)) for name in ("least", "greatest", "mean")}
    seconds = int((row["deviation"] or 0.0) * size / 1e6)
    times["deviation"] = spelled_duration(seconds * 10**6)
    # They are off by a share of the time since 1970.
    return {**row, **times, "quantiles": None}


def short(value: float, error: float) -> float:
    """Return the number of the fewest digits that is off by at most a share of a value.

    >>> short(12.00006, 1e-5), short(19.984375, 0.001)
    (12.0, 20.0)
    """
    rounded = (float(f"{value:.{digits}g}") for digits in range(1, 18))
    return next(each for each in rounded if abs(each - value) <= error * abs(value))


def as_table(rows: Iterable[Mapping[str, Any]], columns: pa.Schema) -> pa.Table:
    """Return rows of ``ColumnProfile.as_row`` as the table has them; what they lack is null."""
    return pa.Table.from_pylist([dict(row) for row in rows], columns)
