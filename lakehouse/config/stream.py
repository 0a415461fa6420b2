"""One stream as ``[streams.<name>]`` declares it: its times, identity, keys, measures, levels and source."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    model_validator,
)

from lakehouse.config.columns import NUMERIC, ArrowPattern, Column, GroupPattern, Pattern, Thousands
from lakehouse.config.durations import AHEAD_US, format_duration, parse_duration
from lakehouse.config.formats import AS_JSON, NULLS_BY_FORMAT, Format
from lakehouse.config.levels import StreamLevels
from lakehouse.config.lines import (
    HEADS,
    WHITESPACE,
    Encoding,
    Explode,
    HeaderLines,
    Separator,
    Unpivot,
    Widths,
)
from lakehouse.config.rules import Rule
from lakehouse.config.rules.over_time import TimeRule
from lakehouse.config.times import (
    AnyRevisions,
    ArrivalTime,
    Kept,
    Microseconds,
    TimeColumn,
    Wait,
    has_time,
    is_time,
)
from lakehouse.config.where import Where, condition, fields_of

# For how long identities are remembered that hold the event time, unless the declaration says otherwise.
KNOWN_WITH_TIME = "90d"
# More than any two time zones can differ.
_ZONES_APART = parse_duration("2d")


def _is_about_values(rule: Any) -> bool:
    return "expect" in rule if isinstance(rule, dict) else isinstance(rule, Rule)


def instant_us(value: Any) -> int:
    """Return the microseconds of ISO text or of TOML's own dates; a time without an offset is UTC."""
    try:
        moment = datetime.fromisoformat(value.isoformat() if isinstance(value, date) else value)
    except (TypeError, ValueError):
        raise ValueError('expected an ISO date or time, such as "2000-01-01"') from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _start(value: Any) -> Any:
    if value in ("earliest", "latest"):
        return value
    try:
        return instant_us(value)
    except ValueError:
        expected = '"earliest", "latest" or an ISO time, such as "2026-01-05T06:00"'
        raise ValueError(f"expected {expected}") from None


# Tags are no keys: an error does not name what stands in brackets.
AnyRule = Annotated[
    Annotated[Rule, Tag("(values)")] | Annotated[TimeRule, Tag("(time)")],
    Discriminator(lambda rule: "(values)" if _is_about_values(rule) else "(time)"),
]
Instant = Annotated[int, BeforeValidator(instant_us)]
Start = Annotated[str | int, BeforeValidator(_start)]
Texts = tuple[Annotated[str, Field(min_length=1)], ...]
# What a node holds of a counter beside its measure: readings, and bounds of what was lost in falls.
COUNTER_PARTS = ("first", "last", "drops_low", "drops_high")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class ClockBounds(_Part):
    """Bounds of an event time around its record's arrival, beyond which the clock counts as wrong."""

    behind: Wait = parse_duration("365d")
    ahead: Wait = parse_duration("1h")


class Source(_Part):
    """Source of records: its address, and the way a file or a message is cut into them.

    What belongs to which kind, and what each kind needs, is in ``source_checks.py``. ``mqtt`` and ``host`` are read
    from files of ``path``, where `tidemark bridge` and `tidemark collect` land them first. Secrets stay out of
    ``options``: they name variables of the environment, which are looked up when a client is made.

    ``constants``: fields of every record that stand once in a file's head, each with the expression that finds it.

    ``shape``: what its columns mean is what ``presets/flow.toml`` says, whatever the exporter's own words for it are.
    """

    kind: Literal["files", "kafka", "mqtt", "host"] = "files"
    path: str = Field(default="", min_length=1)
    format: Format
    shape: Literal["flow"] | None = None
    separator: Separator = ","
    quote: str = Field(default='"', min_length=1, max_length=1)
    header: Literal["names", "skip", "none"] | HeaderLines = "names"
    constants: dict[str, GroupPattern] = Field(default_factory=dict)
    comment: str | None = Field(default=None, min_length=1)
    skip: ArrowPattern | None = None
    widths: Widths = ()
    where: Where | None = None
    ragged: bool = False
    encoding: Encoding = "utf-8"
    decimal: Literal[".", ","] = "."
    thousands: Thousands | None = None
    null_values: tuple[str, ...] | None = None
    record_path: str | None = Field(default=None, min_length=1)
    explode: Explode = ()
    unpivot: Unpivot | None = None
    settle: Wait = parse_duration("2s")
    batch_bytes: int = Field(default=128 * 1024 * 1024, ge=1)
    batch_files: int = Field(default=1000, ge=1)
    follow_links: bool = False
    max_record_bytes: int = Field(default=16 * 1024 * 1024, ge=1, le=1024**3)
    keep_files: Kept = None
    append: bool = False
    members: Pattern | None = None
    quoted_lines: bool = False
    endpoint: str | None = Field(default=None, min_length=1, repr=False)
    key_order: Literal["time"] | None = None
    full_listing: Microseconds = parse_duration("1h")
    servers: Texts = ()
    topics: Texts = ()
    start: Start = "earliest"
    batch_rows: int = Field(default=1_000_000, ge=1)
    fields: Texts = ()
    schema_file: str | None = Field(default=None, min_length=1)
    schema_files: dict[str, str] = Field(default_factory=dict)
    options: dict[str, str] = Field(default_factory=dict, repr=False)
    broker: str | None = None
    client_id: str | None = Field(default=None, min_length=1)
    username: str | None = None
    password_env: str | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    protocol: Literal["5", "3.1.1"] = "5"
    in_flight: int = Field(default=1000, ge=1, le=32_767)
    session: Microseconds = parse_duration("7d")
    records: Literal["sensors", "connections"] = "sensors"
    every: Microseconds = parse_duration("10s")
    roll_after: Microseconds = parse_duration("1m")
    roll_bytes: int = Field(default=64 * 1024 * 1024, ge=1)

    @property
    def has_items(self) -> bool:
        """True if one record may be several rows."""
        return bool(self.explode) or self.unpivot is not None

    @property
    def head(self) -> HeaderLines:
        """Lines of a file's head; the first one is as wide as data where no line has names."""
        return self.header if isinstance(self.header, HeaderLines) else HEADS[self.header]

    @property
    def has_names(self) -> bool:
        """True if files name their fields."""
        return self.header not in ("skip", "none")

    @property
    def is_quoted(self) -> bool:
        """True if a field may stand in quotes."""
        return self.format in ("csv", "nfdump") and self.separator != WHITESPACE and not self.widths

    @property
    def is_json(self) -> bool:
        """True if each record is read as an object of JSON."""
        return self.format in AS_JSON

    @property
    def where_fields(self) -> list[str]:
        """Paths of the fields that decide whether a record is one of the stream."""
        return sorted(fields_of(condition(self.where))) if self.where else []

    @property
    def nulls(self) -> tuple[str, ...]:
        """Texts that mean "no value" in this source."""
        return NULLS_BY_FORMAT[self.format] if self.null_values is None else self.null_values


class Stream(_Part):
    """One stream. All durations and instants are microseconds; instants are UTC since the epoch.

    Messages of a topic carry a time of their own: it is their arrival time unless another one is declared. Identities
    are remembered for ``duplicates_within``: by default long where they hold the event time, as nothing else can be
    taken for a repeat then, and a day where they do not, as counters and texts come again.
    """

    name: str
    preset: str | None = None
    source: Source
    event_time: TimeColumn
    arrival_time: ArrivalTime | None = None
    clock_bounds: ClockBounds | None = None
    identity: tuple[str, ...] = ()
    duplicates_within: Microseconds = parse_duration("1d")
    revisions: AnyRevisions = None
    keys: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()
    groupings: tuple[tuple[str, ...], ...] = ((),)
    event_time_bounds: tuple[Instant, Instant] = (instant_us("2000-01-01"), instant_us("2100-01-01"))
    # The geometry of levels asks for the bounds, which are read before.
    levels: StreamLevels
    keep_raw: Kept = None
    latest: Wait = parse_duration("1d")
    site: str | None = Field(default=None, min_length=1)
    columns: dict[str, Column] = Field(default_factory=dict)
    rules: tuple[AnyRule, ...] = ()
    _listed_us: int | None = PrivateAttr(None)

    @model_validator(mode="before")
    @classmethod
    def _messages_arrive_when_they_say(cls, table: Any) -> Any:
        source = table.get("source") if isinstance(table, dict) else None
        if isinstance(source, dict) and source.get("kind") == "kafka" and "arrival_time" not in table:
            return table | {"arrival_time": {"column": "$timestamp", "unit": "ms"}}
        return table

    @model_validator(mode="before")
    @classmethod
    def _arrival_after_the_event(cls, table: Any) -> Any:
        if not isinstance(table, dict):
            return table
        arrival, event = table.get("arrival_time"), table.get("event_time")
        if isinstance(arrival, dict) and set(arrival) == {"plus"} and isinstance(event, dict):
            return table | {"arrival_time": event | arrival}
        return table

    @model_validator(mode="before")
    @classmethod
    def _identities_with_a_time_are_known_for_long(cls, table: Any) -> Any:
        if isinstance(table, dict) and "duplicates_within" not in table and has_time(table):
            return table | {"duplicates_within": KNOWN_WITH_TIME}
        return table

    @property
    def repeat_distance_us(self) -> int:
        """The most event time between two rows of one identity of which one repeats the other.

        A whole number or a text of one in the identity says the time to the microsecond. Other types round it, and what
        an ISO text without an offset says depends on the time zone that was declared when it came.
        """
        if not (holding := self.identity_of_time):
            return self.duplicates_within
        is_whole = any(name == "*" or self.all_columns[name].type in ("string", "int") for name in holding)
        is_exact = is_whole and not self.event_time.is_local and self.event_time.fallback is None
        return 0 if is_exact else min(self.duplicates_within, _ZONES_APART)

    @property
    def identity_of_time(self) -> list[str]:
        """The columns of the identity that hold the event time; none if a part of it is in none of them."""
        of_time = [
            [name for name in self.identity if is_time(name, self.all_columns.get(name), time)]
            for time in self.event_time.needed
        ]
        return [name for names in of_time for name in names] if all(of_time) else []

    @property
    def all_columns(self) -> dict[str, Column]:
        """The stored columns in order: declared ones, then keys, measures and identity named but not declared."""
        implied = {name: Column() for name in (*self.keys, *self.identity) if name != "*"}
        implied |= {name: Column(type="double") for name in self.measures}
        return self.columns | {n: c for n, c in implied.items() if n not in self.columns}

    @property
    def time_units(self) -> dict[str, str]:
        """The columns that hold a time as a number, each with the unit of it."""
        times = [time for time in (self.event_time, self.arrival_time) if time and not time.is_spelt]
        return {
            name: time.unit
            for time in times
            for name, column in self.all_columns.items()
            if time.unit != "iso" and column.type in NUMERIC and is_time(name, column, time.column)
        }

    def listed_at(self, listed_us: int | None) -> Stream:
        """Return the stream as it judges the records of a batch; ``listed_us``: when its files were listed."""
        copy = self.model_copy()
        copy._listed_us = listed_us
        return copy

    @property
    def listed_us(self) -> int | None:
        """Time at which the judged records were listed; None where that is of no matter."""
        return self._listed_us

    @property
    def ahead_us(self) -> int:
        """Time by which an event time may be ahead of its record's listing."""
        return self.clock_bounds.ahead if self.clock_bounds else AHEAD_US

    @property
    def step_us(self) -> int:
        """Time ahead of the confirmed newest within which a batch's rows need no second batch."""
        return max(AHEAD_US, self.ahead_us)

    @property
    def rounded(self) -> tuple[str, ...]:
        """The measures whose sums are rounded, which nodes keep in two columns; sums of the others are exact."""
        columns = self.all_columns
        return tuple(name for name in self.measures if columns[name].scale is None)

    @property
    def row_rules(self) -> tuple[Rule, ...]:
        """The rules that reject each row which breaks them."""
        return tuple(rule for rule in self._of_values if rule.on_failure == "quarantine")

    @property
    def _of_values(self) -> tuple[Rule, ...]:
        return tuple(rule for rule in self.rules if isinstance(rule, Rule))

    @property
    def time_rules(self) -> tuple[TimeRule, ...]:
        """The rules over time."""
        return tuple(rule for rule in self.rules if isinstance(rule, TimeRule))

    @property
    def checked_rules(self) -> tuple[Rule, ...]:
        """The rules that checks judge of values: how many rows may break them, or all new rows as a whole."""
        return tuple(rule for rule in self._of_values if rule.on_failure != "quarantine")

    @property
    def share_rules(self) -> tuple[Rule, ...]:
        """The rules about how many rows of a batch may break them."""
        return tuple(rule for rule in self.checked_rules if not rule.expectation.whole)

    @property
    def summed_columns(self) -> tuple[str, ...]:
        """The columns that rules are about as a whole."""
        whole = (name for rule in self.checked_rules if rule.expectation.whole for name in rule.columns)
        return tuple(dict.fromkeys(whole))

    @property
    def identity_is_record(self) -> bool:
        """True if records are the same only when all their bytes are."""
        return self.identity == ("*",)

    @property
    def grouping_keys(self) -> tuple[str, ...]:
        """Every key that some grouping uses, in the order of ``keys``."""
        return tuple(key for key in self.keys if any(key in grouping for grouping in self.groupings))

    @property
    def counter_columns(self) -> tuple[str, ...]:
        """The columns of a rollup table that only counters have."""
        return tuple(f"{name}__{part}" for name in self.counters for part in COUNTER_PARTS)

    def definition(self) -> str:
        """Declaration that the rollups depend on, as one line; a change of it means that they must be rebuilt."""
        levels = ", ".join(
            f"{format_duration(v.width_us)} for {format_duration(v.keep_us)}" for v in self.levels
        )
        measures = ", ".join(f"{name}:{self._kind(name)}" for name in self.measures)
        groupings = "; ".join(",".join(grouping) for grouping in self.groupings)
        return f"levels [{levels}] groupings [{groupings}] measures [{measures}]"

    def checked_definition(self) -> str:
        """Declaration that checks depend on: after a change of it, all rows are judged anew."""
        judged = (*self.checked_rules, *self.time_rules)
        rules = ", ".join(rule.model_dump_json(exclude_defaults=True) for rule in judged)
        return f"{self.definition()} rules [{rules}]" if rules else self.definition()

    def _kind(self, measure: str) -> str:
        column = self.all_columns[measure]
        # Other keys tell other meters apart: the counter is another one then.
        meter = f":counter by {'+'.join(self.grouping_keys)}" if measure in self.counters else ""
        return f"{column.type}:{column.scale}{meter}"
