"""Texts of plain lines, and values of Parquet files -> typed columns in Arrow, and which rows are certainly good."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.declare.columns import Column, sql_type
from lakehouse.declare.stream import Stream, TimeColumn
from lakehouse.streams.sources.fields import ARRIVAL, EVENT, PLUS
from lakehouse.streams.sources.plain_columns import DIGITS, Mask, fitted_time, fitted_value

_SECONDS = TimeColumn(column=PLUS, unit="s")
_INTEGER = r"-?(?:0|[1-9][0-9]{0,17})"
# Days that every year has.
_DAY = r"(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
_ISO = rf"^[12][0-9]{{3}}-{_DAY}[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{{1,6}})?Z?$"


def typed(texts: Mapping[str, pa.Array], count: int, stream: Stream) -> tuple[pa.Table, Mask]:
    """Return the typed columns of rows, and which rows are certainly good.

    ``texts``: by name of the wanted field, each text, or value of a Parquet file.
    """
    event, is_good = _time(texts[EVENT], stream.event_time)
    low, high = stream.event_time_bounds
    times = (
        event.to_numpy(zero_copy_only=False) if not event.null_count else pc.fill_null(event, 0).to_numpy()
    )
    is_good &= event.is_valid().to_numpy(zero_copy_only=False) & (times >= low) & (times < high)
    arrival, is_sure = _arrival(texts, stream, count)
    is_good &= is_sure & _in_clock_bounds(times, arrival, stream)
    columns = {"event_us": event, "arrival_us": arrival}
    for name, column in stream.all_columns.items():
        columns[name], is_sure = _value(texts[name], column)
        is_good &= is_sure
    return pa.table(columns), is_good


def _arrival(texts: Mapping[str, pa.Array], stream: Stream, count: int) -> tuple[pa.Array, Mask]:
    if stream.arrival_time is None:
        return pa.nulls(count, pa.int64()), np.ones(count, np.bool_)
    received, is_sure = _time(texts[ARRIVAL], stream.arrival_time)
    if stream.arrival_time.plus is None:
        return received, is_sure
    more, is_number = _time(texts[PLUS], _SECONDS)
    return pc.add(received, pc.fill_null(more, 0)), is_sure & is_number


def _in_clock_bounds(times: npt.NDArray[np.int64], arrival: pa.Array, stream: Stream) -> Mask:
    bounds = stream.clock_bounds
    if stream.arrival_time is None or bounds is None:
        return np.ones(len(times), np.bool_)
    delay = pc.fill_null(arrival, 0).to_numpy() - times
    is_within = (delay <= bounds.behind) & (delay >= -bounds.ahead)
    return np.asarray(is_within | arrival.is_null().to_numpy(zero_copy_only=False))


def _time(text: pa.Array, time: TimeColumn) -> tuple[pa.Array, Mask]:
    """Return microseconds, null where there is no text, and where that is sure."""
    if not pa.types.is_string(text.type):
        return fitted_time(text, time)
    if time.unit != "iso":
        return _scaled(text, time.unit)
    kept, is_sure = _matching(text, _ISO)
    return pc.ascii_rtrim(kept, "Z").cast(pa.timestamp("us")).cast(pa.int64()), is_sure


def _scaled(text: pa.Array, unit: str) -> tuple[pa.Array, Mask]:
    digits, part = DIGITS[unit]
    kept, is_sure = _matching(text, rf"^(?:0|[1-9][0-9]{{0,{digits - 1}}})(?:\.[0-9]{{1,9}})?$")
    halves = pc.extract_regex(kept, r"^(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]*))?$")
    micros = pc.multiply(pc.struct_field(halves, "whole").cast(pa.int64()), 10**part)
    if part:
        behind = pc.utf8_rpad(pc.utf8_slice_codeunits(pc.struct_field(halves, "part"), 0, part), part, "0")
        micros = pc.add(
            micros, pc.if_else(kept.is_valid(), behind, pa.scalar(None, pa.string())).cast(pa.int64())
        )
    return micros, is_sure


def _value(text: pa.Array, column: Column) -> tuple[pa.Array, Mask]:
    kind = sql_type(column)
    if not pa.types.is_string(text.type):
        return fitted_value(text, kind)
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
