"""Rules of a stream over time, which Great Expectations has not: freshness, volume, silence, lateness and the like.

Each is a rule with one key of its own. Times are event times; periods begin at multiples of their width, in UTC.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self, TypeAlias, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from lakehouse.algorithms.rollup.levels import Level
from lakehouse.config.columns import NAME
from lakehouse.config.durations import format_duration, parse_duration
from lakehouse.config.rules.values import Share
from lakehouse.config.times import Microseconds, Wait

DAY_US, WEEK_US = parse_duration("1d"), parse_duration("1w")
# How far back a usual volume is learned from, and how many of the same periods of the week it takes at least.
LEARNED_WEEKS, FEWEST_WEEKS = 26, 4
# Periods that a rule counts at most, with those that it learns from.
MOST_PERIODS = 20_000


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Freshness(_Part):
    """Most time between the newest row and now; ``freshness = "15m"`` in short."""

    within: Microseconds

    @property
    def sentence(self) -> str:
        """The rule in words."""
        return f"the newest row is at most {format_duration(self.within)} old"


class Volume(_Part):
    """Least and most rows in each period ``per`` that ended within ``over``, judged once ``wait`` has passed since.

    ``learned``: as many as in the same period of the weeks before, give or take ``spreads`` times their spread;
    ``volume = "learned"`` in short. ``wait`` is as long as the period unless given, because rows come late.
    """

    per: Microseconds = parse_duration("1h")
    min: int | None = Field(default=None, ge=0)
    max: int | None = Field(default=None, ge=0)
    learned: bool = False
    spreads: float = Field(default=4.0, gt=0, allow_inf_nan=False)
    over: Microseconds = DAY_US
    wait: Wait | None = None

    @model_validator(mode="after")
    def _has_a_range(self) -> Self:
        is_range = self.min is not None or self.max is not None
        if is_range == self.learned:
            raise ValueError("expected min, max or both, or learned = true")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("expected min at most as great as max")
        if self.learned and WEEK_US % self.per:
            raise ValueError('expected a period that divides a week, such as per = "1h"')
        if not self.learned and "spreads" in self.model_fields_set:
            raise ValueError("expected spreads with learned = true alone")
        if self.periods > MOST_PERIODS:
            raise ValueError(f"expected at most {MOST_PERIODS:,} periods, found {self.periods:,}")
        return self

    @property
    def judged_after(self) -> int:
        """Microseconds after its end at which a period is judged."""
        return self.per if self.wait is None else self.wait

    @property
    def history_us(self) -> int:
        """Time before the judged periods that it learns from."""
        return LEARNED_WEEKS * WEEK_US if self.learned else 0

    @property
    def periods(self) -> int:
        """Number of periods that it counts."""
        return (self.over + self.history_us) // self.per + 1

    @property
    def reach_us(self) -> int:
        """Time before now for which a level must keep its nodes."""
        fewest = FEWEST_WEEKS * WEEK_US if self.learned else 0
        return self.over + fewest + self.judged_after + self.per

    @property
    def sentence(self) -> str:
        """The rule in words."""
        each = f"each {format_duration(self.per)} has"
        if self.learned:
            return f"{each} about as many rows as the same time of the week usually"
        ends = (("at least", self.min), ("at most", self.max))
        return f"{each} {' and '.join(f'{how} {end:,}' for how, end in ends if end is not None)} rows"


class Silent(_Part):
    """Most time without a row of a key that was heard ``within`` a time; whoever was not is taken for gone.

    ``masked``: of names that are texts only the form is shown.
    """

    key: str
    after: Microseconds
    within: Microseconds = WEEK_US
    masked: bool = True

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.within <= self.after:
            raise ValueError("expected within longer than after")
        return self

    @property
    def sentence(self) -> str:
        """The rule in words."""
        return f"each {self.key} is heard at least every {format_duration(self.after)}"


class LateShare(_Part):
    """Largest share of new rows that were late."""

    max: Share

    @property
    def sentence(self) -> str:
        """The rule in words."""
        return f"at most {self.max:.4g} of the new rows are late"


class MissingShare(_Part):
    """Largest share of new rows without a value of a column."""

    column: str
    max: Share

    @property
    def sentence(self) -> str:
        """The rule in words."""
        return f"{self.column} is missing in at most {self.max:.4g} of the new rows"


class NewColumns(_Part):
    """No fields at the head of new files but those declared, those of the first batch, and those of ``ignore``."""

    ignore: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The rule in words."""
        return "the first records of new files have no fields that are not declared and that files before had not"


class CounterResets(_Part):
    """Most falls of a counter in each period of a meter, of the periods that reach into ``over``."""

    column: str
    max: int = Field(ge=0)
    per: Microseconds = DAY_US
    over: Microseconds = DAY_US
    masked: bool = True

    @property
    def reach_us(self) -> int:
        """Time before now for which a level must keep its nodes."""
        return self.over + 2 * self.per

    @property
    def sentence(self) -> str:
        """The rule in words."""
        return f"{self.column} of a meter falls at most {self.max:,} times per {format_duration(self.per)}"


class Drift(_Part):
    """Most that the values of the last whole day may differ from those of the same weekday in the ``weeks`` before.

    ``max``: of the population stability index over the tenths of the days before, or over their most frequent
    values, of which only the form is shown if ``masked``.
    """

    column: str
    max: float = Field(default=0.2, gt=0, allow_inf_nan=False)
    weeks: int = Field(default=4, ge=1, le=26)
    masked: bool = True

    @property
    def sentence(self) -> str:
        """The rule in words."""
        index = f"the population stability index is at most {self.max:g}"
        return f"{self.column} of a day is spread as on that weekday before: {index}"


Limits: TypeAlias = (
    Freshness | Volume | Silent | LateShare | MissingShare | NewColumns | CounterResets | Drift
)


def _freshness(value: Any) -> Any:
    return {"within": value} if isinstance(value, str) else value


def _volume(value: Any) -> Any:
    if isinstance(value, str) and value != "learned":
        raise ValueError('expected "learned", or a table such as { per = "1h", min = 100 }')
    return {"learned": True} if isinstance(value, str) else value


class TimeRule(_Part):
    """One rule of a stream over time; ``on_failure`` as of any rule, but not ``quarantine``: it is of no single row."""

    freshness: Annotated[Freshness, BeforeValidator(_freshness)] | None = None
    volume: Annotated[Volume, BeforeValidator(_volume)] | None = None
    silent: Silent | None = None
    late_share: LateShare | None = None
    missing_share: MissingShare | None = None
    new_columns: NewColumns | None = None
    counter_resets: CounterResets | None = None
    drift: Drift | None = None
    on_failure: Literal["warn", "withhold"] = "warn"
    says: str = ""
    name: str = ""

    @model_validator(mode="before")
    @classmethod
    def _named(cls, table: Any) -> Any:
        kinds = [kind for kind in KINDS if kind in table] if isinstance(table, dict) else []
        if len(kinds) != 1 or table.get("name"):
            return table
        own = table[kinds[0]] if isinstance(table[kinds[0]], dict) else {}
        about = [str(own[key]) for key in ("key", "column") if key in own]
        return table | {"name": "_".join([*kinds, *about])[:100]}

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if sum(getattr(self, kind) is not None for kind in KINDS) != 1:
            raise ValueError(f"expected one of {', '.join(['expect', *KINDS])} in each rule")
        if not NAME.match(self.name):
            raise ValueError(f"expected a name of lower-case letters, digits and _, found {self.name!r}")
        return self

    @property
    def kind(self) -> str:
        """The key that says which rule it is."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def limits(self) -> Limits:
        """The values of that key."""
        return cast(Limits, getattr(self, self.kind))

    @property
    def sentence(self) -> str:
        """The rule in words: its own, or what it expects."""
        return self.says or self.limits.sentence

    @property
    def is_of_now(self) -> bool:
        """True if it may fail although nothing new has come."""
        return self.kind in OF_NOW


# A rule of these may be broken by time alone.
OF_NOW = ("freshness", "volume", "silent")
KINDS = tuple(name for name in TimeRule.model_fields if name not in ("on_failure", "says", "name"))


def coarsest(levels: Sequence[Level], per_us: int, reach_us: int) -> int | None:
    """Return the number of the widest level whose nodes fit a period and are kept for a time, None without one."""
    return max(_fitting(levels, per_us, reach_us), default=None)


def finest(levels: Sequence[Level], per_us: int, reach_us: int) -> int | None:
    """Return the number of the narrowest such level."""
    return min(_fitting(levels, per_us, reach_us), default=None)


def _fitting(levels: Sequence[Level], per_us: int, reach_us: int) -> Sequence[int]:
    return [
        number
        for number, level in enumerate(levels, start=1)
        if per_us % level.width_us == 0 and (level.keep_us is None or level.keep_us >= reach_us)
    ]
