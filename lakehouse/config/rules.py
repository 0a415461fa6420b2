"""Rules about the values of a stream, under the names that Great Expectations has for them."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lakehouse.config.columns import NAME, ArrowPattern

# What each expectation needs, and may have.
_NEEDS: dict[str, tuple[set[str], set[str]]] = {
    "column_values_to_be_between": (set(), {"min_value", "max_value", "strict_min", "strict_max"}),
    "column_values_to_not_be_null": (set(), set()),
    "column_values_to_be_in_set": ({"value_set"}, set()),
    "column_values_to_match_regex": ({"regex"}, set()),
}
_OPTIONS = {name for needed, more in _NEEDS.values() for name in (*needed, *more)}
Number = int | float


class Rule(BaseModel):
    """An expectation of a column's values: its share that must hold, and what follows where it does not.

    ``mostly``: the least share of a batch's rows that must hold; rows without a value hold, but of an expectation that
    asks for one. ``on_failure``: ``warn`` reports it, ``withhold`` keeps the stream from the next publish, and
    ``quarantine`` rejects each row that breaks it, with its bytes, so that a requeue judges it again.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    expect: Literal[
        "column_values_to_be_between",
        "column_values_to_not_be_null",
        "column_values_to_be_in_set",
        "column_values_to_match_regex",
    ]
    column: str
    min_value: Number | None = None
    max_value: Number | None = None
    strict_min: bool = False
    strict_max: bool = False
    value_set: tuple[str | Number | bool, ...] = ()
    regex: ArrowPattern | None = None
    mostly: float = Field(default=1.0, gt=0, le=1)
    on_failure: Literal["warn", "withhold", "quarantine"] = "warn"
    says: str = ""
    name: str = ""

    @model_validator(mode="before")
    @classmethod
    def _named(cls, table: Any) -> Any:
        if not isinstance(table, dict) or table.get("name"):
            return table
        short = str(table.get("expect", "")).removeprefix("column_values_to_")
        return table | {"name": f"{table.get('column', '')}_{short}"}

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Self:
        needed, more = _NEEDS[self.expect]
        given = self.model_fields_set & _OPTIONS
        if lacking := needed - given:
            raise ValueError(f"expected {' and '.join(sorted(lacking))}")
        if over := given - needed - more:
            raise ValueError(f"{self.expect} has no {' and '.join(sorted(over))}")
        if self.expect == "column_values_to_be_between" and self.min_value is None and self.max_value is None:
            raise ValueError("expected min_value, max_value or both")
        if not NAME.match(self.name):
            raise ValueError(f"expected a name of lower-case letters, digits and _, found {self.name!r}")
        if self.on_failure == "quarantine" and self.mostly < 1:
            raise ValueError("expected mostly = 1: each row that breaks the rule is rejected")
        return self

    @property
    def sentence(self) -> str:
        """The rule in words: its own, or what it expects."""
        if self.says:
            return self.says
        low = (
            ""
            if self.min_value is None
            else f" {'more than' if self.strict_min else 'at least'} {self.min_value:g}"
        )
        high = (
            ""
            if self.max_value is None
            else f" {'less than' if self.strict_max else 'at most'} {self.max_value:g}"
        )
        words = {
            "column_values_to_be_between": f"is{low}{' and' if low and high else ''}{high}",
            "column_values_to_not_be_null": "is there",
            "column_values_to_be_in_set": f"is one of {', '.join(map(str, self.value_set))}",
            "column_values_to_match_regex": f"matches {self.regex}",
        }
        return f"{self.column} {words[self.expect]}"
