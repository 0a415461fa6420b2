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
from lakehouse.queries.aggregate.values import BeyondRange, numbers_of
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
        if value.scale is None:
            return pa.array(_column(parts, "extreme", numbers[0]), from_pandas=True)
        # The highest limb is first, so two are the first two (contract.py).
        limbs = _limbs(parts, numbers[0])[:, 3 - value.limbs :]
        return numbers_of(value, limbs, np.isnan(limbs[:, -1]), as_int=value.is_whole)
    is_null = counted.to_numpy() == 0
    if value.scale is None:
        return _of_doubles(parts, measure, numbers, is_null)
    try:
        total = numbers_of(value, _limbs(parts, numbers[0]), is_null)
    except BeyondRange as error:
        tick = iso_timestamp(int(parts["tick_us"][error.row].as_py()))
        raise ValueError(
            f"query {query.name!r}: expected {measure_in_words(query, measure)} of at most 38 digits, found"
            f" {error.number} at the tick {tick}: leave such rows out by a condition on the column"
        ) from None
    return total if measure.function == "sum" else _average(total, counted, is_null)


def _column(parts: pa.Table, part: str, number: int) -> np.ndarray:
    column: np.ndarray = parts[f"{part}_{number}"].fill_null(np.nan if part == "extreme" else 0).to_numpy()
    return column


def _limbs(parts: pa.Table, number: int) -> Float64s:
    return np.column_stack([_column(parts, part, number) for part in ("low", "high", "extreme")])


def _of_doubles(parts: pa.Table, measure: Measure, numbers: tuple[int, ...], is_null: Bools) -> pa.Array:
    """Return sums or averages of doubles, which a finite number of them may take beyond their range."""
    counted, *infinities = (_column(parts, "counted", number) for number in numbers)
    high, low, power = (_column(parts, part, numbers[0]) for part in ("high", "low", "extreme"))
    power = np.nan_to_num(power).astype(np.int32)
    with np.errstate(over="ignore", invalid="ignore"):
        found = high + low
        if measure.function == "avg":
            found = found / np.where(is_null, 1, counted)
        found = np.ldexp(found, power)
        # Beside an infinity all finite numbers are none, even if their sum is beyond the range of doubles.
        found = np.where(sum(infinities) > 0, 0.0, found)
        for sign, infinite in zip((1, -1), infinities, strict=True):
            found = found + np.where(infinite > 0, sign * np.inf, 0.0)
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
