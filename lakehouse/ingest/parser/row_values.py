"""The texts of a row -> its values, or why it is rejected, one row at a time, in the order in which faults count."""

import math
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import pyarrow as pa

from lakehouse.algorithms.ingest.zones import EXPECTED
from lakehouse.config.columns import Column, sql_type
from lakehouse.config.stream import Stream
from lakehouse.config.times import TimeColumn
from lakehouse.ingest.parser.field_map import ARRIVAL, EVENT, LOCAL, PLUS, SINCE, SPELT, ZONE
from lakehouse.ingest.parser.json_record import Texts
from lakehouse.ingest.parser.placed_times import local_time_column
from lakehouse.ingest.parser.plain_values import arrow_type
from lakehouse.ingest.parser.row_rules import broken
from lakehouse.ingest.parser.texts import Value, clock_change, is_long, is_special, scaled, time_of, value_of
from lakehouse.ingest.parser.verdicts import (
    Rejected,
    ahead_of_listing,
    changed_clock,
    off_arrival,
    out_of_bounds,
)


@dataclass(frozen=True)
class RowValues:
    """Typing and judging of the rows of a stream."""

    stream: Stream

    def of(self, texts: Texts, listed_us: int | None) -> dict[str, Value]:
        """Return the values of a row by column, None where they are missing; ``listed_us``: of its record.

        Raises Rejected when the row is not accepted; with its event time where that is known, and if its local time
        comes twice, with its measures.
        """
        event = self._event(texts, listed_us)
        try:
            values: dict[str, Value] = {"event_us": event, "arrival_us": self._arrival(texts, event)}
            for name, column in self._columns.items():
                values[name] = _value(name, texts, column)
            self._keep_rules(values)
        except Rejected as verdict:
            raise Rejected(str(verdict), {"event_us": event}) from None
        return values

    def _keep_rules(self, values: dict[str, Value]) -> None:
        for rule in self.stream.row_rules:
            own = {
                name: pa.array([values[name]], arrow_type(sql_type(self._columns[name])))
                for name in rule.columns
            }
            if broken(own, rule)[0].as_py():
                found = ", ".join(f"{name} is {_quoted(values[name])}" for name in rule.columns)
                raise Rejected(f"rule_{rule.name}: {found}; the rule: {rule.sentence}")

    @cached_property
    def _columns(self) -> dict[str, Column]:
        return self.stream.all_columns

    def _event(self, texts: Texts, listed_us: int | None) -> int:
        time, (low, high) = self.stream.event_time, self.stream.event_time_bounds
        text, spelt = _time_text(texts, EVENT)
        if spelt is None or (time.since and texts[EVENT + SINCE] is None):
            raise Rejected(f"no_event_time: {' or '.join(time.needed)} is missing")
        if text is None and time.timezone_column:
            text, time = _local_time(texts, EVENT, time)
        event = None if text is None else time_of(text, time)
        if text is None or event is None:
            raise _wrong("bad_event_time", " ".join(time.names), spelt, time.reading)
        if not low <= event < high:
            raise Rejected(out_of_bounds(spelt, event, self.stream))
        if listed_us is not None and event - listed_us > self.stream.ahead_us:
            raise Rejected(ahead_of_listing(event - listed_us, self.stream))
        is_twice = clock_change(text, time)
        if is_twice is not None:
            raise Rejected(
                changed_clock(text, time, is_twice), self._measured(texts, event) if is_twice else {}
            )
        return event

    def _measured(self, texts: Texts, event: int) -> dict[str, Value]:
        """Return a moment and the measures of a row, None where they are missing or wrong."""
        values: dict[str, Value] = {"event_us": event}
        for name in self.stream.measures:
            with suppress(Rejected):
                values[name] = _value(name, texts, self._columns[name])
        return values

    def _arrival(self, texts: Texts, event: int) -> int | None:
        time, bounds = self.stream.arrival_time, self.stream.clock_bounds
        text, spelt = _time_text(texts, ARRIVAL) if time else (None, None)
        if time is None or spelt is None:
            return None
        zoned: TimeColumn = time
        plus = time.plus
        if text is None and time.timezone_column:
            text, zoned = _local_time(texts, ARRIVAL, time)
        arrival, more = None if text is None else time_of(text, zoned), texts[PLUS] if plus else None
        if arrival is not None and more is not None:
            added = scaled(more, Decimal(1_000_000))
            if added is None:
                raise _wrong("bad_arrival_time", plus or "", more, "seconds")
            arrival = arrival + added if is_long(arrival + added) else None
        if arrival is None:
            raise _wrong("bad_arrival_time", " ".join(time.names), spelt, time.reading)
        if bounds is not None and not -bounds.ahead <= arrival - event <= bounds.behind:
            raise Rejected(off_arrival(arrival - event, bounds))
        return arrival


def _time_text(texts: Texts, name: str) -> tuple[str | None, str | None]:
    """Return the text of a time in the usual form, and as it stood in the record."""
    text = texts[name]
    return text, texts.get(SPELT + name) or text


def _local_time(texts: Texts, name: str, time: TimeColumn) -> tuple[str | None, TimeColumn]:
    """Return a time as clocks show it, and how it is read by those of the zone that its record names."""
    zone = texts[name + ZONE]
    local = local_time_column(time, zone)
    if texts[LOCAL + name] is not None and local is None:
        raise _wrong(f"bad{name}_time", time.timezone_column or "", zone or "", EXPECTED)
    return (None if time.since else texts[LOCAL + name]), local or time


def _quoted(value: Value) -> str:
    return "missing" if value is None else f"'{str(value)[:100]}'"


def _wrong(reason: str, name: str, text: str, expected: str) -> Rejected:
    return Rejected(f"{reason}: {name} is '{text[:100]}', expected {expected}")


def _value(name: str, texts: Texts, column: Column) -> Value:
    text = texts[name]
    value = None if text is None else value_of(text, column)
    is_judged = column.type != "string" and column.unreadable == "rejected"
    if value is None and text is not None and is_judged:
        is_exact = column.type == "int" or sql_type(column).startswith("decimal")
        if not (is_exact and is_special(text)):
            raise _wrong("bad_value", name, texts.get(SPELT + name) or text, column.type)
    return None if isinstance(value, float) and not math.isfinite(value) else value
