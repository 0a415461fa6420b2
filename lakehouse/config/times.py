"""Times as they are declared: durations, time fields and how they are read, identities by time and their revisions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from lakehouse.algorithms.ingest.zones import zone_of
from lakehouse.config.durations import EXPECTED, parse_duration

# Codes of C and Python that a format may have, and what each takes.
CODES = {
    "Y": "a year of four digits",
    "y": "a year of two, 1969 to 2068",
    "m": "a month",
    "b": "a month's English name, whole or its first three letters",
    "d": "a day of the month",
    "j": "a day of the year",
    "H": "an hour, 0 to 24",
    "I": "an hour, 1 to 12",
    "p": "AM or PM",
    "M": "a minute",
    "S": "a second, 0 to 60",
    "f": "a fraction of a second, up to nine digits",
    "z": "an offset, such as +01:00, +0100 or Z",
    "k": "hour and minute as one number, 0 to 2400",
    "*": "any text, which says nothing",
}
_CODE = re.compile(r"%(.)", re.DOTALL)
# What says a day, and a time of day, in full.
_DAYS = ({"Y", "m", "d"}, {"Y", "b", "d"}, {"y", "m", "d"}, {"y", "b", "d"}, {"Y", "j"}, {"y", "j"})


def _zone(value: str) -> str:
    zone_of(value)
    return value


def _format(value: str) -> str:
    codes = [code for code in _CODE.findall(value) if code != "%"]
    wrong = [code for code in codes if code not in CODES]
    if wrong or (value.endswith("%") and not value.endswith("%%")):
        raise ValueError(f"expected the codes %{', %'.join(CODES)}, found %{wrong[0] if wrong else ''}")
    if len(codes) != len(set(codes)):
        raise ValueError("expected each code once")
    if not any(day <= set(codes) for day in _DAYS):
        raise ValueError('expected a year, month and day, or day of the year, such as "%d.%m.%Y %H:%M"')
    if (
        ("I" in codes) != ("p" in codes)
        or {"H", "I"} <= set(codes)
        or ("k" in codes and {"H", "I", "M"} & set(codes))
    ):
        raise ValueError("expected the hour once: %H, or %I with %p, or %k")
    return value


def _shift(value: Any) -> int:
    text = value if isinstance(value, str) else ""
    return (-1 if text.startswith("-") else 1) * parse_duration(text.lstrip("+-"))


def _duration(value: Any) -> int:
    # A bare number would be taken for microseconds, which nobody who writes one means.
    return parse_duration(value if isinstance(value, str) else "")


def _wait(value: Any) -> int:
    if value == 0 and value is not False:
        return 0
    try:
        return parse_duration(value if isinstance(value, str) else "", least=0)
    except ValueError as error:
        raise ValueError(f"{error}, or 0") from None


def _kept(value: Any) -> int | None:
    return None if value in (None, "forever") else _duration(value)


Microseconds = Annotated[int, BeforeValidator(_duration), Field(description=EXPECTED)]
# A duration that may be none at all.
Wait = Annotated[int, BeforeValidator(_wait), Field(description=EXPECTED)]
Kept = Annotated[int | None, BeforeValidator(_kept)]
Zone = Annotated[str, AfterValidator(_zone)]
Shift = Annotated[int, BeforeValidator(_shift), Field(description=f"{EXPECTED}, or the same behind a minus")]


class TimeColumn(BaseModel):
    """A time field of the record, and how its text or number is to be read.

    ``format``: codes of C and Python (``CODES``), for texts that are no ISO times. ``columns``: several fields instead
    of one, whose texts are read with a blank between them. ``shift`` is added to what a device's clock says.
    ``fallback``, written ``or``: a field that is read where this one has no time, or one beyond the stream's bounds.
    ``timezone_column``: a field that has the zone of its record. ``since``: a field that has the time from which the
    number in the time's field counts; format and zone are those of this time.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    column: str
    columns: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    unit: Literal["s", "ms", "us", "ns", "iso", "excel"]
    format: Annotated[str, AfterValidator(_format)] | None = None
    timezone: Zone = "UTC"
    timezone_column: str | None = Field(default=None, min_length=1)
    since: str | None = Field(default=None, min_length=1)
    shift: Shift = 0
    fallback: str | None = Field(default=None, alias="or", min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _from_several_columns(cls, table: Any) -> Any:
        if not isinstance(table, dict):
            return table
        columns = table.get("columns")
        if columns and "column" in table and table["column"] != columns[0]:
            raise ValueError("expected one of column and columns, found both")
        first = {"column": columns[0]} if isinstance(columns, list | tuple) and columns else {}
        return ({"unit": "iso"} if "format" in table else {}) | first | table

    @model_validator(mode="after")
    def _formats_are_of_texts(self) -> TimeColumn:
        if self.format is not None and self.unit != "iso" and self.since is None:
            raise ValueError(f'a format belongs to no unit, found unit "{self.unit}"')
        if self.since is not None and self.unit in ("iso", "excel"):
            raise ValueError(f'a time since another is a number of unit s, ms, us or ns, found "{self.unit}"')
        if self.timezone_column is not None and self.timezone != "UTC":
            raise ValueError("expected one of timezone and timezone_column, found both")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The fields that are read together."""
        return self.columns or (self.column,)

    @property
    def needed(self) -> tuple[str, ...]:
        """The fields without which there is no time."""
        return (*self.names, *([self.since] if self.since else ()))

    @property
    def is_local(self) -> bool:
        """True if times without an offset are those that clocks of a place show."""
        return self.unit in ("iso", "excel") or self.since is not None

    @property
    def is_spelt(self) -> bool:
        """True if a time is not one ISO text, or one number, as it stands."""
        is_placed = bool(self.since or self.timezone_column)
        return is_placed or bool(self.format or self.columns or self.fallback) or self.unit == "excel"

    @property
    def reading(self) -> str:
        """Return what is expected of a text, in words."""
        if self.since:
            return f"a number of {self.unit} since a time of {f'format {self.format}' if self.format else 'unit iso'}"
        return f"format {self.format}" if self.format else f"unit {self.unit}"


class ArrivalTime(TimeColumn):
    """Time of a record's arrival; ``plus`` names a field of seconds to add: a flow is reported at its end.

    With ``plus`` alone it is the event time that the seconds are added to.
    """

    plus: str | None = None


class Revisions(BaseModel):
    """The record that counts: the greatest by a column, or else the one that was read last."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    newest_by: str | None = None


def _revisions(value: Any) -> Any:
    if isinstance(value, dict | Revisions) or value is None:
        return value
    if value == "newest":
        return Revisions()
    raise ValueError('expected "newest", or { newest_by = "COLUMN" }')


# "newest" is short for a table that names no column.
AnyRevisions = Annotated[Revisions | None, BeforeValidator(_revisions)]


def is_time(name: str, column: Any, time: str) -> bool:
    """Return whether a column of an identity holds the event time; ``*``, all bytes, does if they have it."""
    if name == "*":
        return not time.startswith("$")
    path = column.get("path") if isinstance(column, dict) else getattr(column, "path", None)
    return time in (name, path)


def has_time(table: Mapping[str, Any]) -> bool:
    """Return whether the identity of a stream as it is written holds its event time."""
    event, identity, columns = (table.get(name) for name in ("event_time", "identity", "columns"))
    table = event if isinstance(event, dict) else {}
    times = table.get("columns") or [table.get("column") or getattr(event, "column", None)]
    times = [*times, *([table["since"]] if table.get("since") else [])] if isinstance(times, list) else times
    names = identity if isinstance(identity, list | tuple) else ()
    known = columns if isinstance(columns, dict) else {}
    # Of a time in several columns all must be there.
    return isinstance(times, list) and all(
        isinstance(time, str) and any(is_time(str(name), known.get(name), time) for name in names)
        for time in times
    )
