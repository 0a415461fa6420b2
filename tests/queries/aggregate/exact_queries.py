"""Random aggregates of two to six streams, from the text of a query to its answers: what is wrong with them."""

import itertools
import operator
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from lakehouse.algorithms.join_aggregate.choice import methods_for
from lakehouse.queries.aggregate.query import AggregateQuery, shape_of
from tests.oracles.queries.conditions import condition_on
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
from tests.queries.exact_rows import FEW, SCALES, STREAMS, Row, value_of

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
OF_TYPE = (
    ("g", "t"),
    ("g", "t"),
    ("k", "id", "n", "m"),
    ("k", "id", "n", "m"),
    ("d",),
    ("w",),
    ("f", "h"),
    ("p",),
)
OF_KIND = {"text": ("g", "t"), "number": ("k", *SCALES), "boolean": ("p",)}
ROWS_OF_A_SIDE = {2: 12, 3: 8, 4: 6, 5: 4, 6: 3}
# The first and the last day that timestamps of SQL have are among them.
BASES = (
    0,
    0,
    0,
    -7 * SECOND,
    2**53 // SECOND * SECOND + 1,
    -62_135_596_800 * SECOND,
    253_402_300_770 * SECOND,
)
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


class _Drawer:
    """Draws a case, part by part."""

    def __init__(self, drawn: random.Random, kind: str) -> None:
        self.drawn = drawn
        self.attributes = drawn.choice(SHAPES[kind])
        self.many = len(self.attributes)
        self.streams = [drawn.choice("abc") for _ in range(self.many)]
        # Values that a column of a stream has, of few.
        self.few: dict[tuple[str, str], list[Any]] = {}
        self.equal = self._equal()
        self.groups = self._groups()
        self.measures = self._measures()

    def case(self) -> Case:
        drawn = self.drawn
        base, every = drawn.choice(BASES), drawn.choice([1, 2, 2, 3]) * SECOND
        rows = self._rows(base)
        having = self._having(2) if drawn.random() < 0.7 else None
        windows = [drawn.randint(self.many // 2, 6) for _ in range(self.many)]
        conditions = [f"s{one}.{left} = s{two}.{right}" for (one, left), (two, right) in self.equal]
        filters: list[Callable[[Row], Any]] = []
        for side in range(self.many):
            is_filtered = drawn.random() < 0.6 / self.many
            text, passes = self._filter(side, rows) if is_filtered else ("", lambda _: True)
            conditions += [text] if text else []
            filters.append(passes)
        listed = ", ".join(
            f"{each} s{side} [{windows[side]} SECONDS]" for side, each in enumerate(self.streams)
        )
        groups = [f"s{side}.{column}" for side, column in self.groups]
        outputs = [f"{each} AS g{number}" for number, each in enumerate(groups)]
        outputs += [f"{spelled(each)} AS m{number}" for number, each in enumerate(self.measures)]
        slack = drawn.choice([0, 2, 100])
        text = (
            f"SELECT {', '.join(outputs)} FROM {listed} WHERE {' AND '.join(drawn.sample(conditions, len(conditions)))}"
            f"{' GROUP BY ' if groups else ''}{', '.join(groups)}{f' HAVING {having[0]}' if having else ''}"
            f" EVERY {every // SECOND} SECONDS{f' SLACK {slack} SECONDS' if slack else ''}"
        )
        windows_us = [window * SECOND for window in windows]
        joined = Joined(windows_us, self.equal, self.groups, self.measures, having[1] if having else None)
        share = drawn.choice([0.0, 0.0, 0.0, 0.2, 0.6])
        retracted = frozenset(row["line"] for _, row in rows if drawn.random() < share)
        return Case(text, self.streams, joined, filters, rows, retracted, base, every)

    def _equal(self) -> list[tuple[Place, Place]]:
        """Return equal columns: each attribute is of a type, and on each side a column of it."""
        drawn, free = self.drawn, [set[str](FEW) for _ in range(self.many)]
        places: dict[int, list[Place]] = {}
        for number in sorted({number for own in self.attributes for number in own}):
            carriers = [side for side, own in enumerate(self.attributes) if number in own]
            able = [each for each in OF_TYPE if all(free[side] & {*each} for side in carriers)]
            columns = drawn.choice(able)
            values = drawn.sample(FEW[columns[0]], 2)
            for side in carriers:
                column = drawn.choice(sorted(free[side] & {*columns}))
                free[side].discard(column)
                places.setdefault(number, []).append((side, column))
                # Few rows of many streams would meet otherwise.
                own = [values[0]] * (2 * self.many) + [values[1], None]
                self.few.setdefault((self.streams[side], column), own)
        return [both for of in places.values() for both in itertools.pairwise(of)]

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

    def _rows(self, base: int) -> list[tuple[str, Row]]:
        drawn, rows = self.drawn, list[tuple[str, Row]]()
        for line in range(
            drawn.randint(2 * self.many, self.many + ROWS_OF_A_SIDE[self.many] * (1 + len({*self.streams})))
        ):
            stream = drawn.choice(self.streams)
            row = {name: self._value(stream, name) for name in FEW}
            # Many streams are less often in their windows at once.
            spread = 12 if self.many == 2 else 5
            at = drawn.choice([drawn.randint(0, spread * SECOND), drawn.randint(0, spread) * SECOND])
            rows.append((stream, row | {"event_us": base + at, "line": line}))
        return rows

    def _value(self, stream: str, name: str) -> Any:
        if few := self.few.get((stream, name)):
            return self.drawn.choice(few)
        if name not in SCALES:
            return self.drawn.choice([*FEW[name], None])
        edges = 0.0 if self.many > 2 and self.drawn.random() < 0.7 else 0.5
        found = value_of(self.drawn, name, 0, edges, 10 ** (36 if self.many == 2 else 33) - 1)
        return float("nan") if SCALES[name] is None and self.drawn.random() < 0.03 else found

    def _filter(self, side: int, rows: Sequence[tuple[str, Row]]) -> tuple[str, Callable[[Row], Any]]:
        """Return a condition on a side that many rows pass, if there is one among some."""
        own = [row for stream, row in rows if stream == self.streams[side]]
        for _ in range(4):
            node = condition_on(self.drawn, OF_KIND)
            if 3 * sum(node.of(row) is True for row in own) >= len(own):
                return re.sub(r"`(\w+)`", rf"s{side}.`\1`", node.sql), node.of
        return "", lambda _: True

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
    kept = Kept(query, drawn.choice([1, 2]), restarts=drawn.random() < 0.5)
    sides = [int(side.alias[1:]) for side in query.sides]
    rest, known, until = case.rows, list[tuple[str, Row]](), case.base_us
    while rest:
        size = drawn.choice([1, 1, 5, len(rest)])
        part, rest = rest[:size], rest[size:]
        known += [each for each in part if each[1]["line"] in case.retracted]
        until = drawn.randint(until, case.base_us + 14 * SECOND) if rest else case.until_us
        kept.batch([case.of_side(side, part) for side in sides], until)
        if known and (not rest or drawn.random() < 0.3):
            kept.repair()
            # A retraction is of one stream.
            for stream in sorted({each for each, _ in known}):
                own = [row for row in known if row[0] == stream]
                kept.withdraw([case.of_side(side, own) for side in sides])
            known = []
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
