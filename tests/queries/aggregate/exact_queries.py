"""Random aggregates of two to six streams, from the text of a query to its answers: what is wrong with them."""

import operator
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from lakehouse.algorithms.join_aggregate.choice import methods_for
from lakehouse.queries.aggregate.query import AggregateQuery, shape_of
from tests.oracles.queries.exact_aggregates import (
    Having,
    Joined,
    Measure,
    Place,
    measured,
    near,
    same,
)
from tests.queries.aggregate.kept import Kept
from tests.queries.declared_streams import SECOND, aggregate_of
from tests.queries.drawn import BASES, Drawer
from tests.queries.exact_rows import FEW, SCALES, STREAMS, Row

# By kind the attributes of each side.
SHAPES: dict[str, tuple[tuple[tuple[int, ...], ...], ...]] = {
    "one key": (
        ((0,),) * 2,
        ((0,),) * 2,
        ((0, 1),) * 2,
        ((0,),) * 3,
        ((0, 1),) * 3,
        ((0,),) * 4,
        ((0,),) * 6,
    ),
    "chains": (
        *(((0,), (0, 1), (1,)), ((0, 2), (0, 1, 2), (1,)), ((0,), (0, 1), (1, 2), (2,))),
        *(((0,), (0, 1), (1,), (0,)), ((0, 1), (0,), (1,)), ((0,), (0, 1), (1, 2), (2, 3), (3,), (2,))),
    ),
    "circles": (
        *(((0, 1), (1, 2), (0, 2)), ((0, 1), (1, 2), (0, 2)), ((0, 1), (1, 2), (2, 3), (0, 3))),
        *(((0, 1), (1, 2), (0, 2), (2, 3), (3,)), ((0, 1, 2), (0, 3, 4), (1, 3, 5), (2, 4, 5))),
    ),
}
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    **{"<": operator.lt, "<=": operator.le, "=": operator.eq},
    **{"<>": operator.ne, ">=": operator.ge, ">": operator.gt},
}


@dataclass(frozen=True)
class Case:
    """A query by its text, what it means, and the rows of each stream in the order in which they come.

    ``retracted``: lines of rows that are taken away once they have been taken in.
    """

    text: str
    streams: list[str]
    joined: Joined
    filters: list[Callable[[Row], Any]]
    rows: list[tuple[str, Row]]
    retracted: frozenset[int]
    base_us: int
    every_us: int

    def of_side(self, side: int, rows: Sequence[tuple[str, Row]]) -> list[Row]:
        """Return the rows of a side's stream among some."""
        return [row for stream, row in rows if stream == self.streams[side]]

    def expected(self) -> dict[tuple[int, Any], tuple[list[Any], bool]]:
        """Return the answers by definition."""
        sides = [
            [
                row
                for row in self.of_side(side, self.rows)
                if passes(row) is True and row["line"] not in self.retracted
            ]
            for side, passes in enumerate(self.filters)
        ]
        first = -(-self.base_us // self.every_us) * self.every_us
        return self.joined.answers(sides, range(first, self.until_us + 1, self.every_us))

    @property
    def until_us(self) -> int:
        """A time after which no row is in its window."""
        return self.base_us + 20 * SECOND


class _Drawer(Drawer):
    """Draws a case, part by part."""

    def __init__(self, drawn: random.Random, kind: str) -> None:
        super().__init__(drawn, drawn.choice(SHAPES[kind]))
        self.groups = self._groups()
        self.measures = self._measures()

    def case(self) -> Case:
        drawn = self.drawn
        base, every = drawn.choice(BASES), drawn.choice([1, 2, 2, 3]) * SECOND
        rows = self.rows(base)
        having = self._having(2) if drawn.random() < 0.7 else None
        windows = [drawn.randint(self.many // 2, 6) for _ in range(self.many)]
        conditions, filters = self.conditions(rows)
        groups = [f"s{side}.{column}" for side, column in self.groups]
        outputs = [f"{each} AS g{number}" for number, each in enumerate(groups)]
        outputs += [f"{spelled(each)} AS m{number}" for number, each in enumerate(self.measures)]
        slack = drawn.choice([0, 2, 100])
        recall = f" RECALL {drawn.choice([0.5, 0.9])} OVER {5 * every // SECOND} SECONDS"
        text = (
            f"SELECT {', '.join(outputs)} FROM {self.listed(windows)} WHERE {' AND '.join(conditions)}"
            f"{' GROUP BY ' if groups else ''}{', '.join(groups)}{f' HAVING {having[0]}' if having else ''}"
            f" EVERY {every // SECOND} SECONDS{f' SLACK {slack} SECONDS' if slack else ''}"
            f"{recall if drawn.random() < 0.25 else ''}"
        )
        windows_us = [window * SECOND for window in windows]
        joined = Joined(windows_us, self.equal, self.groups, self.measures, having[1] if having else None)
        share = drawn.choice([0.0, 0.0, 0.0, 0.2, 0.6])
        retracted = frozenset(row["line"] for _, row in rows if drawn.random() < share)
        return Case(text, self.streams, joined, filters, rows, retracted, base, every)

    def _groups(self) -> list[Place]:
        found: dict[Place, None] = {}
        keys = {place for both in self.equal for place in both}
        for _ in range(self.drawn.choice([0, 1, 1, 1, 2, 3])):
            side, column = self.drawn.randrange(self.many), self.drawn.choice(sorted(FEW))
            # Equal columns are one group.
            if (side, column) in keys and keys & {*found}:
                continue
            found[side, column] = None
            self.few.setdefault((self.streams[side], column), [*self.drawn.sample(FEW[column], 2), None])
        return list(found)

    def _measures(self) -> list[Measure]:
        found: set[Measure] = {("count", 0, None)}
        functions = ["sum", "avg", "count", *(["min", "max"] if self.drawn.random() < 0.7 else [])]
        for _ in range(self.drawn.randint(1, 5)):
            function, side = self.drawn.choice(functions), self.drawn.randrange(self.many)
            columns = [*SCALES, "g", "p"] if function == "count" else [*SCALES]
            found.add((function, side, self.drawn.choice(columns)))
        return sorted(found, key=repr)

    def _having(self, depth: int) -> tuple[str, Having]:
        if depth and self.drawn.random() < 0.4:
            one, two = self._having(depth - 1), self._having(depth - 1)
            if self.drawn.random() < 0.3:
                return f"NOT ({one[0]})", lambda results: _not(one[1](results))
            if self.drawn.random() < 0.5:
                return f"({one[0]} AND {two[0]})", lambda results: _and(one[1](results), two[1](results))
            negated = lambda results: _not(_and(_not(one[1](results)), _not(two[1](results))))  # noqa: E731
            return f"({one[0]} OR {two[0]})", negated
        return self._comparison()

    def _comparison(self) -> tuple[str, Having]:
        """Return a comparison of measures that are exact, extremes of doubles among them, with a bound or another."""
        drawn = self.drawn
        measure = drawn.choice([each for each in self.measures if not is_rounded(each)])
        others = [
            each for each in self.measures if not is_rounded(each) and "avg" not in (each[0], measure[0])
        ]
        if drawn.random() < 0.15:
            is_null = drawn.random() < 0.5
            text = f"{spelled(measure)} IS {'' if is_null else 'NOT '}NULL"
            return text, lambda results: (measured(measure, results) is None) == is_null
        sign = drawn.choice(sorted(SIGNS))
        if others and drawn.random() < 0.25:
            other = drawn.choice(others)
            text = f"{spelled(measure)} {sign} {spelled(other)}"
            return text, lambda results: _compared(sign, measured(measure, results), measured(other, results))
        numerator, digits = drawn.randint(-40, 40), drawn.randint(0, 3)
        if drawn.random() < 0.3:
            numerator, digits = drawn.choice([2**53 + 1, 10**18 - 1, 3 * 10**19 + 1]), drawn.choice([0, 1, 6])
        bound = Fraction(numerator, 10**digits)
        text = f"{spelled(measure)} {sign} {Decimal(f'{numerator}E-{digits}'):f}"
        return text, lambda results: _compared(sign, measured(measure, results), bound)


def _not(one: bool | None) -> bool | None:
    return None if one is None else not one


def _and(one: bool | None, two: bool | None) -> bool | None:
    if one is False or two is False:
        return False
    return None if one is None or two is None else True


def _compared(sign: str, one: Any, two: Any) -> bool | None:
    if one is None or two is None:
        return None
    if isinstance(one, float) or isinstance(two, float):
        return SIGNS[sign](float(one), float(two))
    return SIGNS[sign](Fraction(one), Fraction(two))


def spelled(measure: Measure) -> str:
    function, side, column = measure
    return f"{function}(*)" if column is None else f"{function}(s{side}.{column})"


def is_rounded(measure: Measure) -> bool:
    return measure[0] in ("sum", "avg") and measure[2] is not None and SCALES[measure[2]] is None


def case_of(seed: int, kind: str) -> Case:
    """Return a random case of a kind."""
    return _Drawer(random.Random(f"{kind} {seed}"), kind).case()


def query_of(case: Case, drawn: random.Random) -> AggregateQuery:
    """Return the query of a case, run by one of the methods that can."""
    query = aggregate_of("q", case.text, STREAMS)
    able = [name for name, why_not in methods_for(shape_of(query)) if why_not is None]
    return replace(query, method=drawn.choice(able))  # type: ignore[arg-type]


def asked(case: Case, query: AggregateQuery, drawn: random.Random) -> Kept:
    """Return a query that has taken all rows in, batch by batch, and been repaired."""
    sides = [int(side.alias[1:]) for side in query.sides]
    known = [case.of_side(side, case.rows) for side in sides] if drawn.random() < 0.8 else None
    kept = Kept(query, drawn.choice([1, 2]), drawn.random() < 0.5, known)
    rest, gone, until = case.rows, list[tuple[str, Row]](), case.base_us
    while rest:
        size = drawn.choice([1, 1, 5, len(rest)])
        part, rest = rest[:size], rest[size:]
        gone += [each for each in part if each[1]["line"] in case.retracted]
        until = drawn.randint(until, case.base_us + 14 * SECOND) if rest else case.until_us
        kept.batch([case.of_side(side, part) for side in sides], until)
        if gone and (not rest or drawn.random() < 0.3):
            kept.repair()
            # A retraction is of one stream.
            for stream in sorted({each for each, _ in gone}):
                own = [row for row in gone if row[0] == stream]
                kept.withdraw([case.of_side(side, own) for side in sides])
            gone = []
    kept.repair()
    return kept


def wrong(seed: int, kind: str) -> tuple[str, str | None]:
    """Return a random query's method, and what is wrong with its answers, None for nothing."""
    case, drawn = case_of(seed, kind), random.Random(seed)
    query = query_of(case, drawn)
    named = f"{kind} {seed}: {case.text} METHOD {query.method}"
    try:
        kept = asked(case, query, drawn)
    except Exception as error:
        return query.method, f"{named}: {error!r}"
    return query.method, next((f"{named}: {each}" for each in different(case, kept)), None)


def different(case: Case, kept: Kept) -> Iterator[str]:
    """Yield the answers that differ from those by definition."""
    expected, count = case.expected(), case.joined.measures.index(("count", 0, None))
    found = {
        (tick, group if isinstance(group, tuple) else (group,)): answer
        for (tick, group), answer in kept.shown().items()
        # What rests on retracted rows alone is shown to count none.
        if not (case.retracted and answer[0][count] == 0)
    }
    if found.keys() != expected.keys():
        yield f"ticks and groups differ: {sorted(map(str, found.keys() ^ expected.keys()))[:4]}"
        return
    for at, (values, holds) in expected.items():
        shown, is_shown = found[at]
        for measure, one, two in zip(case.joined.measures, shown, values, strict=True):
            is_near = is_rounded(measure) and one is not None and two is not None
            if not (near if is_near else same)(one, two):
                yield f"{at}, {measure}: {one}, not {two}"
        if holds != is_shown:
            yield f"{at} holds: {is_shown}, not {holds}"
