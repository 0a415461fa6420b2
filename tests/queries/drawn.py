"""Random streams, equal columns, conditions and rows of a query over them; what the query asks is drawn elsewhere."""

import itertools
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

from tests.oracles.queries.conditions import condition_on
from tests.oracles.queries.exact_aggregates import Place
from tests.queries.declared_streams import SECOND
from tests.queries.exact_rows import FEW, SCALES, Row, value_of

# By side the numbers of its attributes; what has one number is equal.
Attributes = Sequence[Sequence[int]]
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


class Drawer:
    """Draws the parts of a query: a stream for each side, columns for its attributes, conditions, and rows."""

    def __init__(self, drawn: random.Random, attributes: Attributes) -> None:
        self.drawn, self.attributes, self.many = drawn, attributes, len(attributes)
        self.streams = [drawn.choice("abc") for _ in range(self.many)]
        # Values that a column of a stream has, of few.
        self.few: dict[tuple[str, str], list[Any]] = {}
        self.equal = self._equal()

    def conditions(self, rows: Sequence[tuple[str, Row]]) -> tuple[list[str], list[Callable[[Row], Any]]]:
        """Return what is equal and the conditions of sides as SQL, in any order, and by side what passes."""
        conditions = [f"s{one}.{left} = s{two}.{right}" for (one, left), (two, right) in self.equal]
        filters: list[Callable[[Row], Any]] = []
        for side in range(self.many):
            is_filtered = self.drawn.random() < 0.6 / self.many
            text, passes = self.filter(side, rows) if is_filtered else ("", lambda _: True)
            conditions += [text] if text else []
            filters.append(passes)
        return self.drawn.sample(conditions, len(conditions)), filters

    def listed(self, windows: Sequence[int]) -> str:
        """Return the streams of FROM, with windows of so many seconds."""
        return ", ".join(
            f"{each} s{side} [{windows[side]} SECONDS]" for side, each in enumerate(self.streams)
        )

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

    def rows(self, base: int) -> list[tuple[str, Row]]:
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

    def filter(self, side: int, rows: Sequence[tuple[str, Row]]) -> tuple[str, Callable[[Row], Any]]:
        """Return a condition on a side that many rows pass, if there is one among some."""
        own = [row for stream, row in rows if stream == self.streams[side]]
        for _ in range(4):
            node = condition_on(self.drawn, OF_KIND)
            if 3 * sum(node.of(row) is True for row in own) >= len(own):
                return re.sub(r"`(\w+)`", rf"s{side}.`\1`", node.sql), node.of
        return "", lambda _: True
