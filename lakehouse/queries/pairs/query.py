"""A registered query that finds the pairs of two streams: what running it needs, and words for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar, Literal

from lakehouse.algorithms.late_join.conditions import Band, Comparison, Distance, Equality, scales_of
from lakehouse.algorithms.late_join.margin import SEEING_SILENCES, SPARE_ROWS, judged_share, usual_margin
from lakehouse.config.durations import format_duration
from lakehouse.queries.kind import Output, Query, Side, where_text
from lakehouse.queries.language.words import least_in_words

if TYPE_CHECKING:
    from lakehouse.algorithms.late_join.contract import Clock
    from lakehouse.algorithms.late_join.policy_paper import Reading

Policy = Literal["needed_slack", "paper", "per_source"]
# What a held row takes in memory: in the ring of the kernel and among the rows that pairs show; more for each number
# that the condition reads, and for each column that is shown, whose texts may be longer.
_ROW_BYTES, _NUMBER_BYTES, _SHOWN_BYTES = 88, 8, 16
_SIGNS = {"==": "=", "!=": "<>"}


@dataclass(frozen=True)
class PaperSettings:
    """Settings of the paper's policy: basic window b, granularity g, and the reading of "largest delay"."""

    basic_us: int = 10_000
    granularity_us: int = 10_000
    reading: Reading = "history"

    def __str__(self) -> str:
        """Return the settings as they are written behind POLICY PAPER."""
        spans = f"BASIC {format_duration(self.basic_us)} GRANULARITY {format_duration(self.granularity_us)}"
        return f"{spans} LARGEST {self.reading.upper()}"


@dataclass(frozen=True)
class PairSide(Side):
    """One side of a join.

    ``keys``: columns of the equality, in the same order on both sides; none for band and distance. ``numbers``:
    columns read as numbers; the condition's indexes count in it.
    """

    keys: tuple[str, ...]
    numbers: tuple[str, ...]


@dataclass(frozen=True)
class PairsQuery(Query):
    """A registered join. Rows join when their event times are at most ``window_us`` apart and the condition holds.

    ``recall`` of the pairs of any ``period_us`` are found at once; slack is chosen every ``step_us``. ``sources``: by
    side the columns that tell who sent a row, where the policy watches sources; no columns make a side one source.
    ``spare_rows``: what a bucket may hold whether past pairs needed it or not; the paper's policy spares none and has
    settings of its own, ``paper``.
    """

    kind: ClassVar[str] = "pairs"
    sides: tuple[PairSide, PairSide]
    window_us: int
    condition: Equality | Band | Distance
    outputs: tuple[Output, ...]
    recall: float
    period_us: int
    step_us: int
    clock: Clock
    policy: Policy
    sources: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    spare_rows: int = SPARE_ROWS
    paper: PaperSettings = PaperSettings()

    def definition(self) -> str:
        """Definition that results and state depend on, as one line; texts that mean the same give the same line."""
        left, right = self.sides
        streams = " JOIN ".join(f"{side.stream} WHERE {where_text(side)}" for side in self.sides)
        keys = ", ".join(f"{one} = {two}" for one, two in zip(left.keys, right.keys, strict=True))
        numbers = f"{', '.join(left.numbers)} | {', '.join(right.numbers)}"
        outputs = ", ".join(f"{each.name} = {each.side}.{each.column}" for each in self.outputs)
        clock = self.clock
        limits = ", ".join(
            "never" if limit is None else format_duration(limit)
            for limit in (clock.idle_us, clock.ahead_of_arrival_us, clock.ahead_of_streams_us)
        )
        whole = (
            f"{streams} WITHIN {format_duration(self.window_us)} KEYS [{keys}] BY VALUE"
            f" NUMBERS [{numbers}] ON {self.condition} OUTPUTS [{outputs}] PERIOD {format_duration(self.period_us)} "
            f"EVERY {format_duration(self.step_us)} CLOCK [{limits}]"
        )
        return whole.replace("\n", "\\n")

    def how(self) -> str:
        """Policy that chooses slack."""
        by = "" if self.sources is None else f" BY [{' | '.join(map(', '.join, self.sources))}]"
        spare = "" if self.spare_rows == SPARE_ROWS else f" SPARE {self.spare_rows}"
        paper = "" if self.paper == PaperSettings() else f" {self.paper}"
        return f"POLICY {self.policy}{by}{spare}{paper}"

    @property
    def is_once(self) -> bool:
        """True if each row is taken in once; bands and distances use a row in several buckets."""
        return isinstance(self.condition, Equality)

    @property
    def is_divided(self) -> bool:
        """True if rows are divided into buckets.

        They are not where a watched source could send rows to several: in each it would look silent while it sends to
        another.
        """
        if self.sources is None:
            return True
        stay = [set(side.keys) <= set(own) for side, own in zip(self.sides, self.sources, strict=True)]
        return isinstance(self.condition, Equality) and all(stay)

    def columns_of(self, side: int) -> set[str]:
        """Return the columns of the condition, of the sources and of the outputs."""
        own, sources = self.sides[side], self.sources or ((), ())
        return {
            *own.keys,
            *own.numbers,
            *sources[side],
            *(each.column for each in self.outputs if each.side == side),
        }


def held_row_bytes(query: PairsQuery) -> int:
    """Return about how many bytes of memory a row that is held takes, the mean of both sides."""
    numbers = sum(1 if scale is None else 2 for scale in scales_of(query.condition).values())
    return _ROW_BYTES + _NUMBER_BYTES * numbers + _SHOWN_BYTES * len(query.outputs) // 2


def condition_in_words(query: PairsQuery) -> str:
    """Return what must hold for two rows to join, besides the window."""
    return " and ".join(_conjuncts(query))


def _conjuncts(query: PairsQuery) -> Iterator[str]:
    left, right = query.sides
    yield from (f"{left.alias}.{a} = {right.alias}.{b}" for a, b in zip(left.keys, right.keys, strict=True))
    match query.condition:
        case Band(width, column, _, scale):
            names = " - ".join(_number(side, column) for side in query.sides)
            yield f"|{names}| <= {_written(width, scale)}"
        case Distance(radius, columns, _, scale):
            points = (", ".join(_number(side, column) for column in columns) for side in query.sides)
            yield f"distance of ({') and ('.join(points)}) <= {_written(radius, scale)}"
        case Equality():
            pass
    yield from (_compared(query, each) for each in query.condition.where)


def _compared(query: PairsQuery, each: Comparison) -> str:
    left, right = query.sides
    plus = f" {'+' if each.plus > 0 else '-'} {_written(abs(each.plus), each.scale)}" if each.plus else ""
    sign = _SIGNS.get(each.operator, each.operator)
    return f"{_number(left, each.left)} {sign} {_number(right, each.right)}{plus}"


def _written(number: float, scale: int | None) -> str:
    """Return a number as people write it; of an exact one, which is in units of its scale, every digit."""
    if scale is None:
        return f"{number:g}"
    exact = f"{Decimal(f'{int(number)}E-{scale}'):f}"
    return exact.rstrip("0").rstrip(".") if "." in exact else exact


def _number(side: PairSide, column: int) -> str:
    return f"{side.alias}.{side.numbers[column]}"


def buckets_in_words(query: PairsQuery, number: str) -> str:
    """Return how rows are spread over buckets, of which there is a ``number`` in words."""
    if not query.is_divided:
        return f"{number}, as sources may send rows of any key; POLICY NEEDED_SLACK divides them"
    spread = {
        "Equality": "by hash of the keys",
        "Band": "by cell as wide as the band; a right row is used in up to 3",
        "Distance": "by cell as wide as the distance; a right row is used in up to 9",
    }
    return f"{number}, {spread[type(query.condition).__name__]}"


def margin_of(query: PairsQuery) -> float:
    """Return the share of the allowed loss that our policies may use where periods have many pairs."""
    return SEEING_SILENCES if query.policy == "per_source" else usual_margin(query.recall)


def policy_in_words(query: PairsQuery) -> str:
    """Return by which rule slack is chosen, and for which recall."""
    every, period = format_duration(query.step_us), format_duration(query.period_us)
    if query.policy == "paper":
        least = (
            f"every {every} the least memory whose modelled recall makes up {query.recall:g} over {period}"
        )
        return f"paper: {least}; {query.paper}"
    share = judged_share(query.recall, margin_of(query))
    least = f"every {every} {least_in_words(query.period_us, share, 'a bucket holds', query.spare_rows)}"
    if query.sources is None:
        return f"{query.policy}: {least}"
    by = " and ".join(map(_source_in_words, query.sides, query.sources))
    return f"{query.policy}: rows wait for a source that has fallen silent, {by}; beside that {least}"


def _source_in_words(side: PairSide, columns: tuple[str, ...]) -> str:
    return ", ".join(f"{side.alias}.{column}" for column in columns) or f"all of {side.alias}"
