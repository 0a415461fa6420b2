"""Declared column of a stream: its type and its place in a record."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

ColumnType = Literal["string", "int", "double", "boolean", "decimal"]
NUMERIC: tuple[ColumnType, ...] = ("int", "double", "decimal")
# Names of folders and columns: a file system takes 255 bytes.
NAME = re.compile(r"[a-z][a-z0-9_]{0,99}\Z")
RESERVED = frozenset(
    {"event_us", "arrival_us", "source_file", "source_line", "source_item", "batch", "record_hash", "reason"}
    | {"record", "level", "grouping", "start_us", "rows", "first_us", "last_us", "stream", "measure"}
)
# What a message tells beside the record in it, by kind of source: columns and times may have these as their path.
MESSAGE_FIELDS = {
    "kafka": ("$key", "$timestamp", "$topic", "$partition", "$offset"),
    "mqtt": ("$topic", "$payload", "$received", "$retain"),
}
HEADER, TOPIC_LEVEL = "$headers.", "$topic."


def is_message_field(path: str, kind: str) -> bool:
    """Return whether a path leads to what messages of this kind tell beside the record in them.

    >>> is_message_field("$key", "kafka"), is_message_field("$headers.trace", "kafka")
    (True, True)
    >>> is_message_field("$topic.1", "mqtt"), is_message_field("$topic.one", "mqtt"), is_message_field("$key", "files")
    (True, False, False)
    """
    if kind == "kafka" and path.startswith(HEADER):
        return path != HEADER
    if kind == "mqtt" and path.startswith(TOPIC_LEVEL):
        return path.removeprefix(TOPIC_LEVEL).isdecimal()
    return path in MESSAGE_FIELDS.get(kind, ())


_SQL_TYPES = {"string": "string", "int": "bigint", "double": "double", "boolean": "boolean"}

Thousands = Literal[".", ",", "'", " "]


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"expected a regular expression such as 'Temperature': {error}") from None
    return value


def _arrow_pattern(value: str) -> str:
    # It loads slowly: only who declares such an expression waits for it.
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.scalar(""), value)
    except pa.ArrowInvalid as error:
        raise ValueError(f"expected a regular expression that Arrow can search for: {error}") from None
    return value


def _one_group(pattern: str) -> str:
    try:
        groups = re.compile(pattern, re.ASCII).groups
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    if groups != 1 or "(?P" in pattern:
        raise ValueError(f"expected one group without a name, such as 'room_(.+)\\.csv', found {pattern!r}")
    return pattern


# Its one group is what is found.
GroupPattern = Annotated[str, AfterValidator(_one_group)]
# Arrow's expressions, which are RE2's, have no look-around and no back-references.
Pattern = Annotated[str, AfterValidator(_pattern)]
ArrowPattern = Annotated[Pattern, AfterValidator(_arrow_pattern)]


def _several(value: Any) -> Any:
    """Return one text or number as a list of one, and numbers as they are written."""
    values = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(each, bool) or not isinstance(each, str | int | float) for each in values):
        raise ValueError("expected a text or a number, or a list of them")
    return tuple(map(str, values))


class Column(BaseModel):
    """One column: ``"double"`` in short, or a table with type and the path, position or file's name it is read from.

    ``path`` is a dotted path into a JSON record, or a field's name in a file with a header; it defaults to the
    column's own name. ``position`` counts fields from 0 and needs no header. ``file`` is a regular expression whose one
    group is looked for in the path of the file: all of its records have what it finds. ``decimals`` makes a number
    exact: the value is kept as a decimal with that many digits after the point, and so are its sums. ``optional``: a
    file whose header lacks the field is no reason to reject: the value is missing. ``unreadable``: a text that is not
    of the type rejects the record, or counts as missing.

    Of a number as people write it: ``decimal`` is the mark before its fraction and ``thousands`` that between groups of
    three digits, by default the source's; ``strip`` stands before or behind it, such as a unit; ``hex``: a whole number
    in digits of 16. ``missing``: values that mean none, compared as numbers where the column is one. ``true`` and
    ``false``: words of a boolean, in any case.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: ColumnType = "string"
    path: str | None = None
    position: int | None = Field(default=None, ge=0)
    file: GroupPattern | None = None
    decimals: int | None = Field(default=None, ge=0, le=18)
    optional: bool = False
    unreadable: Literal["rejected", "missing"] = "rejected"
    decimal: Literal[".", ","] | None = None
    thousands: Thousands | None = None
    strip: Annotated[tuple[str, ...], BeforeValidator(_several)] = ()
    hex: bool = False
    missing: Annotated[tuple[str, ...], BeforeValidator(_several)] = ()
    true: Annotated[tuple[str, ...], BeforeValidator(_several)] = ()
    false: Annotated[tuple[str, ...], BeforeValidator(_several)] = ()

    @model_validator(mode="before")
    @classmethod
    def _from_short_form(cls, value: Any) -> Any:
        return {"type": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _decimals_match_the_type(self) -> Column:
        if self.type == "decimal" and self.decimals is None:
            raise ValueError('type "decimal" needs decimals, such as { type = "decimal", decimals = 2 }')
        if self.type in ("string", "boolean") and self.decimals is not None:
            raise ValueError(f'decimals belong to a number, this column is "{self.type}"')
        of_numbers = (self.decimal, self.thousands, self.strip or None, self.hex or None)
        if not self.is_number and any(given is not None for given in of_numbers):
            raise ValueError(
                f'decimal, thousands, strip and hex belong to a number, this column is "{self.type}"'
            )
        if self.hex and self.type != "int":
            raise ValueError(f'hex belongs to an int, this column is "{self.type}"')
        if (self.true or self.false) and self.type != "boolean":
            raise ValueError(f'true and false are words of a boolean, this column is "{self.type}"')
        if sum(place is not None for place in (self.path, self.position, self.file)) > 1:
            raise ValueError("give one of path, position and file")
        return self

    def from_file(self, path: str) -> str | None:
        """Return what ``file`` finds in a path, None where it finds nothing."""
        found = re.search(self.file or "", path, re.ASCII)
        return (found[1] or "").strip(" ") or None if found and self.file else None

    @property
    def is_number(self) -> bool:
        """True if the column can be a measure."""
        return self.type in NUMERIC

    @property
    def scale(self) -> int | None:
        """Digits after the point of exact sums; None for a double, whose sums are rounded."""
        return 0 if self.type == "int" and self.decimals is None else self.decimals


def sql_type(column: Column) -> str:
    """Return the type, as SQL names it, that a column is stored with."""
    if column.type == "decimal" or (column.type == "double" and column.decimals is not None):
        return f"decimal(38,{column.decimals})"
    return _SQL_TYPES[column.type]
