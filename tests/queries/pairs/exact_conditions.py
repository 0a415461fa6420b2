"""Random conditions of pairs over whole numbers, decimals and doubles, from the text of a query to its pairs."""

import random
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.late_join.contract import Log, Pairs
from lakehouse.algorithms.late_join.qjoin import QJoin
from lakehouse.algorithms.late_join.repair import missing_pairs
from lakehouse.queries.pairs.held_join import policy_of
from lakehouse.queries.pairs.parse import POLICIES
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.pairs.rows import as_batch, side_rows
from lakehouse.queries.runtime.source import RowSource
from tests.oracles.queries.conditions import condition_on
from tests.oracles.queries.exact_aggregates import plain
from tests.queries.declared_streams import SECOND, join_of
from tests.queries.exact_rows import FEW, SCALES, STREAMS, Row, Source, raw, read, value_of

KEYS = ([("id", "id")], [("id", "id")], [("g", "t")], [("g", "t"), ("k", "k")], [("p", "p"), ("f", "h")])
SIGNS = ("<", "<=", "=", "<>", ">=", ">")
Holds = Callable[[Row, Row], bool]


def found(
    query: PairsQuery, rows: tuple[Sequence[Row], Sequence[Row]], drawn: random.Random | None = None
) -> list[tuple[int, int]]:
    """Return the pairs that rows find in buckets, and those that a repair of what was logged does.

    ``drawn``: rows come in any order and in batches, not all at once.
    """
    wheres, buckets = tuple(side.where for side in query.sides), 2 if query.is_divided else 1
    source = cast(RowSource, Source((raw(rows[0]), raw(rows[1])), wheres))
    both, pairs = read(side_rows(source, query, STREAMS, buckets)), list[tuple[int, int]]()
    order, ends = [*range(both.num_rows)], [both.num_rows]
    if drawn:
        drawn.shuffle(order)
        ends = sorted({both.num_rows, *(drawn.randint(0, both.num_rows) for _ in range(drawn.randint(0, 3)))})
    both = both.take(pa.array(order, pa.int64()))
    came = np.searchsorted(ends, np.arange(both.num_rows), side="right")
    for bucket in range(buckets):
        is_own = both["bucket"].to_numpy() == bucket
        own, batches = both.filter(pa.array(is_own)).combine_chunks(), came[is_own]
        join, logs = QJoin(query.condition, query.window_us, policy_of(query)), list[Log]()
        lines, last = own["source_line"].to_pylist(), 0
        for size in np.bincount(batches, minlength=len(ends)).tolist():
            outcome = join.process(as_batch(own.slice(last, size), last))
            last += size
            logs.append(outcome.log)
            pairs += _lines(outcome.pairs, lines)
        missed, horizon_us = (
            np.concatenate([getattr(each, name) for each in logs]) for name in ("row", "horizon_us")
        )
        repaired = missing_pairs(query.condition, query.window_us, as_batch(own, 0), missed, horizon_us)
        pairs += _lines(repaired, lines)
    return sorted(pairs)


def _lines(pairs: Pairs, lines: Sequence[int]) -> list[tuple[int, int]]:
    return [(lines[left], lines[right]) for left, right in zip(pairs.left, pairs.right, strict=True)]


def asked(condition: str, clauses: str = "") -> PairsQuery:
    text = f"SELECT a.id FROM a [RANGE 1 SECOND] JOIN b ON {condition} RECALL 0.9 OVER 1 MINUTE {clauses}"
    return join_of("q", text, STREAMS)


def numbers_of(left: Any, right: Any, is_exact: bool) -> tuple[Any, Any]:
    return (Fraction(left), Fraction(right)) if is_exact else (float(left), float(right))


def both_exact(left: str, right: str) -> bool:
    return SCALES[left] is not None and SCALES[right] is not None


def comparison(left: str, sign: str, right: str, plus: str) -> Holds:
    """Return what ``a.left sign b.right + plus`` means."""
    is_exact = both_exact(left, right)
    bound = Fraction(plus) if is_exact else float(Fraction(plus))

    def holds(a: Row, b: Row) -> bool:
        if a[left] is None or b[right] is None:
            return False
        one, two = numbers_of(a[left], b[right], is_exact)
        two = two + bound
        if one != one or two != two:
            return False
        found: dict[str, bool] = {
            "<": one < two,
            "<=": one <= two,
            "=": one == two,
            "<>": one != two,
            ">=": one >= two,
            ">": one > two,
        }
        return found[sign]

    return holds


def near(reach: str, *columns: tuple[str, str], is_squared: bool) -> Holds:
    """Return what a band or a distance over pairs of columns means."""
    is_exact = all(both_exact(*each) for each in columns)
    most = Fraction(reach) if is_exact else float(reach)

    def holds(a: Row, b: Row) -> bool:
        gaps = []
        for left, right in columns:
            if a[left] is None or b[right] is None:
                return False
            one, two = numbers_of(a[left], b[right], is_exact)
            if not is_exact and not (np.isfinite(one) and np.isfinite(two)):
                return False
            gaps.append(one - two)
        if is_squared:
            return bool(sum(gap * gap for gap in gaps) <= most * most)
        return bool(abs(gaps[0]) <= most)

    return holds


def same(keys: Sequence[tuple[str, str]]) -> Holds:
    """Return what the equality of some columns means."""

    def holds(a: Row, b: Row) -> bool:
        both = [(a[one], b[two]) for one, two in keys]
        return all(None not in each and plain(each[0]) == plain(each[1]) for each in both)

    return holds


def random_case(drawn: random.Random) -> tuple[str, Holds, tuple[list[Row], list[Row]]]:
    """Return a condition, what it means, and rows of both sides."""
    left, right, other, last = drawn.choices(list(SCALES), k=4)
    plus = drawn.choice(
        ["0", "0.1", "-0.3", "1", "0.05", "9007199254740993", "-0.0000000000000000001", "1.25"]
    )
    reach = drawn.choice(["0", "0.3", "0.1", "1", "0.25", "2", "4611686018427387904.5", "0.0000001"])
    sign = drawn.choice(SIGNS)
    holds, text = comparison(left, sign, right, plus), f"a.{left} {sign} b.{right} + {plus}"
    shape = drawn.randrange(4)
    if sign == "=" or shape == 0:
        more, first = near(reach, (other, last), is_squared=False), f"ABS(a.{other} - b.{last}) <= {reach}"
        text, both = f"{first} AND {text}", [more, holds]
    elif shape == 1:
        more = near(reach, (other, last), (left, right), is_squared=True)
        first = f"DISTANCE(a.{other}, a.{left}, b.{last}, b.{right}) <= {reach}"
        text, both = f"{first} AND {text}", [more, holds]
    else:
        keys = drawn.choice(KEYS)
        equal = " AND ".join(f"a.{one} = b.{two}" for one, two in keys)
        text, both = f"{equal} AND {text}", [holds, same(keys)]
    base = drawn.choice([0, 3, 2**53 - 3, -(2**53), 2**62])
    spread = drawn.choice([0, 0, 3 * SECOND])
    one, two = (
        [
            {name: drawn.choice([*values[:2], None]) for name, values in FEW.items()}
            | {name: value_of(drawn, name, base, 0.15) for name in SCALES}
            | {"id": at, "line": at, "event_us": at + drawn.randint(0, spread)}
            for at in range(8)
        ]
        for _ in range(2)
    )
    conditions, passes = [text], [lambda _: True, lambda _: True]
    for side in range(2):
        if drawn.random() < 0.2:
            node = condition_on(drawn, {"text": ("g", "t"), "number": ("k", *SCALES), "boolean": ("p",)})
            conditions.append(re.sub(r"`(\w+)`", rf"{'ab'[side]}.`\1`", node.sql))
            passes[side] = node.of

    def whole(a: Row, b: Row) -> bool:
        is_near = abs(a["event_us"] - b["event_us"]) <= SECOND
        return is_near and passes[0](a) is passes[1](b) is True and all(each(a, b) for each in both)

    return " AND ".join(conditions), whole, (one, two)


def wrong(seed: int) -> tuple[str, str | None]:
    """Return the policy of a random condition, and if its pairs are not those of exact fractions, its text."""
    drawn = random.Random(seed)
    text, holds, rows = random_case(drawn)
    policy = drawn.choice([*POLICIES])
    expected = sorted((a["id"], b["id"]) for a in rows[0] for b in rows[1] if holds(a, b))
    query = asked(
        text, f"POLICY {policy}{drawn.choice(['', '', ' SPARE 2 ROWS']) if policy != 'PAPER' else ''}"
    )
    try:
        pairs = found(query, rows, drawn)
    except Exception as error:
        return query.policy, f"pairs {seed}: {text}, {policy}: {error!r}"
    return query.policy, None if pairs == expected else f"pairs {seed}: {text}, {policy}"
