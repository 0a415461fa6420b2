"""What a registered join of three streams or more does, in words: windows, what must be equal, slack, and ways."""

from __future__ import annotations

from collections.abc import Sequence

from lakehouse.algorithms.multiway_join.synopsis import SLOTS_PER_KEY
from lakehouse.declare.durations import format_duration
from lakehouse.queries.multiway.query import MOST_SLOTS, MultiwayQuery


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
    reach = "what all streams have passed"
    if query.slack_us:
        reach = f"{format_duration(query.slack_us)} behind {reach}"
    return f"rows up to {reach} find all partners at once; what later ones miss waits for the repair"


def counts_in_words() -> str:
    """Return how it is known which rows can join."""
    return (
        f"by hash of the key, {SLOTS_PER_KEY} slots a key up to {MOST_SLOTS:,}; where that pays, only rows of slots "
        "that all others have leave their window"
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
