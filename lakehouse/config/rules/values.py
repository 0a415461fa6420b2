"""Rules about the values of a stream, under the names and with the keys that Great Expectations has for them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from lakehouse.config.columns import NAME, ArrowPattern
from lakehouse.config.problems import nearest

_Finite = Annotated[float, Field(allow_inf_nan=False)]
Number = int | _Finite
Share = Annotated[float, Field(ge=0, le=1)]
Scalar = str | int | _Finite | bool
_RANGE = ("min_value", "max_value", "strict_min", "strict_max")
_PAIR = ("column_A", "column_B")


@dataclass(frozen=True)
class Expectation:
    """Keys that an expectation needs and may have, the type of its columns, and its sentence about them."""

    says: str
    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    type: Literal["any", "number", "string"] = "any"
    columns: tuple[str, ...] = ("column",)
    # True if it is about the column or the table as a whole, and not about each row.
    whole: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """All keys that it may have, but those that every rule may."""
        return (*self.columns, *self.needs, *self.may)


def _of_text(says: str, key: str, *may: str) -> Expectation:
    return Expectation(says, (key,), may, "string")


def _of_figure(says: str, type: Literal["any", "number"] = "number") -> Expectation:
    return Expectation(f"{says} is {{range}}", (), _RANGE, type, whole=True)


EXPECTATIONS: Mapping[str, Expectation] = {
    "column_values_to_be_between": Expectation("{of} is {range}", (), _RANGE, "number"),
    "column_values_to_not_be_null": Expectation("{of} is there"),
    "column_values_to_be_null": Expectation("{of} is missing"),
    "column_values_to_be_in_set": Expectation("{of} is one of {value_set}", ("value_set",)),
    "column_values_to_not_be_in_set": Expectation("{of} is none of {value_set}", ("value_set",)),
    "column_values_to_match_regex": _of_text("{of} matches {regex}", "regex"),
    "column_values_to_not_match_regex": _of_text("{of} does not match {regex}", "regex"),
    "column_values_to_match_regex_list": _of_text(
        "{of} matches {match_on} of {regex_list}", "regex_list", "match_on"
    ),
    "column_values_to_not_match_regex_list": _of_text("{of} matches none of {regex_list}", "regex_list"),
    "column_values_to_match_like_pattern": _of_text("{of} is like {like_pattern}", "like_pattern"),
    "column_values_to_not_match_like_pattern": _of_text("{of} is not like {like_pattern}", "like_pattern"),
    "column_value_lengths_to_be_between": Expectation("the length of {of} is {range}", (), _RANGE, "string"),
    "column_value_lengths_to_equal": _of_text("the length of {of} is {value}", "value"),
    "column_pair_values_a_to_be_greater_than_b": Expectation(
        "{column_A} is {more} {column_B}", (), ("or_equal", "ignore_row_if"), "number", _PAIR
    ),
    "column_pair_values_to_be_equal": Expectation(
        "{column_A} equals {column_B}", (), ("ignore_row_if",), columns=_PAIR
    ),
    "column_pair_values_to_be_in_set": Expectation(
        "{of} are one of {value_pairs_set}", ("value_pairs_set",), ("ignore_row_if",), columns=_PAIR
    ),
    "multicolumn_sum_to_equal": Expectation(
        "the sum of {of} is {sum_total}", ("sum_total",), ("ignore_row_if",), "number", ("column_list",)
    ),
    "select_column_values_to_be_unique_within_record": Expectation(
        "{of} differ from each other", (), ("ignore_row_if",), columns=("column_list",)
    ),
    "column_min_to_be_between": _of_figure("the least {of}"),
    "column_max_to_be_between": _of_figure("the greatest {of}"),
    "column_mean_to_be_between": _of_figure("the mean of {of}"),
    "column_median_to_be_between": _of_figure("the median of {of}"),
    "column_sum_to_be_between": _of_figure("the sum of {of}"),
    "column_stdev_to_be_between": _of_figure("the standard deviation of {of}"),
    "column_quantile_values_to_be_between": Expectation(
        "quantiles of {of} are {quantile_ranges}", ("quantile_ranges",), (), "number", whole=True
    ),
    "column_unique_value_count_to_be_between": _of_figure("the number of distinct {of}", "any"),
    "column_proportion_of_unique_values_to_be_between": _of_figure("the share of distinct {of}", "any"),
    "column_proportion_of_non_null_values_to_be_between": _of_figure("the share of rows with {of}", "any"),
    "table_row_count_to_be_between": Expectation(
        "the number of new rows is {range}", (), _RANGE, columns=(), whole=True
    ),
    "table_row_count_to_equal": Expectation(
        "the number of new rows is {value}", ("value",), columns=(), whole=True
    ),
}
# Which rows of several columns are not judged, of a pair and of a list; the first unless the rule says otherwise.
_IGNORED = {
    "column_A": ("both_values_are_missing", "either_value_is_missing", "neither"),
    "column_list": ("all_values_are_missing", "any_value_is_missing", "never"),
}


class QuantileRanges(BaseModel):
    """Shares of a column's values, and for each the range of the value at it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    quantiles: tuple[Share, ...] = Field(min_length=1)
    value_ranges: tuple[tuple[Number | None, Number | None], ...]

    @model_validator(mode="after")
    def _of_one_length(self) -> Self:
        if len(self.quantiles) != len(self.value_ranges):
            raise ValueError("expected a range for each of the quantiles")
        return self

    def __str__(self) -> str:
        ranges = zip(self.quantiles, self.value_ranges, strict=True)
        return ", ".join(f"{low} to {high} at {share:g}" for share, (low, high) in ranges)


def name_of(table: Mapping[str, Any]) -> Any:
    """Return the name of a rule as it is written: its own, or one of its columns and what it expects of them."""
    if table.get("name"):
        return table["name"]
    short = str(table.get("expect", "")).removeprefix("column_values_to_").removeprefix("column_")
    several = table.get("column_list")
    keys = (*_PAIR, "column")
    names = several if isinstance(several, list | tuple) else [table[key] for key in keys if key in table]
    return "_".join(map(str, (*names, short)))[:100]


class Rule(BaseModel):
    """An expectation of a stream's values: its share that must hold, and what follows where it does not.

    ``mostly``: the least share of the judged rows that must hold; as in Great Expectations, a missing value is not
    judged but by an expectation about being there. ``on_failure``: ``warn`` reports it, ``withhold`` keeps the stream
    from the next publish, and ``quarantine`` rejects each row that breaks it, with its bytes, so that a requeue judges
    it again.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    expect: str
    column: str | None = None
    column_A: str | None = None
    column_B: str | None = None
    column_list: tuple[str, ...] = Field(default=(), min_length=2, max_length=16)
    min_value: Number | None = None
    max_value: Number | None = None
    strict_min: bool = False
    strict_max: bool = False
    value: int | None = Field(default=None, ge=0)
    value_set: tuple[Scalar, ...] = Field(default=(), min_length=1)
    value_pairs_set: tuple[tuple[Scalar, Scalar], ...] = Field(default=(), min_length=1)
    regex: ArrowPattern | None = None
    regex_list: tuple[ArrowPattern, ...] = Field(default=(), min_length=1)
    match_on: Literal["any", "all"] = "any"
    like_pattern: str | None = None
    or_equal: bool = False
    sum_total: Number | None = None
    ignore_row_if: str = ""
    quantile_ranges: QuantileRanges | None = None
    mostly: float = Field(default=1.0, gt=0, le=1)
    on_failure: Literal["warn", "withhold", "quarantine"] = "warn"
    says: str = ""
    name: str = ""

    @field_validator("expect")
    @classmethod
    def _offered(cls, expect: str) -> str:
        if expect not in EXPECTATIONS:
            raise ValueError(f"expected {nearest(expect, EXPECTATIONS)}")
        return expect

    @model_validator(mode="before")
    @classmethod
    def _named(cls, table: Any) -> Any:
        return table | {"name": name_of(table)} if isinstance(table, dict) else table

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Self:
        needs = self.expectation
        given = self.model_fields_set - {"expect", "mostly", "on_failure", "says", "name"}
        if lacking := {*needs.columns, *needs.needs} - given:
            raise ValueError(f"expected {' and '.join(sorted(lacking))}")
        if over := given.difference(needs.options):
            known = ", ".join(needs.options)
            raise ValueError(f"{self.expect} has no {' and '.join(sorted(over))}; expected {known}")
        if "min_value" in needs.may and self.min_value is None and self.max_value is None:
            raise ValueError("expected min_value, max_value or both")
        ways = _IGNORED.get("".join(needs.columns[:1]), ())
        if self.ignore_row_if and self.ignore_row_if not in ways:
            raise ValueError(f"expected ignore_row_if as {nearest(self.ignore_row_if, ways)}")
        if not NAME.match(self.name):
            raise ValueError(f"expected a name of lower-case letters, digits and _, found {self.name!r}")
        if needs.whole and (self.on_failure == "quarantine" or self.mostly < 1):
            raise ValueError(
                f"{self.expect} is about no single row; expected warn or withhold, without mostly"
            )
        if self.on_failure == "quarantine" and self.mostly < 1:
            raise ValueError("expected mostly = 1: each row that breaks the rule is rejected")
        return self

    @property
    def expectation(self) -> Expectation:
        """The keys and the sentence of what is expected."""
        return EXPECTATIONS[self.expect]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is about."""
        if self.column_list:
            return self.column_list
        return tuple(getattr(self, key) for key in self.expectation.columns)

    @property
    def is_comparison(self) -> bool:
        """True if its columns are compared with each other, and not with values of the rule."""
        return len(self.columns) > 1 and not self.value_pairs_set

    @property
    def ignored(self) -> str:
        """The rows of several columns that are not judged."""
        return self.ignore_row_if or _IGNORED[self.expectation.columns[0]][0]

    @property
    def sentence(self) -> str:
        """The rule in words: its own, or what it expects."""
        return self.says or self.expectation.says.format_map(self._words())

    def _words(self) -> dict[str, str]:
        given = {name: getattr(self, name) for name in self.expectation.options}
        shown = {
            name: ", ".join(map(str, each)) if isinstance(each, tuple) else str(each)
            for name, each in given.items()
        }
        more = "at least" if self.or_equal else "greater than"
        return shown | {"of": " and ".join(self.columns), "range": self._range(), "more": more}

    def _range(self) -> str:
        ends = (
            (self.min_value, "more than" if self.strict_min else "at least"),
            (self.max_value, "less than" if self.strict_max else "at most"),
        )
        return " and ".join(f"{how} {end:g}" for end, how in ends if end is not None)
