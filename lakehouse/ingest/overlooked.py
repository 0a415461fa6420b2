"""Columns of files that a declaration seems to overlook: sentences on a batch, for its ledger row.

A column without any value may be named otherwise in the files, and event times that are all of midnight may be dates
beside a column of clock times. Both are fine in other streams, so they reject nothing.
"""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, time

from lakehouse.algorithms.ingest.zones import zone_of
from lakehouse.config.stream import Stream
from lakehouse.ingest.batch_records import BatchRecords
from lakehouse.ingest.batch_stats import BatchStats

_CLOCK_NAME = re.compile(
    r"(?:^|[^a-z])(?:time|clock|hours?|hh|uhr|uhrzeit|zeit|heure|hora|ora)(?:[^a-z]|$)", re.IGNORECASE
)
_BETWEEN_WORDS = re.compile(r"[\s_.-]+")


def overlooked(records: BatchRecords, stats: BatchStats) -> list[str]:
    """Return the sentences on a batch."""
    return [*_clocks(records, stats), *_near_names(records, stats)]


def _clocks(records: BatchRecords, stats: BatchStats) -> Iterator[str]:
    """Yield a sentence if all rows of several are of midnight and a file has another column named like a clock."""
    stream, clocks = records.stream, stats.clocks
    if stats.accepted < 2 or clocks is None or clocks[0] != clocks[1] or not _is_midnight(stats.low, stream):
        return
    read = {name for each in (stream.event_time, stream.arrival_time) if each for name in each.names}
    for file in records.manifest.files:
        for name in file.columns:
            if name not in read and _CLOCK_NAME.search(name):
                yield (
                    f"{os.path.basename(file.path)}: all {stats.accepted:,} rows of the batch are of 00:00:00, as "
                    f"{stream.event_time.column} has dates only; the file also has {name}"
                )
                return


def _is_midnight(time_us: int | None, stream: Stream) -> bool:
    zone = zone_of(stream.event_time.timezone)
    return time_us is not None and datetime.fromtimestamp(time_us / 1e6, UTC).astimezone(zone).time() == time(
        0
    )


def _near_names(records: BatchRecords, stats: BatchStats) -> Iterator[str]:
    """Yield a sentence for each column without a value whose name a file has in other letters only."""
    for name, column in records.stream.all_columns.items():
        path = column.path or name
        is_named = column.position is None and column.file is None
        if not is_named or not stats.accepted or stats.missing[name] < stats.accepted:
            continue
        for file in records.manifest.files:
            near = [each for each in file.columns if _plain(each) == _plain(path)]
            if near and path not in file.columns:
                yield f"{os.path.basename(file.path)}: no row has {path}, but the file has {near[0]}"
                break


def _plain(name: str) -> str:
    return _BETWEEN_WORDS.sub("", name).casefold()
