"""A registered query that finds the results of three to eight streams: what running it needs, and words for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from lakehouse.algorithms.late_join.margin import SPARE_ROWS, judged_share, usual_margin
from lakehouse.config.durations import format_duration
from lakehouse.queries.kind import Output, Query, Side, where_text
from lakehouse.queries.language.words import least_in_words

# By how many slots rows are sorted in the files of their windows.
SLOTS = 2**20
# In how many slots rows are counted at most, by the hash of their keys: as many as two million keys ask for.
MOST_SLOTS = 2**24


@dataclass(frozen=True)
class Windowed(Side):
    """One side of the join.

    A row is in the window while the newest row of a result is at most ``window_us`` after it. ``keys``: the columns
    that must be equal, in the same order on all sides.
    """

    window_us: int
    keys: tuple[str, ...]


@dataclass(frozen=True)
class MultiwayQuery(Query):
    """A registered join of three to eight streams. A result is one row of each side: keys equal, each in its window.

    ``slack_us``: how far behind the time that all streams have passed late rows still find every partner at once;
    older ones wait for the repair. ``idle_us``: a stream whose newest row is further behind another's no longer holds
    that time back. ``ahead_us``: rows further ahead of their own arrival are refused. With ``recall``, slack is chosen
    by batch so that this share of the results of any ``period_us``, from any ``step_us``, is found at once, or longer
    while windows have at most ``spare_rows``; ``slack_us`` is 0 then. ``routing``: how the order is found in which rows
    of a pruned batch visit windows, on which neither results nor state depend.
    """

    kind: ClassVar[str] = "multiway"
    sides: tuple[Windowed, ...]
    outputs: tuple[Output, ...]
    slack_us: int
    idle_us: int | None
    ahead_us: int | None
    recall: float | None = None
    period_us: int | None = None
    step_us: int | None = None
    spare_rows: int = SPARE_ROWS
    routing: Literal["smje", "smjh"] = "smje"

    @property
    def window_us(self) -> int:
        """The widest window."""
        return max(side.window_us for side in self.sides)

    def definition(self) -> str:
        """Definition that results and state depend on, as one line; texts that mean the same give the same line."""
        sides = " JOIN ".join(
            f"{side.stream} [{format_duration(side.window_us)}] WHERE {where_text(side)}"
            f" KEYS [{', '.join(side.keys)}] BY VALUE"
            for side in self.sides
        )
        outputs = ", ".join(f"{each.name} = {each.side}.{each.column}" for each in self.outputs)
        limits = (self.slack_us, self.idle_us, self.ahead_us)
        slack, idle, ahead = ("never" if us is None else format_duration(us) for us in limits)
        if self.recall is not None:
            period, step = (format_duration(us or 0) for us in (self.period_us, self.step_us))
            slack = f"BY PERIOD {period} EVERY {step}"
        whole = f"{sides} OUTPUTS [{outputs}] SLACK {slack} IDLE {idle} AHEAD {ahead}"
        return whole.replace("\n", "\\n")

    def how(self) -> str:
        """By how many slots rows are sorted in their windows, and rows to spare."""
        spare = "" if self.spare_rows == SPARE_ROWS else f" SPARE {self.spare_rows}"
        return f"IN {SLOTS} SLOTS{spare}"

    def columns_of(self, side: int) -> set[str]:
        """Return the columns of the keys and of the outputs."""
        return {*self.sides[side].keys, *(each.column for each in self.outputs if each.side == side)}


def equalities_in_words(query: MultiwayQuery) -> str:
    """Return which columns must be equal, attribute by attribute."""
    attributes = zip(*(side.keys for side in query.sides), strict=True)
    aliases = [side.alias for side in query.sides]
    return " and ".join(
        " = ".join(f"{alias}.{column}" for alias, column in zip(aliases, columns, strict=True))
        for columns in attributes
    )


def slack_in_words(query: MultiwayQuery) -> str:
    """Return what becomes of late rows."""
    if query.recall is not None:
        share = judged_share(query.recall, usual_margin(query.recall))
        held = least_in_words(query.period_us, share, "windows have", query.spare_rows)
        return f"needed_slack: at every batch {held}; what later rows miss waits for the repair"
    reach = "what all streams have passed"
    if query.slack_us:
        reach = f"{format_duration(query.slack_us)} behind {reach}"
    return f"rows up to {reach} find all partners at once; what later ones miss waits for the repair"


def counts_in_words(query: MultiwayQuery) -> str:
    """Return how it is known which rows can join, and in which order they visit windows."""
    from lakehouse.algorithms.multiway_join.synopsis import SLOTS_PER_KEY

    order = "the cheapest order" if query.routing == "smje" else "a cheap order"
    return (
        f"by hash of the key, {SLOTS_PER_KEY} slots a key up to {MOST_SLOTS:,}; where that pays, only rows of slots "
        f"that all others have leave their window, in {order} ({query.routing.upper()})"
    )


def ways_in_words(query: MultiwayQuery, transfer: Sequence[Sequence[float]]) -> str:
    """Return what moving a row costs, one sentence where all ways cost the same."""
    aliases = [side.alias for side in query.sides]
    ways = {
        (aliases[start], aliases[end]): cost
        for start, costs in enumerate(transfer)
        for end, cost in enumerate(costs)
        if start != end
    }
    if len(set(ways.values())) == 1:
        return f"every row moved costs {next(iter(ways.values())):g}"
    return ", ".join(f"{start} to {end} {cost:g}" for (start, end), cost in ways.items())
