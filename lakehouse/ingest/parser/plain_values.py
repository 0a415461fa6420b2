"""Texts of rows, and values of Parquet files -> typed columns in Arrow, and which rows are certainly good.

What it says of a text is what ``row_values`` says; nothing is said of a row with a text of another form, nor of a value
of Parquet whose text, as JSON, the declaration would read as another one: a double where a whole number is declared.
"""

import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.columns import Column, sql_type
from lakehouse.config.stream import Stream
from lakehouse.config.times import TimeColumn
from lakehouse.ingest.parser.field_map import ARRIVAL, EVENT, PLUS
from lakehouse.ingest.parser.row_rules import broken
from lakehouse.ingest.parser.texts import offset_us, utc_offset

_SECONDS = TimeColumn(column=PLUS, unit="s")
_INTEGER = r"-?(?:0|[1-9][0-9]{0,17})"
# Days that every year has.
_DAY = r"(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_OFFSET = r"Z|[+-](?:0[0-9]|1[0-7]):[0-5][0-9]"
_ISO = rf"^(?P<wall>[12][0-9]{{3}}-{_DAY}[T ]{_CLOCK})(?:\.(?P<part>[0-9]{{1,9}}))?(?P<offset>{_OFFSET})?$"
_QUARTER_US = 900_000_000
Mask = npt.NDArray[np.bool_]
# Digits that a time may have before its point, so that its microseconds fit, and those behind it that count.
_DIGITS = {"s": (12, 6), "ms": (15, 3), "us": (18, 0)}
# Between these every calendar says the same of a moment: 1900 and 3000, in microseconds.
_FIRST_US, _END_US = -2_208_988_800_000_000, 32_503_680_000_000_000
# Below this, a whole number of the smallest unit has at most 15 digits, which one double stands for, and it for them.
_SURE = 10**15
# Decimal places beside which 38 digits hold any whole number of 64 bits.
_SPARE = 20
_ARROW = {"bigint": pa.int64(), "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string()}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def typed(
    texts: Mapping[str, pa.Array], count: int, stream: Stream, listed: pa.Array | None = None
) -> tuple[pa.Table, Mask]:
    """Return the typed columns of rows, and which rows are certainly good.

    ``texts``: by name of the wanted field, each text, or value of a Parquet file. ``listed``: when each row was listed,
    where that is not the same of all.
    """
    event, is_good = typed_times(texts[EVENT], stream.event_time)
    times = (
        event.to_numpy(zero_copy_only=False) if not event.null_count else pc.fill_null(event, 0).to_numpy()
    )
    is_good &= event.is_valid().to_numpy(zero_copy_only=False) & within_bounds(times, stream, listed)
    arrival, is_sure = arrivals(texts, stream, count)
    is_good &= is_sure & within_clock_bounds(times, arrival, stream)
    columns = {"event_us": event, "arrival_us": arrival}
    for name, column in stream.all_columns.items():
        columns[name], is_sure = _value(texts[name], column)
        is_good &= is_sure
    for rule in stream.row_rules:
        is_good &= ~np.asarray(broken(columns, rule))
    return pa.table(columns), is_good


def within_bounds(times: npt.NDArray[np.int64], stream: Stream, listed: pa.Array | None) -> Mask:
    """Return which event times are within the stream's bounds, and not too far ahead of their record's listing."""
    low, high = stream.event_time_bounds
    is_within = (times >= low) & (times < high)
    if listed is not None:
        is_within &= times <= pc.fill_null(listed, _END_US).to_numpy() + stream.ahead_us
    elif stream.listed_us is not None:
        is_within &= times <= stream.listed_us + stream.ahead_us
    return is_within


def arrivals(texts: Mapping[str, pa.Array], stream: Stream, count: int) -> tuple[pa.Array, Mask]:
    """Return arrival times of rows, null where there is none, and where that is sure."""
    if stream.arrival_time is None:
        return pa.nulls(count, pa.int64()), np.ones(count, np.bool_)
    received, is_sure = typed_times(texts[ARRIVAL], stream.arrival_time)
    if stream.arrival_time.plus is None:
        return received, is_sure
    more, is_number = typed_times(texts[PLUS], _SECONDS)
    return pc.add(received, pc.fill_null(more, 0)), is_sure & is_number


def within_clock_bounds(times: npt.NDArray[np.int64], arrival: pa.Array, stream: Stream) -> Mask:
    """Return which event times are as near to their arrival as the stream's clocks are, or have none."""
    bounds = stream.clock_bounds
    if stream.arrival_time is None or bounds is None:
        return np.ones(len(times), np.bool_)
    delay = pc.fill_null(arrival, 0).to_numpy() - times
    is_within = (delay <= bounds.behind) & (delay >= -bounds.ahead)
    return np.asarray(is_within | arrival.is_null().to_numpy(zero_copy_only=False))


def typed_times(text: pa.Array, time: TimeColumn) -> tuple[pa.Array, Mask]:
    """Return microseconds, null where there is no text, and where that is sure."""
    if not pa.types.is_string(text.type):
        micros, is_sure = _fitted_time(text, time)
    elif time.is_local:
        micros, is_sure = _moments(text, time.timezone)
    else:
        micros, is_sure = _scaled(text, time.unit)
    return pc.add(micros, time.shift) if time.shift else micros, is_sure


def _moments(text: pa.Array, zone: str) -> tuple[pa.Array, Mask]:
    shown, offset = clock_times(text)
    offsets = offset.dictionary_encode()
    named = {text: offset_us(text) for text in offsets.dictionary.to_pylist() if text}
    away = pa.array([named.get(text) for text in offsets.dictionary.to_pylist()], pa.int64())
    told = away.take(offsets.indices)
    micros = pc.subtract(shown, pc.coalesce(told, _local_offsets(shown, told, zone)))
    is_sure = pc.or_(micros.is_valid(), text.is_null())
    return micros, np.asarray(is_sure.to_numpy(zero_copy_only=False))


def clock_times(text: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the microseconds that clocks show, null of texts of another form, and offsets, which may be empty."""
    parts = pc.extract_regex(text, _ISO)
    wall, part, offset = (pc.struct_field(parts, name) for name in ("wall", "part", "offset"))
    return pc.add(pc.multiply(wall.cast(pa.timestamp("s")).cast(pa.int64()), 10**6), _padded(part, 6)), offset


def _padded(digits: pa.Array, places: int) -> pa.Array:
    """Return the digits behind a point as a whole number of so many, null where there is no text."""
    return pc.utf8_rpad(pc.utf8_slice_codeunits(digits, 0, places), places, "0").cast(pa.int64())


def _local_offsets(shown: pa.Array, told: pa.Array, zone: str) -> pa.Array:
    """Return by how much the clocks of a zone are ahead when they show times; null where they are being changed.

    Cost: Python for each quarter of an hour in which a time without an offset is.
    """
    if zone == "UTC":
        return pa.repeat(pa.scalar(0, pa.int64()), len(shown))
    is_local = pc.and_(shown.is_valid(), told.is_null()).to_numpy(zero_copy_only=False)
    times = pc.fill_null(shown, 0).to_numpy()
    quarters, which = np.unique(times[is_local] // _QUARTER_US, return_inverse=True)
    ends = ((first * _QUARTER_US, (first + 1) * _QUARTER_US - 1) for first in quarters.tolist())
    found = [{utc_offset(at, zone, fold) for at in both for fold in (0, 1)} for both in ends]
    offsets = pa.array([each.pop() if len(each) == 1 else None for each in found], pa.int64())
    places = np.zeros(len(shown), np.int64)
    places[is_local] = which
    return offsets.take(pa.array(places, mask=~is_local))


def _scaled(text: pa.Array, unit: str) -> tuple[pa.Array, Mask]:
    if unit == "ns":
        kept, is_sure = _matching(text, r"^(?:0|[1-9][0-9]{0,17}|[1-8][0-9]{18})$")
        return pc.divide(kept.cast(pa.int64()), 1000), is_sure
    digits, part = _DIGITS[unit]
    kept, is_sure = _matching(text, rf"^(?:0|[1-9][0-9]{{0,{digits - 1}}})(?:\.[0-9]{{1,9}})?$")
    if not pc.any(pc.match_substring(kept, ".")).as_py():
        return pc.multiply(kept.cast(pa.int64()), 10**part), is_sure
    halves = pc.extract_regex(kept, r"^(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]*))?$")
    micros = pc.multiply(pc.struct_field(halves, "whole").cast(pa.int64()), 10**part)
    if part:
        micros = pc.add(micros, _padded(pc.struct_field(halves, "part"), part))
    return micros, is_sure


def _value(text: pa.Array, column: Column) -> tuple[pa.Array, Mask]:
    kind = sql_type(column)
    if not pa.types.is_string(text.type):
        return _fitted_value(text, kind)
    if kind == "string":
        return text, np.ones(len(text), np.bool_)
    if kind == "boolean":
        kept, is_sure = _matching(text, "^(?:true|false)$")
        return pc.equal(kept, "true"), is_sure
    if kind == "bigint":
        kept, is_sure = _matching(text, f"^{_INTEGER}$")
        return kept.cast(pa.int64()), is_sure
    if kind == "double":
        kept, is_sure = _matching(text, r"^-?[0-9]{1,17}(?:\.[0-9]{1,17})?(?:[eE][-+]?[0-9]{1,2})?$")
        return kept.cast(pa.float64()), is_sure
    fraction = rf"(?:\.[0-9]{{1,{column.decimals}}})?" if column.decimals else ""
    kept, is_sure = _matching(text, f"^-?[0-9]{{1,18}}{fraction}$")
    return kept.cast(pa.decimal128(38, column.decimals or 0)), is_sure


def _matching(text: pa.Array, pattern: str) -> tuple[pa.Array, Mask]:
    """Return the texts of a form, null for others, and which rows are of it or have no text."""
    matches = pc.match_substring_regex(text, pattern)
    is_sure = pc.fill_null(matches, True).to_numpy(zero_copy_only=False)
    return pc.if_else(pc.fill_null(matches, False), text, pa.scalar(None, pa.string())), is_sure


def _fitted_time(values: pa.Array, time: TimeColumn) -> tuple[pa.Array, Mask]:
    """Return microseconds, null where there is no value, and where that is sure."""
    kind, (digits, part) = values.type, _DIGITS.get(time.unit, (0, 0))
    if time.unit == "iso" and pa.types.is_timestamp(kind) and kind.tz and kind.unit in ("ms", "us"):
        units, low, high, factor = values.cast(pa.int64()), _FIRST_US, _END_US, 1
        if kind.unit == "ms":
            low, high, factor = low // 1000, high // 1000, 1000
    elif time.unit in _DIGITS and _is_whole(kind):
        units, low, high, factor = values.cast(pa.int64()), 0, 10**digits, 10**part
    elif time.unit in _DIGITS and pa.types.is_float64(kind):
        # Milliseconds are told by so few digits that a double has one text for them.
        places = min(part, 3 if time.unit == "s" else 2)
        units, low, high, factor = _shifted(values, places), 0, _SURE, 10 ** (part - places)
    else:
        return _unfit(values, pa.int64())
    is_within = pc.and_(pc.greater_equal(units, low), pc.less(units, high))
    is_sure = pc.or_(pc.fill_null(is_within, False), values.is_null())
    kept = pc.if_else(is_sure, units, pa.scalar(None, pa.int64()))
    return pc.multiply(kept, factor), np.asarray(is_sure.to_numpy(zero_copy_only=False))


def _fitted_value(values: pa.Array, kind: str) -> tuple[pa.Array, Mask]:
    """Return values of a declared SQL type, null where there is none or it is not finite, and where that is sure."""
    exact, wanted = _DECIMAL.fullmatch(kind), arrow_type(kind)
    if exact and pa.types.is_decimal128(values.type):
        spare = int(exact[1]) - int(exact[2]) - (values.type.precision - values.type.scale)
        if values.type.scale <= int(exact[2]) and spare >= 0:
            return values.cast(wanted), _all(values)
    if exact and pa.types.is_float64(values.type):
        is_sure = pc.or_(_shifted(values, int(exact[2])).is_valid(), values.is_null())
        kept = pc.if_else(is_sure, values, pa.scalar(None, pa.float64()))
        return kept.cast(wanted), np.asarray(is_sure.to_numpy(zero_copy_only=False))
    if kind == "double" and pa.types.is_float64(values.type):
        return pc.if_else(pc.is_finite(values), values, pa.scalar(None, pa.float64())), _all(values)
    if kind == "double" and _is_whole(values.type):
        return values.cast(pa.int64()).cast(pa.float64(), safe=False), _all(values)
    if (kind in ("bigint", "string") and _is_whole(values.type)) or values.type.equals(wanted):
        return values.cast(wanted), _all(values)
    if exact and _is_whole(values.type) and int(exact[2]) < _SPARE:
        return values.cast(pa.int64()).cast(wanted), _all(values)
    return _unfit(values, wanted)


def arrow_type(kind: str) -> pa.DataType:
    """Return the type of a column, of its type as SQL names it."""
    exact = _DECIMAL.fullmatch(kind)
    return pa.decimal128(int(exact[1]), int(exact[2])) if exact else _ARROW[kind]


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) and not kind.equals(pa.uint64()))


def _all(values: pa.Array) -> Mask:
    return np.ones(len(values), np.bool_)


def _unfit(values: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Mask]:
    return pa.nulls(len(values), wanted), np.asarray(values.is_null().to_numpy(zero_copy_only=False))


def _shifted(values: pa.Array, places: int) -> pa.Array:
    """Return doubles of so many decimal places, times ten to these; null where a double has no such sure text."""
    numbers = pc.fill_null(values, np.nan).to_numpy()
    with np.errstate(invalid="ignore", over="ignore"):
        units = np.rint(numbers * 10.0**places)
        is_sure = (np.abs(units) < _SURE) & (units / 10.0**places == numbers)
    return pa.array(np.where(is_sure, units, 0).astype(np.int64), mask=~is_sure)
