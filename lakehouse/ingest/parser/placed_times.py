"""Times whose zone, or whose start, stands in a field of their record -> ISO texts in UTC.

Times of a usual form at once by zone, in Arrow; the others, and those near a change of clocks, one by one. A time that
cannot be placed is null: ``local_time_column`` lets the row be judged by the clocks of its zone.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.ingest.zones import is_zone
from lakehouse.config.times import TimeColumn
from lakehouse.ingest.parser.plain_values import typed_times
from lakehouse.ingest.parser.texts import clock_change, is_long, time_of

Micros = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
# Years 1 to 9999.
FIRST_US, END_US = -62_135_596_800_000_000, 253_402_300_800_000_000


def in_zones(texts: pa.Array, zones: pa.Array) -> pa.Array:
    """Return local ISO times as UTC by the clocks of their record's zone, null where these do not show them once.

    A text with an offset needs no zone. Cost: a look at each distinct text of a zone, a pass for each zone that exists.
    """
    known = pc.fill_null(zones, "").dictionary_encode()
    names = [name if is_zone(name) else None for name in known.dictionary.to_pylist()]
    # Texts that are no zone are of one group, however many there are.
    groups: list[str | None] = [None, *(name for name in names if name)]
    numbers = iter(range(1, len(groups)))
    which = np.array([next(numbers) if name else 0 for name in names], np.int64)[known.indices.to_numpy()]
    order = np.argsort(which, kind="stable")
    micros, is_time = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.bool_)
    for zone, at in zip(
        groups, np.split(order, np.cumsum(np.bincount(which, minlength=len(groups)))[:-1]), strict=True
    ):
        micros[at], is_time[at] = _moments(texts.take(pa.array(at)), zone)
    return utc_texts(micros, is_time)


def since(counts: pa.Array, starts: pa.Array, time: TimeColumn) -> pa.Array:
    """Return the times that are so many units behind ISO times, null where one of the two is missing or wrong."""
    counted = TimeColumn(column=time.column, unit=time.unit)
    start = TimeColumn(column=time.column, unit="iso", timezone=time.timezone)
    (more, is_count), (begin, is_start) = _times(counts, counted), _times(starts, start)
    is_time = is_count & is_start & (begin >= FIRST_US) & (begin < END_US) & (np.abs(more) < END_US)
    return utc_texts(np.where(is_time, begin, 0) + np.where(is_time, more, 0), is_time)


def local_time_column(time: TimeColumn, zone: str | None) -> TimeColumn | None:
    """Return how a time of a record in a zone is read, None where the record names no zone that exists."""
    return (
        time.model_copy(update={"timezone": zone, "timezone_column": None})
        if zone and is_zone(zone)
        else None
    )


def utc_texts(micros: Micros, is_time: Mask) -> pa.Array:
    """Return ISO texts of moments of the years 1 to 9999, null where there is none."""
    is_time = is_time & (micros >= FIRST_US) & (micros < END_US)
    shown = pc.strftime(pa.array(np.where(is_time, micros, 0)).cast(pa.timestamp("us")), "%Y-%m-%dT%H:%M:%SZ")
    return pc.if_else(pa.array(is_time), shown, pa.scalar(None, pa.string()))


def _moments(texts: pa.Array, zone: str | None) -> tuple[Micros, Mask]:
    """Return moments of ISO times, and which are one; without a zone only those with an offset are."""
    if zone is None:
        has_offset = pc.match_substring_regex(texts, r":.*(?:Z|z|UTC|[+-][0-9:]+)$")
        texts = pc.if_else(has_offset, texts, pa.scalar(None, pa.string()))
    return _times(texts, TimeColumn(column="at", unit="iso", timezone=zone or "UTC"))


def _times(texts: pa.Array, time: TimeColumn) -> tuple[Micros, Mask]:
    """Return times in microseconds, and which texts are a time that clocks show once."""
    values, is_sure = typed_times(texts, time)
    micros = pc.fill_null(values, 0).to_numpy().copy()
    is_time = values.is_valid().to_numpy(zero_copy_only=False) & is_sure
    odd = np.flatnonzero(~is_sure)
    for number, text in zip(odd.tolist(), texts.take(pa.array(odd)).to_pylist(), strict=True):
        moment = time_of(text, time)
        if moment is not None and is_long(moment) and clock_change(text, time) is None:
            micros[number], is_time[number] = moment, True
    return micros, is_time
