"""Cuts of delimited files: their heads, separators and encodings, and wide records that become several rows."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from lakehouse.config.columns import ArrowPattern, Pattern

# A separator of runs of blanks and tabs.
WHITESPACE = "whitespace"
Encoding = Literal["utf-8", "latin-1", "cp1252", "utf-16"]


def _separator(value: str) -> str:
    if len(value) != 1 and value != WHITESPACE:
        raise ValueError(f'expected one character, or "{WHITESPACE}" for runs of blanks and tabs')
    return value


Separator = Annotated[str, AfterValidator(_separator)]


def _lists(value: Any) -> Any:
    """Return the lists that are opened, level by level, each with those that are opened side by side."""
    levels = value if isinstance(value, list | tuple) else [value]
    return tuple(tuple(level) if isinstance(level, list | tuple) else (level,) for level in levels)


# A path, or several: of a list, of one in its items, and so on; of lists of equal length side by side in a list.
Explode = Annotated[
    tuple[Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)], ...],
    BeforeValidator(_lists),
]
# How many letters each field of a line of fixed width has.
Widths = tuple[Annotated[int, Field(ge=1, le=10_000)], ...]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Unpivot(_Part):
    """Fields of a wide record that become rows of their own, of the field's name and its value.

    ``columns``: a regular expression that is looked for in the names of a file's header. ``name`` and ``value``: under
    which names the columns of the stream read the two. Fields that a column or time reads by its own name stay out.
    """

    columns: Pattern
    name: str = Field(default="channel", min_length=1)
    value: str = Field(default="value", min_length=1)


class HeaderLines(_Part):
    """Place of a file's header: the line of names, and that where data begin, by default the next one.

    Lines count from 1, without blank lines and comments, and where ``skip_until`` is given from the first line in which
    this regular expression is found. ``units``: the line between them that has the unit of each field.
    """

    line: int = Field(default=1, ge=1, le=10_000)
    units: int | None = Field(default=None, ge=2, le=10_000)
    data: int | None = Field(default=None, ge=2, le=10_001)
    skip_until: ArrowPattern | None = None

    @model_validator(mode="after")
    def _data_are_behind_the_names(self) -> HeaderLines:
        if self.first_of_data <= self.line:
            raise ValueError(f"expected data behind line {self.line}, which has the names")
        if self.units is not None and not self.line < self.units < self.first_of_data:
            raise ValueError(f"expected units between line {self.line}, which has the names, and the data")
        return self

    @property
    def first_of_data(self) -> int:
        """The line where data begin."""
        return self.data or (self.units or self.line) + 1


# A line that is passed over, such as a title, says nothing of how many fields there are: the first of data does.
HEADS = {
    "names": HeaderLines(),
    "skip": HeaderLines.model_construct(line=2, data=2),
    "none": HeaderLines.model_construct(line=1, data=1),
}
