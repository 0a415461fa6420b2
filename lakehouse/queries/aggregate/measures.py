"""Parts of answers -> their measures, exact but for averages and doubles, which are rounded once; and what HAVING says.

HAVING compares an average of ints or decimals by its digits as far as 36 behind the point, and whether more follow: so
it decides as the fraction would, beside any column and any literal of no more digits.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.join_aggregate.contract import Bools, Float64s
from lakehouse.config.durations import iso_timestamp
from lakehouse.queries.aggregate.query import AggregateQuery, Measure, measure_in_words, places_of, values_of
from lakehouse.queries.aggregate.values import BeyondRange, extremes_of, sums_of
from lakehouse.queries.runtime.tasks import arrow_sql
from lakehouse.spark.comparisons import double

# Of an average, behind the point, beside those of its column.
_DIGITS = 36


def with_measures(parts: pa.Table, query: AggregateQuery) -> pa.Table:
    """Return answers with their measures before all other columns, and whether HAVING ``holds``, which needs a result.

    Raises ValueError when a sum has more than 38 digits.
    """
    measures = {
        measure.name: _measured(parts, query, measure, numbers)
        for measure, numbers in zip(query.measures, places_of(query), strict=True)
    }
    asked = measures | {name: parts[name] for name in parts.column_names if name not in measures}
    holds = arrow_sql.mask_of(query.having or "true")(arrow_sql.one_batch(pa.table(asked)))
    shown = {name: _shown(column) for name, column in measures.items()}
    holds = pc.and_(pa.array(holds, pa.bool_()), pc.greater(parts["results"], 0))
    return pa.table(asked | shown).append_column("holds", holds)


def _shown(column: pa.Array) -> pa.Array:
    return double(column) if pa.types.is_decimal256(column.type) else column


def _measured(parts: pa.Table, query: AggregateQuery, measure: Measure, numbers: tuple[int, ...]) -> pa.Array:
    """Return a measure of each answer, null where no value counts; an average of exact numbers in all its digits."""
    if measure.value is None:
        return parts["results"].combine_chunks()
    value = values_of(query)[measure.side][measure.value]
    counted = parts[f"counted_{numbers[0]}"].combine_chunks()
    if measure.function == "count":
        return counted
    if measure.function in ("min", "max"):
        codes = _columns(parts, "extreme", numbers)[:, 0]
        if value.scale is None:
            return pa.array(codes, from_pandas=True)
        return extremes_of(value, codes)
    is_null = counted.to_numpy() == 0
    high, low = (_columns(parts, part, numbers) for part in ("high", "low"))
    if value.scale is None:
        return _of_doubles(high[:, 0] + low[:, 0], measure, counted.to_numpy(), is_null)
    try:
        total = sums_of(value, high, low, is_null)
    except BeyondRange as error:
        tick = iso_timestamp(int(parts["tick_us"][error.row].as_py()))
        raise ValueError(
            f"query {query.name!r}: expected {measure_in_words(query, measure)} of at most 38 digits, found"
            f" {error.number} at the tick {tick}: leave such rows out by a condition on the column"
        ) from None
    return total if measure.function == "sum" else _average(total, counted, is_null)


def _columns(parts: pa.Table, part: str, numbers: tuple[int, ...]) -> Float64s:
    return np.column_stack([parts[f"{part}_{number}"].fill_null(np.nan).to_numpy() for number in numbers])


def _of_doubles(total: Float64s, measure: Measure, counted: np.ndarray, is_null: Bools) -> pa.Array:
    found = total if measure.function == "sum" else total / np.where(is_null, 1, counted)
    return pa.array(found, mask=is_null)


def _average(total: pa.Array, counted: pa.Array, is_null: Bools) -> pa.Array:
    """Return averages of so many values, cut to their digits; behind those is a 5 where more follow."""
    scale = total.type.scale
    # Arrow has 20 digits more behind the point of a quotient by 19 digits.
    wide, count = pc.cast(total, pa.decimal256(54, scale + _DIGITS - 20)), np.where(is_null, 1, counted)
    cut = pc.divide(wide, pa.array(count).cast(pa.decimal256(19, 0)))
    # The rest is less than the count: its 64 lower bits tell all.
    rest = _lowest(wide) * np.int64(10**20 % 2**64) - _lowest(cut) * count
    sign = np.where(rest == 0, 0, np.where(pc.fill_null(pc.less(total, 0), False), -5, 5))
    longer = pa.decimal256(76, cut.type.scale + 1)
    unit = pa.array(sign).cast(pa.decimal256(19, 0))
    more = pa.Array.from_buffers(pa.decimal256(19, longer.scale), len(unit), unit.buffers())
    return pc.cast(pc.add(pc.cast(cut, pa.decimal256(75, longer.scale)), more), longer)


def _lowest(column: pa.Array) -> np.ndarray:
    """Return the lowest 64 bits of decimals of 256 bits."""
    whole = np.frombuffer(column.buffers()[1] or b"", np.int64).reshape(-1, 4)
    return whole[column.offset : column.offset + len(column), 0]
