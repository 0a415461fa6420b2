"""Random joins of three to five streams, from the text of a query to its results: what is wrong with them."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lakehouse.queries.multiway.query import MultiwayQuery
from tests.oracles.queries.exact_aggregates import Joined, plain
from tests.queries.declared_streams import SECOND, multiway_of
from tests.queries.drawn import BASES, Drawer
from tests.queries.exact_rows import FEW, SCALES, STREAMS, Row
from tests.queries.multiway.kept import WAYS, KeptJoin

SHAPES = (((0,),) * 3, ((0,),) * 3, ((0, 1),) * 3, ((0,),) * 4, ((0, 1, 2),) * 3, ((0,),) * 5)
RECALLS = (
    "RECALL 0.9 OVER 5 SECONDS EVERY 1 SECOND",
    "RECALL 0.5 OVER 10 SECONDS EVERY 1 SECOND SPARE 2 ROWS",
)
# A result by the lines of its rows, and what it shows.
Result = tuple[tuple[int, ...], tuple[Any, ...]]


@dataclass(frozen=True)
class Case:
    """A query by its text, what it means, and the rows of each stream in the order in which they come."""

    text: str
    streams: list[str]
    joined: Joined
    outputs: list[tuple[int, str]]
    filters: list[Callable[[Row], Any]]
    rows: list[tuple[str, Row]]
    base_us: int

    def of_side(self, side: int, rows: list[tuple[str, Row]]) -> list[Row]:
        """Return the rows of a side's stream among some."""
        return [row for stream, row in rows if stream == self.streams[side]]

    def expected(self, gone: set[int]) -> Counter[Result]:
        """Return the results by definition, without the rows of some lines."""
        sides = [
            [row for row in self.of_side(side, self.rows) if passes(row) is True and row["line"] not in gone]
            for side, passes in enumerate(self.filters)
        ]
        return Counter(
            (tuple(row["line"] for row in rows), shown([rows[side][name] for side, name in self.outputs]))
            for rows in self.joined.results(sides)
        )


def shown(values: list[Any]) -> tuple[Any, ...]:
    return tuple((type(value), plain(value)) for value in values)


def case_of(seed: int) -> Case:
    """Return a random case."""
    drawn = random.Random(f"results {seed}")
    drawer, base = Drawer(drawn, drawn.choice(SHAPES)), drawn.choice(BASES)
    rows = drawer.rows(base)
    windows = [drawn.randint(1, 8 if drawer.many == 3 else 3) for _ in range(drawer.many)]
    conditions, filters = drawer.conditions(rows)
    outputs = [
        (drawn.randrange(drawer.many), drawn.choice([*FEW, *SCALES])) for _ in range(drawn.randint(1, 4))
    ]
    written = ", ".join(f"s{side}.{name} AS o{number}" for number, (side, name) in enumerate(outputs))
    clause = drawn.choice(["", "SLACK 2 SECONDS", "SLACK 100 SECONDS", *RECALLS])
    clause += drawn.choice(["", " ROUTING SMJE", " ROUTING SMJH"])
    text = f"SELECT {written} FROM {drawer.listed(windows)} WHERE {' AND '.join(conditions)} {clause}"
    joined = Joined([each * SECOND for each in windows], drawer.equal, [], [])
    return Case(text, drawer.streams, joined, outputs, filters, rows, base)


def asked(case: Case, query: MultiwayQuery, way: str, drawn: random.Random) -> tuple[KeptJoin, set[int]]:
    """Return a query that has taken all rows in, batch by batch, and been repaired, and the retracted lines."""
    came, gone, share = list[tuple[str, Row]](), set[int](), drawn.choice([0.0, 0.0, 0.2, 0.6])
    many = range(len(query.sides))
    known = [case.of_side(side, case.rows) for side in many] if drawn.random() < 0.8 else None
    kept, rest, until = KeptJoin(query, drawn.choice([3, 64, 2**10]), known), case.rows, None
    while rest:
        size = drawn.choice([1, 3, 5, len(rest)])
        part, rest = rest[:size], rest[size:]
        came += part
        if drawn.random() < 0.8:
            earlier = case.base_us if until is None else until
            until = drawn.randint(earlier, max(earlier, case.base_us + 14 * SECOND))
        sides = [case.of_side(side, part) for side in many]
        # Ways change from batch to batch where one costs less.
        kept.batch(sides, until, drawn.choice([*WAYS]) if way == "mixed" else way)
        if drawn.random() < 0.2:
            kept.repair()
            # A retraction is of one stream.
            stream = drawn.choice(sorted({*case.streams}))
            own = {row["line"]: row for each, row in came if each == stream and drawn.random() < share}
            kept.withdraw([each for line, each in own.items() if line not in gone], stream)
            gone |= {*own}
    kept.repair()
    return kept, gone


def wrong(seed: int) -> tuple[str, str | None]:
    """Return how a random query's batches are joined, and what is wrong with its results, None for nothing."""
    case, drawn = case_of(seed), random.Random(seed)
    way, query = drawn.choice([*WAYS, "mixed"]), multiway_of("q", case.text, STREAMS)
    named = f"results {seed}: {case.text}, {way}"
    try:
        kept, gone = asked(case, query, way, drawn)
        found = Counter((lines, shown(values)) for lines, values in kept.results)
    except Exception as error:
        return way, f"{named}: {error!r}"
    expected = case.expected(gone)
    if found == expected:
        return way, None
    return way, f"{named}: more {[*(found - expected)][:2]}, missed {[*(expected - found)][:2]}"
