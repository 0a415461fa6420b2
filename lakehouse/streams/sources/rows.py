"""Named texts -> typed rows, each with the reason it is to be rejected for, or none.

The verdict on a record is a function of the record, the configuration and the time of its listing, which its manifest
holds: it does not depend on what came before, on the clock at that time or on how files were cut into batches.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.declare.columns import Column as StreamColumn
from lakehouse.declare.columns import sql_type
from lakehouse.declare.durations import MICROSECONDS, SPELLED
from lakehouse.declare.stream import Stream, TimeColumn
from lakehouse.streams.sources.fields import ARRIVAL, EVENT, PLUS, typed_type
from lakehouse.streams.sources.messages import said
from lakehouse.streams.sources.verdicts import (
    DAY_US,
    EVENT_IS,
    ahead_of_listing,
    as_unit,
    expected_bounds,
    off_arrival,
    other_units,
    read_as,
)

_ORIGIN = ("source_file", "source_line", "source_item", "record", "message")


def typed_rows(fields: DataFrame, stream: Stream) -> DataFrame:
    """Return rows with ``event_us``, ``arrival_us``, every stored column, their origin, ``reason`` and ``detail``.

    ``reason`` is null for a row to be accepted. NaN and infinities become null: they count as missing. The bytes of
    the record stay only where they are needed: on rejected rows, and for streams that identify a record by them; what
    a message tells beside them stays on rejected rows.
    """
    texts = fields.select(
        *_ORIGIN,
        "typed",
        "fault",
        "valid",
        "malformed",
        *(_text(stream, name).alias(f"t_{name}") for name in _names(stream)),
    )
    values = texts.select(
        "*",
        _time(F.col(f"t_{EVENT}"), stream.event_time).alias("event_us"),
        _arrival(stream).alias("arrival_us"),
        *(_value(F.col(f"t_{name}"), column).alias(name) for name, column in stream.all_columns.items()),
    )
    judged = values.withColumn("verdict", _verdict(stream))
    reason = F.substring_index("verdict", ":", 1)
    found = {"event_us": F.col("event_us"), "arrival_us": F.col("arrival_us")}
    found |= {name: _finite(name, column) for name, column in stream.all_columns.items()}
    found |= {name: F.col(name) for name in _ORIGIN[:3]}
    found |= {"record_hash": F.unhex(F.md5(_said(stream)))} if stream.identity_is_record else {}
    # Of a line that is typed already there are no texts, and so no other values.
    found |= {name: F.coalesce(F.col("typed")[name], found[name]) for name in typed_type(stream).names}
    return judged.select(
        *(value.alias(name) for name, value in found.items()),
        reason.alias("reason"),
        F.trim(F.expr("substr(verdict, length(substring_index(verdict, ':', 1)) + 2)")).alias("detail"),
        *(F.when(F.col("verdict").isNotNull(), F.col(name)).alias(name) for name in _ORIGIN[3:]),
    )


def _said(stream: Stream) -> Column:
    """The bytes that make a row the same row: its record's, and which item of the record it is."""
    record = F.col("record")
    if stream.source.kind == "mqtt":
        record = said(record)
    return (
        F.concat(record, F.concat(F.lit("\n"), "source_item").cast("binary"))
        if stream.source.has_items
        else record
    )


def _names(stream: Stream) -> list[str]:
    arrival = stream.arrival_time
    return [
        *stream.all_columns,
        EVENT,
        *([ARRIVAL] if arrival else []),
        *([PLUS] if arrival and arrival.plus else []),
    ]


def _text(stream: Stream, name: str) -> Column:
    text = F.col(f"f.{name}")
    nulls = (*stream.source.nulls, *(("-", "(empty)") if stream.source.format == "zeek" else ()))
    return F.when(~text.isin(*nulls), text) if nulls else text


def _value(text: Column, column: StreamColumn) -> Column:
    if column.type == "string":
        return text
    return _number(text, sql_type(column)) if column.is_number else text.try_cast(sql_type(column))


def _number(text: Column, spark_type: str) -> Column:
    value = text.try_cast(spark_type)
    if spark_type != "double":
        return value
    # Java also reads "1d" and "1f" as numbers; no sensor means that, but "inf" ends so too.
    suffixed = F.substring(text, -1, 1).isin("d", "D", "f", "F") & (F.abs(value) != float("inf"))
    return F.when(~suffixed, value)


def _finite(name: str, column: StreamColumn) -> Column:
    value = F.col(name)
    if sql_type(column) != "double":
        return value
    return F.when(~F.isnan(value) & (F.abs(value) != float("inf")), value)


def _time(text: Column, time: TimeColumn) -> Column:
    """Microseconds since the epoch, rounded down; null where the text is no time."""
    if time.unit == "iso":
        # Without this test "T10:00" would be read as ten o'clock on the day of the run.
        iso = F.when(text.rlike(r"^\d{4}-\d{2}-\d{2}"), text)
        if time.timezone == "UTC":
            return F.unix_micros(iso.try_cast("timestamp"))
        local = F.to_utc_timestamp(_wall_clock(iso), time.timezone)
        return F.unix_micros(F.when(_has_offset(iso), iso.try_cast("timestamp")).otherwise(local))
    return _scaled(text, {"s": 1_000_000, "ms": 1_000, "us": 1}[time.unit])


def _has_offset(iso: Column) -> Column:
    return iso.rlike(r"([zZ]|[+-]\d{2}:?\d{2})$") & iso.rlike(r"[T ]")


def _wall_clock(iso: Column) -> Column:
    return iso.try_cast("timestamp_ntz").cast("timestamp")


def _clock_changes(stream: Stream) -> list[Column]:
    """The verdicts on a local time that comes twice, or never, when the clocks of its zone are changed."""
    time = stream.event_time
    if time.unit != "iso" or time.timezone == "UTC":
        return []

    def shown(event: Column) -> Column:
        return F.unix_micros(F.from_utc_timestamp(F.timestamp_micros(event), time.timezone))

    event, text = F.col("event_us"), F.col(f"t_{EVENT}")
    wall, is_local = F.unix_micros(_wall_clock(text)), ~_has_offset(text)
    is_twice = F.lit(False)
    for days in (-1, 1):
        # With the offset of the day before, or after.
        other = wall - (shown(event + days * DAY_US) - (event + days * DAY_US))
        is_twice |= (other != event) & (shown(other) == wall)
    expected = f"in {time.timezone}; expected an offset, such as +01:00"
    twice = _told("ambiguous_time", time.column, text, f"which comes twice {expected}")
    never = _told("skipped_time", time.column, text, f"which the clocks skip {expected}")
    return [F.when(is_local & is_twice, twice), F.when(is_local & (shown(event) != wall), never)]


def _scaled(text: Column, microseconds: int) -> Column:
    factor = F.lit(microseconds)
    # Whole numbers need no decimals, which cost ten times as much.
    whole = F.try_multiply(text.try_cast("bigint"), factor)
    return F.coalesce(whole, F.floor(text.try_cast("decimal(28,9)") * factor).try_cast("bigint"))


def _arrival(stream: Stream) -> Column:
    if stream.arrival_time is None:
        return F.lit(None).cast("bigint")
    received = _time(F.col(f"t_{ARRIVAL}"), stream.arrival_time)
    if stream.arrival_time.plus is None:
        return received
    seconds = F.col(f"t_{PLUS}")
    return F.try_add(received, F.when(seconds.isNull(), F.lit(0)).otherwise(_scaled(seconds, 1_000_000)))


def _verdict(stream: Stream) -> Column:
    """The first thing wrong with a record as "reason: detail", or null."""
    low, high = stream.event_time_bounds
    event, text = F.col("event_us"), F.col(f"t_{EVENT}")
    checks = [
        F.col("fault"),
        F.when(~F.col("valid"), F.lit("bad_utf8: the record is not UTF-8")),
        F.col("malformed"),
        F.when(text.isNull(), F.lit(f"no_event_time: {stream.event_time.column} is missing")),
        F.when(
            event.isNull(),
            _told(
                "bad_event_time", stream.event_time.column, text, f"expected unit {stream.event_time.unit}"
            ),
        ),
        F.when((event < low) | (event >= high), _out_of_bounds(stream, event, text)),
        *([] if stream.listed_us is None else [ahead_verdict(stream, F.lit(stream.listed_us))]),
        *_clock_changes(stream),
        *_arrival_checks(stream),
        *(_bad_value(name, column) for name, column in stream.all_columns.items() if _is_judged(column)),
    ]
    return F.when(F.col("typed").isNull(), F.coalesce(*checks))


def _out_of_bounds(stream: Stream, event: Column, text: Column) -> Column:
    """The verdict of ``verdicts.out_of_bounds``."""
    time, (low, high) = stream.event_time, stream.event_time_bounds
    units = []
    for unit, power in other_units(time):
        factor = F.lit(1000 ** abs(power)).cast("bigint")
        moved = F.try_multiply(event, factor) if power > 0 else _div(event, factor)
        units.append(
            F.when((moved >= low) & (moved < high), F.concat(F.lit(as_unit(unit)), _date_text(moved)))
        )
    begin, close = (F.lit(part) for part in read_as(time, "\0").split("\0"))
    return F.concat(
        *(begin, F.substring(text, 1, 100), close, _date_text(event)),
        F.lit(expected_bounds(stream)),
        F.coalesce(*units, F.lit("")),
    )


def ahead_verdict(stream: Stream, listed: Column) -> Column:
    """The verdict on an event time that is too far ahead of when its record was listed, or null."""
    ahead = F.col("event_us") - listed
    seconds = ahead - ahead % F.lit(MICROSECONDS["s"]).cast("bigint")
    return F.when(
        ahead > stream.ahead_us, F.concat(F.lit(EVENT_IS), _spelled(seconds), F.lit(ahead_of_listing(stream)))
    )


def _spelled(microseconds: Column) -> Column:
    """The text of ``durations.spelled_duration``, of a duration of at least the shortest unit."""
    parts, left = [], microseconds
    for unit in SPELLED:
        size = F.lit(MICROSECONDS[unit]).cast("bigint")
        count, left = _div(left, size), left % size
        parts.append(F.when(count > 0, F.concat(count.cast("string"), F.lit(unit))))
    return F.concat_ws("", *parts)


def _div(number: Column, factor: Column) -> Column:
    """A whole number divided by another, rounded towards zero."""
    return F.call_function("div", number, factor)


def _date_text(event: Column) -> Column:
    """The date of ``verdicts.date_text``."""
    day = F.lit(DAY_US).cast("bigint")
    # Rounded down, without leaving 64 bits.
    days = F.when(event >= 0, _div(event, day)).otherwise(-_div(-(event + 1), day) - 1)
    date = F.date_add(F.lit("1970-01-01").cast("date"), days.cast("int"))
    parts = (F.lpad(part.cast("string"), 2, "0") for part in (F.month(date), F.day(date)))
    return F.concat_ws("-", F.year(date).cast("string"), *parts)


def _arrival_checks(stream: Stream) -> list[Column]:
    if stream.arrival_time is None:
        return []
    text, delay = F.col(f"t_{ARRIVAL}"), F.try_subtract("arrival_us", "event_us")
    bad = F.when(
        F.col("arrival_us").isNull() & text.isNotNull(),
        _told(
            "bad_arrival_time", stream.arrival_time.column, text, f"expected unit {stream.arrival_time.unit}"
        ),
    )
    if stream.clock_bounds is None:
        return [bad]
    bounds, (ahead, behind) = stream.clock_bounds, off_arrival(stream.clock_bounds)
    # Times can be further apart than 64 bits hold.
    event, arrival = (F.col(name).cast("decimal(20,0)") for name in ("event_us", "arrival_us"))
    is_far = delay.isNull() & F.col("arrival_us").isNotNull() & F.col("event_us").isNotNull()
    end = F.when(arrival < event, F.lit(ahead)).otherwise(F.lit(behind))
    clock = F.concat(F.lit(EVENT_IS), _spelled(F.abs(arrival - event)), end)
    return [bad, F.when(is_far | (delay > bounds.behind) | (delay < -bounds.ahead), clock)]


def _is_judged(column: StreamColumn) -> bool:
    return column.type != "string" and column.unreadable == "rejected"


def _bad_value(name: str, column: StreamColumn) -> Column:
    text = F.col(f"t_{name}")
    wrong = text.isNotNull() & F.col(name).isNull()
    if sql_type(column).startswith("decimal") or column.type == "int":
        # An exact type has no NaN of its own; it still counts as missing, not as a bad value.
        wrong = wrong & ~F.lower(text).rlike(r"^[-+]?(nan|inf|infinity)$")
    return F.when(wrong, _told("bad_value", name, text, f"expected {column.type}"))


def _told(reason: str, name: str, text: Column, expected: str) -> Column:
    return F.concat(F.lit(f"{reason}: {name} is '"), F.substring(text, 1, 100), F.lit(f"', {expected}"))
