"""The two sides of a query by name: which stream an alias stands for, and which column a name means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from lakehouse.catalog.columns import Column
from lakehouse.catalog.query_text import Faults

if TYPE_CHECKING:
    from sqlglot import exp

TIMES = {"event_us": Column(type="int"), "arrival_us": Column(type="int")}


@dataclass(frozen=True)
class Source:
    """One side: a stream under an alias, with the columns that can be read."""

    stream: str
    alias: str
    columns: dict[str, Column]


@dataclass(frozen=True)
class Read:
    """A column of one side, 0 left or 1 right, and where it is named."""

    side: int
    name: str
    column: Column
    offset: int


def nearest(name: str, among: Iterable[str]) -> str:
    """Return what could have been meant."""
    known = list(among)
    close = get_close_matches(name, known, n=1)
    return f"one of {', '.join(known) or 'none'}" + (f" (did you mean {close[0]}?)" if close else "")


def offset_of(node: exp.Expr) -> int:
    """Return where a node begins: the first place that it or anything below it has, else its parent's."""
    starts = [each.meta["start"] for each in node.walk() if "start" in each.meta]
    if starts:
        return int(min(starts))
    return offset_of(node.parent) if node.parent is not None else 0


class Names:
    """What the names of one query mean; a name that means nothing, or two things, is noted as a fault."""

    def __init__(self, sources: tuple[Source, Source], faults: Faults) -> None:
        self.sources = sources
        self.faults = faults

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

    def _only_side(self, name: str, offset: int) -> int | None:
        having = [side for side, source in enumerate(self.sources) if name in source.columns]
        if len(having) == 1:
            return having[0]
        either = " or ".join(f"{source.alias}.{name}" for source in self.sources)
        if having:
            self.faults.add(offset, f"{name!r}, which both sides have", either)
        else:
            columns = dict.fromkeys(name for source in self.sources for name in source.columns)
            self.faults.add(offset, f"the unknown column {name!r}", nearest(name, columns))
        return None
