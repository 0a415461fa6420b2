"""The sides of a query by name: which stream an alias stands for, and which column a name means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.declare.columns import Column
from lakehouse.declare.problems import nearest
from lakehouse.queries.language.tokens import Faults

if TYPE_CHECKING:
    from sqlglot import exp

    from lakehouse.queries.language.tokens import Named

# A column of a side, by the side's number.
Place = tuple[int, str]
TIMES = {"event_us": Column(type="int"), "arrival_us": Column(type="int")}


@dataclass(frozen=True)
class Source:
    """One side: a stream under an alias, with the columns that can be read."""

    stream: str
    alias: str
    columns: dict[str, Column]


@dataclass(frozen=True)
class Read:
    """A column of one side, counted from 0, and where it is named."""

    side: int
    name: str
    column: Column
    offset: int


def offset_of(node: exp.Expr) -> int:
    """Return where a node begins: the first place that it or anything below it has, else its parent's."""
    starts = [each.meta["start"] for each in node.walk() if "start" in each.meta]
    if starts:
        return int(min(starts))
    return offset_of(node.parent) if node.parent is not None else 0


class Equated:
    """Classes of equal columns; a column that was never named is a class of its own.

    Equality passes on: of ``a.x = b.x AND b.x = c.y`` all three columns are one class, however it is written. What a
    class has of several sides is a join attribute.
    """

    def __init__(self) -> None:
        self._class_of: dict[Place, set[Place]] = {}

    def add(self, one: Place, two: Place) -> None:
        """Let two columns be equal, and with them all that are equal to either."""
        both = self.class_of(one) | self.class_of(two)
        for place in both:
            self._class_of[place] = both

    def class_of(self, place: Place) -> set[Place]:
        """Return a column and all that are equal to it."""
        return self._class_of.get(place, {place})

    def are_equal(self, places: Iterable[Place]) -> bool:
        """Tell if columns, one at least, are all of one class."""
        first, *others = places
        return self.class_of(first).issuperset(others)

    def classes(self) -> list[set[Place]]:
        """Return every class of two columns or more."""
        return list({id(each): each for each in self._class_of.values()}.values())


class Names:
    """What the names of one query mean; a name that means nothing, or two things, is noted as a fault.

    A name that several sides have means one thing all the same where those columns are ``equated``.
    """

    def __init__(self, sources: tuple[Source, ...], faults: Faults) -> None:
        self.sources = sources
        self.faults = faults
        self.equated = Equated()

    def side(self, alias: str, offset: int) -> int | None:
        """Return which side an alias is."""
        aliases = [source.alias for source in self.sources]
        if alias.lower() in aliases:
            return aliases.index(alias.lower())
        self.faults.add(offset, f"the unknown alias {alias!r}", nearest(alias.lower(), aliases))
        return None

    def read(self, node: exp.Column) -> Read | None:
        """Return the column that a node names."""
        offset, name = offset_of(node), node.name.lower()
        if len(node.parts) > 2:
            self.faults.add(offset, repr(".".join(part.name for part in node.parts)), "alias.column")
            return None
        side = self.side(node.table, offset) if node.table else self._only_side(name, offset)
        if side is None:
            return None
        columns = self.sources[side].columns
        if name not in columns:
            place = int(node.this.meta.get("start", offset))
            stream = self.sources[side].stream
            self.faults.add(place, f"the unknown column {node.name!r} of {stream}", nearest(name, columns))
            return None
        return Read(side, name, columns[name], offset)

    def sides_with(self, named: Named) -> list[int]:
        """Return the sides whose column a clause names; none, with the reason noted, where no side has it."""
        side = self.side(named.alias, named.offset) if named.alias else None
        if named.alias and side is None:
            return []
        among = self._having(named.column) if side is None else [side]
        if among and all(named.column in self.sources[each].columns for each in among):
            return among
        known = {name for source in self.sources for name in source.columns}
        self.faults.add(named.offset, f"the unknown column {named.column!r}", nearest(named.column, known))
        return []

    def column(self, node: exp.Expr) -> Column | None:
        """Return what a column is; an aggregate is none of a side's and noted as a fault."""
        from sqlglot import exp

        if isinstance(node, exp.Column):
            read = self.read(node)
            return read.column if read else None
        expected = "columns here: aggregates stand in SELECT and HAVING, not within another"
        self.faults.add(offset_of(node), f"the aggregate {node.sql(comments=False)}", expected)
        return None

    def is_clear(self, node: exp.Column) -> bool:
        """Tell if a name means one column at most, whatever columns are equated."""
        return bool(node.table) or len(self._having(node.name.lower())) <= 1

    def named(self, read: Read) -> str:
        """Return a column with its alias."""
        return f"{self.sources[read.side].alias}.{read.name}"

    def can_be_equal(self, one: Read, two: Read, offset: int) -> bool:
        """Tell if two columns are of one type, so that equality means the same wherever it is computed."""
        kinds = [(read.column.type, read.column.scale) for read in (one, two)]
        if kinds[0] == kinds[1]:
            return True
        found = " and ".join(f"{self.named(read)} of type {read.column.type}" for read in (one, two))
        scale = " and as many decimals" if kinds[0][0] == kinds[1][0] else ""
        self.faults.add(offset, found, f"two columns of one type{scale}")
        return False

    def _having(self, name: str) -> list[int]:
        return [side for side, source in enumerate(self.sources) if name in source.columns]

    def _only_side(self, name: str, offset: int) -> int | None:
        having = self._having(name)
        if having and self.equated.are_equal((side, name) for side in having):
            # Of equal columns any will do; this choice does not depend on the order of FROM.
            return min(having, key=lambda side: (self.sources[side].stream, self.sources[side].alias))
        if having:
            either = " or ".join(f"{self.sources[side].alias}.{name}" for side in having)
            count = "both" if len(self.sources) == 2 else len(having)
            self.faults.add(offset, f"{name!r}, which {count} sides have", either)
        else:
            columns = dict.fromkeys(name for source in self.sources for name in source.columns)
            self.faults.add(offset, f"the unknown column {name!r}", nearest(name, columns))
        return None
