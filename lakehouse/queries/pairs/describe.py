"""What a registered query does, in words: its sides, what joins, how rows are spread, and when a clock is believed."""

from __future__ import annotations

from collections.abc import Iterator

from lakehouse.algorithms.late_join.conditions import Band, Comparison, Distance, Equality
from lakehouse.algorithms.late_join.margin import judged_share, margin_seeing_silences, usual_margin
from lakehouse.declare.durations import format_duration
from lakehouse.queries.pairs.query import PairSide, PairsQuery

_SIGNS = {"==": "=", "!=": "<>"}


def condition_in_words(query: PairsQuery) -> str:
    """Return what must hold for two rows to join, besides the window."""
    return " and ".join(_conjuncts(query))


def _conjuncts(query: PairsQuery) -> Iterator[str]:
    left, right = query.sides
    yield from (f"{left.alias}.{a} = {right.alias}.{b}" for a, b in zip(left.keys, right.keys, strict=True))
    match query.condition:
        case Band(width, column):
            names = " - ".join(_number(side, column) for side in query.sides)
            yield f"|{names}| <= {width:g}"
        case Distance(radius, columns):
            points = (", ".join(_number(side, column) for column in columns) for side in query.sides)
            yield f"distance of ({') and ('.join(points)}) <= {radius:g}"
        case Equality():
            pass
    yield from (_compared(query, each) for each in query.condition.where)


def _compared(query: PairsQuery, each: Comparison) -> str:
    left, right = query.sides
    plus = f" {'+' if each.plus > 0 else '-'} {abs(each.plus):g}" if each.plus else ""
    sign = _SIGNS.get(each.operator, each.operator)
    return f"{_number(left, each.left)} {sign} {_number(right, each.right)}{plus}"


def _number(side: PairSide, column: int) -> str:
    return f"{side.alias}.{side.numbers[column]}"


def buckets_in_words(query: PairsQuery, number: str) -> str:
    """Return how rows are spread over buckets, of which there is a ``number`` in words."""
    spread = {
        "Equality": "by hash of the keys",
        "Band": "by cell as wide as the band; a right row is used in up to 3",
        "Distance": "by cell as wide as the distance; a right row is used in up to 9",
    }
    return f"{number}, {spread[type(query.condition).__name__]}"


def margin_of(query: PairsQuery) -> float:
    """Return the share of the allowed loss that our policies may use."""
    return (margin_seeing_silences if query.policy == "per_source" else usual_margin)(query.recall)


def policy_in_words(query: PairsQuery) -> str:
    """Return by which rule slack is chosen, and for which recall."""
    every, period = format_duration(query.step_us), format_duration(query.period_us)
    if query.policy == "paper":
        return f"paper: every {every} the least memory whose modelled recall makes up {query.recall:g} over {period}"
    share = judged_share(query.recall, margin_of(query))
    least = f"every {every} the least memory with which each past {period} would have reached {share:.6g}"
    if query.spare_rows:
        least += f", or more while a bucket holds at most {query.spare_rows:,} rows"
    if query.sources is None:
        return f"{query.policy}: {least}"
    by = " and ".join(map(_source_in_words, query.sides, query.sources))
    return f"{query.policy}: rows wait for a source that has fallen silent, {by}; beside that {least}"


def _source_in_words(side: PairSide, columns: tuple[str, ...]) -> str:
    return ", ".join(f"{side.alias}.{column}" for column in columns) or f"all of {side.alias}"
