"""Tables whose rows versions share: the ledger, and the results of queries. What each is, and how its parts are read.

Parts of a table are in the segments of rows and in the version's own file, oldest first, under the schema ``rows``.
Rows are of one of three kinds, which says how a newer part changes an older one:

    appended   no key                       rows are added
    counted    key and sums                 counts of the same key add up
    revised    key, whose last is a number  a row replaces the older one with its key; of rows that differ in the
                                            number alone, the one with the greatest is newest
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse.serving.literals import name

SCHEMA = "rows"


@dataclass(frozen=True)
class SharedRows:
    """A table: its sort order, the ``time`` by which it is kept from ``from_us`` on, and what its rows depend on.

    ``basis``: versions share its rows while it stays the same. ``batches`` and ``repairs``: those contained.
    ``shown`` selects the rows that are counted; ``where`` selects those that its view returns, over all of them. A
    table with ``is_view`` is read by a view of its name.
    """

    name: str
    basis: str
    order: Sequence[str]
    time: str | None = None
    from_us: int | None = None
    key: Sequence[str] = ()
    sums: Sequence[str] = ()
    shown: str | None = None
    where: str | None = None
    batches: int = 0
    repairs: int = 0
    is_view: bool = True

    @property
    def is_revised(self) -> bool:
        """True if newer rows replace older ones."""
        return bool(self.key) and not self.sums

    @property
    def table(self) -> str:
        """The table's name in each part, with its schema."""
        return f"{SCHEMA}.{name(self.name)}"

    def hashed(self, columns: str) -> str:
        """Return the hash of what its rows depend on, with its columns."""
        shape = (self.name, self.basis, columns, *map(tuple, (self.order, self.key, self.sums)), self.time)
        return hashlib.sha256(repr(shape).encode()).hexdigest()

    def kept(self) -> str:
        """Return SQL that says which rows are kept."""
        return "true" if self.time is None or self.from_us is None else f"{self.time} >= {self.from_us}"

    def same(self, one: str, other: str, *, but_for_number: bool = False) -> str:
        """Return SQL that says whether rows of two tables have the same key; nulls are equal."""
        key = self.key[:-1] if but_for_number else self.key
        equal = (f"{one}.{name(column)} IS NOT DISTINCT FROM {other}.{name(column)}" for column in key)
        return " AND ".join(equal)

    def rows(self, parts: Sequence[str], columns: Sequence[str], where: str = "true") -> str:
        """Return SQL for the rows in parts, oldest first; each revised row in its last form; ``where`` selects keys."""
        names = ", ".join(map(name, columns))
        if self.sums:
            stored = " UNION ALL ".join(f"SELECT {names} FROM {part}" for part in parts)
            sums = (f"sum({name(column)})::BIGINT AS {name(column)}" for column in self.sums)
            keys = ", ".join(map(name, self.key))
            return f"SELECT {keys}, {', '.join(sums)} FROM ({stored}) WHERE {self.kept()} GROUP BY {keys}"
        selects = []
        for place, part in enumerate(parts):
            # A row that is not newest was stored again when a newer one came.
            again = [f"SELECT * FROM {one} WHERE NOT is_newest AND {where}" for one in parts[place + 1 :]]
            select = f"SELECT {names} FROM {part} AS stored WHERE {self.kept()} AND {where}"
            if self.is_revised and again:
                later = f"({' UNION ALL '.join(again)}) AS later"
                source = f"(SELECT {names} FROM {part} WHERE {self.kept()} AND {where}) AS stored"
                select = f"SELECT {names} FROM {source} ANTI JOIN {later} ON {self.same('stored', 'later')}"
            selects.append(select)
        return " UNION ALL ".join(selects)


@dataclass(frozen=True)
class RowsBefore:
    """A table in the version before; ``log_version``: the last commit of the table that it contains."""

    name: str
    basis: str
    batches: int
    repairs: int
    from_us: int | None
    shown: int
    log_version: int | None

    def is_followed_by(self, table: SharedRows, basis: str) -> bool:
        """True if a version may share these rows and add the new ones."""
        goes_on = table.batches >= self.batches and table.repairs >= self.repairs
        is_kept = self.from_us is None or (table.from_us is not None and table.from_us >= self.from_us)
        return self.basis == basis and self.log_version is not None and goes_on and is_kept
