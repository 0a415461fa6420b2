"""Random aggregate queries: what one means, and the many ways to write it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

from hypothesis import strategies as st

from lakehouse.queries.aggregate.query import Function
from tests.queries.declared_streams import SECOND, stream_of

KEYS = [f"k{number}" for number in range(6)]
NUMBERS = ["x", "y"]
FILTERS = ["x > 3", "y IS NULL", "k5 <> 'z'"]
MODEL_STREAMS = {
    name: stream_of(name=name, columns=dict.fromkeys(KEYS, "string") | dict.fromkeys(NUMBERS, "int"))
    for name in ("s", "t")
}
Place = tuple[int, str]


@dataclass(frozen=True)
class Model:
    """What a query means, by the numbers of its sides. ``classes``: columns that are equal."""

    streams: list[str]
    windows: list[int]
    filters: list[frozenset[str]]
    classes: list[list[Place]]
    groups: list[Place]
    calls: list[tuple[Function, int, str]]

    def side(self, side: int) -> tuple[str, int, str | None]:
        """Return a side's stream, window and filter."""
        found = {re.sub(r"^(\w+)", r"`\1`", each) for each in self.filters[side]}
        for places in self.classes:
            columns = sorted(column for each, column in places if each == side)
            found |= {f"`{columns[0]}` = `{other}`" for other in columns[1:]}
        return self.streams[side], self.windows[side] * SECOND, " AND ".join(sorted(found)) or None

    def attributes(self) -> set[frozenset[Place]]:
        """Return of every class one column of each side, the first by name."""
        first = [{side: column for side, column in sorted(each, reverse=True)} for each in self.classes]
        return {frozenset(each.items()) for each in first}

    def equal_to(self, place: Place) -> list[Place]:
        """Return a column and those that are equal to it."""
        return next((each for each in self.classes if place in each), [place])

    def written(self, draw: st.DataObject, aliases: list[str]) -> str:
        """Return a text that means this; order and ways to write it are drawn."""
        conditions = draw.draw(st.permutations([*self._equalities(draw, aliases), *self._filters(aliases)]))
        cut = draw.draw(st.integers(0, len(conditions)))
        *first, last = draw.draw(st.permutations([*map(self._table, range(len(self.streams)), aliases)]))
        on = f" ON {' AND '.join(conditions[:cut])}" if cut else ""
        where = f" WHERE {' AND '.join(conditions[cut:])}" if cut < len(conditions) else ""
        groups = [f"{aliases[side]}.{column}" for side, column in self.groups]
        by = f" GROUP BY {', '.join(draw.draw(st.permutations(groups)))}" if groups else ""
        outputs = ", ".join([*self._outputs(groups, aliases), "COUNT(*)"])
        return f"SELECT {outputs} FROM {', '.join(first)} JOIN {last}{on}{where}{by} EVERY 1 MINUTE"

    def _table(self, side: int, alias: str) -> str:
        return f"{self.streams[side]} {alias} [{self.windows[side]} SECONDS]"

    def _outputs(self, groups: list[str], aliases: list[str]) -> Iterator[str]:
        yield from (f"{group} AS g{number}" for number, group in enumerate(groups))
        for number, (function, side, column) in enumerate(self.calls):
            yield f"{function.upper()}({aliases[side]}.{column}) AS m{number}"

    def _equalities(self, draw: st.DataObject, aliases: list[str]) -> Iterator[str]:
        """Yield equalities that make the classes: each column but the first equals one before it."""
        for places in self.classes:
            names = draw.draw(st.permutations([f"{aliases[side]}.{column}" for side, column in places]))
            for at, name in enumerate(names[1:], 1):
                other = names[draw.draw(st.integers(0, at - 1))]
                yield f"{name} = {other}" if draw.draw(st.booleans()) else f"({other}) = {name}"

    def _filters(self, aliases: list[str]) -> Iterator[str]:
        for alias, filters in zip(aliases, self.filters, strict=True):
            yield from (f"{alias}.{each}" for each in filters)


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Draw a query of two to four sides, all connected."""
    sides = range(draw(st.integers(2, 4)))
    places = st.tuples(st.sampled_from(sides), st.sampled_from(KEYS))
    calls = st.tuples(st.sampled_from(get_args(Function)), st.sampled_from(sides), st.sampled_from(NUMBERS))
    return Model(
        streams=[draw(st.sampled_from(sorted(MODEL_STREAMS))) for _ in sides],
        windows=[draw(st.sampled_from([1, 60])) for _ in sides],
        filters=[draw(st.frozensets(st.sampled_from(FILTERS))) for _ in sides],
        classes=draw(_classes(len(sides))),
        groups=draw(st.lists(places, max_size=3)),
        calls=draw(st.lists(calls, max_size=3)),
    )


@st.composite
def _classes(draw: st.DrawFn, sides: int) -> list[list[Place]]:
    """Draw classes of columns: every side has one with a side before it; some have two columns of their first side."""
    free = [[*draw(st.permutations(KEYS))] for _ in range(sides)]
    classes: list[list[Place]] = []
    for side in range(1, sides):
        other = draw(st.integers(0, side - 1))
        known = [each for each in classes if other in dict(each)]
        is_known = draw(st.booleans()) and bool(known)
        if not is_known:
            classes.append([(other, free[other].pop())])
        joined = draw(st.sampled_from(known)) if is_known else classes[-1]
        joined.append((side, free[side].pop()))
    for each in classes:
        first, is_twice = each[0][0], draw(st.booleans())
        if free[first] and is_twice:
            each.append((first, free[first].pop()))
    return classes
