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
from lakehouse.ingest.parser.texts import clock_change, time_of

Micros = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
# Years 1 to 9999.
FIRST_US, END_US = -62_135_596_800_000_000, 253_402_300_800_000_000


def in_zones(texts: pa.Array, zones: pa.Array) -> pa.Array:
    """Return local ISO times as UTC by the clocks of their record's zone, null where these do not show them once.

    A text with an offset needs no zone. Cost: a look at each distinct text of a zone, a pass for each zone that exists.
    """
    known = pc.fill_null(zones, "").dictionary_encode()
    # Texts that are no zone are of one group, however many there are.
    names = [name if is_zone(name) else "" for name in known.dictionary.to_pylist()]
    groups = pa.array(names, pa.string()).take(known.indices).dictionary_encode()
    which = groups.indices.to_numpy()
    micros, is_time = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.bool_)
    for number, zone in enumerate(groups.dictionary.to_pylist()):
        at = np.flatnonzero(which == number)
        micros[at], is_time[at] = _moments(texts.take(pa.array(at)), zone or None)
    return shown_texts(micros, is_time, "Z")


def since(counts: pa.Array, starts: pa.Array, time: TimeColumn) -> pa.Array:
    """Return the times that are so many units behind ISO times, null where one of the two is missing or wrong."""
    counted = TimeColumn(column=time.column, unit=time.unit)
    start = TimeColumn(column=time.column, unit="iso", timezone=time.timezone)
    (more, is_count), (begin, is_start) = _times(counts, counted), _times(starts, start)
    is_time = is_count & is_start & (begin >= FIRST_US) & (begin < END_US) & (np.abs(more) < END_US)
    return shown_texts(np.where(is_time, begin, 0) + np.where(is_time, more, 0), is_time, "Z")


def local_time_column(time: TimeColumn, zone: str | None) -> TimeColumn | None:
    """Return how a time of a record in a zone is read, None where the record names no zone that exists."""
    return (
        time.model_copy(update={"timezone": zone, "timezone_column": None})
        if zone and is_zone(zone)
        else None
    )


def shown_texts(micros: Micros, is_time: Mask, offset: str | pa.Array) -> pa.Array:
    """Return ISO texts of what clocks show in the years 1 to 9999, before an offset, null where there is none."""
    is_time = is_time & (micros >= FIRST_US) & (micros < END_US)
    shown = pc.strftime(pa.array(np.where(is_time, micros, 0)).cast(pa.timestamp("us")), "%Y-%m-%dT%H:%M:%S")
    whole = pc.binary_join_element_wise(shown, offset, "")
    return pc.if_else(pa.array(is_time), whole, pa.scalar(None, pa.string()))


def read_moments(texts: pa.Array, time: TimeColumn) -> tuple[Micros, Mask, Micros]:
    """Return times in microseconds, which texts are one, and where those of another than the usual form stand."""
    values, is_sure = typed_times(texts, time)
    micros = pc.fill_null(values, 0).to_numpy().copy()
    is_time = values.is_valid().to_numpy(zero_copy_only=False).copy()
    odd = np.flatnonzero(~is_sure)
    read = [time_of(text, time) for text in texts.take(pa.array(odd)).to_pylist()]
    micros[odd], is_time[odd] = [moment or 0 for moment in read], [moment is not None for moment in read]
    return micros, is_time, odd


def _moments(texts: pa.Array, zone: str | None) -> tuple[Micros, Mask]:
    """Return moments of ISO times, and which are one; without a zone only those with an offset are."""
    if zone is None:
        has_offset = pc.match_substring_regex(texts, r":.*(?:Z|z|UTC|[+-][0-9:]+)$")
        texts = pc.if_else(has_offset, texts, pa.scalar(None, pa.string()))
    return _times(texts, TimeColumn(column="at", unit="iso", timezone=zone or "UTC"))


def _times(texts: pa.Array, time: TimeColumn) -> tuple[Micros, Mask]:
    """Return times in microseconds, and which texts are a time that clocks show once."""
    micros, is_time, odd = read_moments(texts, time)
    shown = texts.take(pa.array(odd)).to_pylist()
    is_time[odd] &= np.array([clock_change(text, time) is None for text in shown], np.bool_)
    return micros, is_time
