"""Manifests as rows of the control store: what each batch reads, written down before it is read.

    part      manifests/<stream>, batch_manifests/<query>/batch, .../repair, .../meaning, .../stopped
    number    that of the batch or repair
    sum       checksum of the row, so that flipped bytes stop its stream or query, and no other

A manifest is written in one transaction, by whoever holds the lease of its part, and a number is given once. In a
database that several machines share, the session that holds the lease writes it, so that a writer that was paused past
its lease writes nothing.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from lakehouse.storage.control.local import Change
from lakehouse.storage.control.store import Store, store_of
from lakehouse.storage.damaged import RESTORE, DamagedFile
from lakehouse.storage.layout import Home, Part

_COLUMNS = "SELECT number, kind, body, sum FROM tidemark_manifests WHERE home = :home AND part = :part "
_BETWEEN = _COLUMNS + "AND number > :after AND number <= :through ORDER BY number"
_OF_FEW_KINDS = _COLUMNS + "AND kind NOT IN ('files', 'kafka') ORDER BY number"
_LAST = "SELECT max(number) FROM tidemark_manifests WHERE home = :home AND part = :part"
_ADD = "INSERT INTO tidemark_manifests VALUES (:home, :part, :number, :kind, :body, :sum)"
_PUT = _ADD + " ON CONFLICT (home, part, number) DO UPDATE SET kind = :kind, body = :body, sum = :sum"
_DROP = "DELETE FROM tidemark_manifests WHERE home = :home AND part = :part AND number > :after"
# From part to part of the index, in whatever order a database has them.
_PARTS = (
    "WITH RECURSIVE parts (part) AS (SELECT min(part) FROM tidemark_manifests WHERE home = :home UNION ALL "
    "SELECT (SELECT min(m.part) FROM tidemark_manifests AS m WHERE m.home = :home AND m.part > parts.part) "
    "FROM parts WHERE parts.part IS NOT NULL) SELECT part FROM parts WHERE part IS NOT NULL"
)
LAST = 2**62


class Row(NamedTuple):
    """A manifest: its number, its kind, and what it says."""

    number: int
    kind: str
    body: str


class Manifests:
    """The manifests of a stream, or one series of those of a query.

    ``do`` is what is to be done about one that is damaged.
    """

    def __init__(self, part: Part, series: str = "", do: str = RESTORE) -> None:
        self._home = part.home
        self.part = "/".join(filter(None, (part.kind, part.name, series)))
        self._do = do

    @property
    def store(self) -> Store:
        """The control store of the home."""
        return store_of(self._home)

    def read(self, number: int) -> Row | None:
        """Return a manifest, None where there is none."""
        return next(iter(self.between(number - 1, number)), None)

    def between(self, after: int, through: int = LAST) -> list[Row]:
        """Return the manifests behind a number, up to and with another, in order.

        Raises DamagedFile when one is damaged.
        """
        return self._rows(_BETWEEN, after=after, through=through)

    def of_few_kinds(self) -> list[Row]:
        """Return the manifests of other kinds than those of ordinary batches."""
        return self._rows(_OF_FEW_KINDS)

    def last(self) -> int:
        """Return the largest number, 0 for none."""
        return next((number or 0 for (number,) in self.store.rows(_LAST, part=self.part)), 0)

    def add(self, row: Row, beside: Sequence[Change] = ()) -> None:
        """Write a new manifest, and other changes with it.

        Raises FileExistsError when one of this number is there; LeaseLost when another process has taken the lease
        meanwhile.
        """
        self.store.transact([(_ADD, [self._values(row)]), *beside])

    def put(self, *rows: Row, beside: Sequence[Change] = ()) -> None:
        """Write manifests in place of those of their numbers, or new ones."""
        self.store.transact([*beside, (_PUT, [self._values(row) for row in rows])])

    def dropping(self, after: int) -> Change:
        """Return the change that deletes the manifests behind a number."""
        return _DROP, [{"part": self.part, "after": after}]

    def _rows(self, statement: str, **values: int) -> list[Row]:
        found = self.store.rows(statement, part=self.part, **values)
        return [self._whole(Row(number, kind, body), known) for number, kind, body, known in found]

    def _whole(self, row: Row, known: str) -> Row:
        if self._sum(row) != known:
            raise DamagedFile(
                f"manifest {row.number} of {self.part} in the control store of {self._home.root} is damaged (checksum "
                f"{self._sum(row)}, expected {known}): {self._do}"
            )
        return row

    def _values(self, row: Row) -> dict[str, object]:
        return {"part": self.part, **row._asdict(), "sum": self._sum(row)}

    def _sum(self, row: Row) -> str:
        text = f"{self.part} {row.number} {row.kind} {row.body}"
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def remove(parts: Iterable[Manifests]) -> None:
    """Delete all manifests of some parts of one home, in one transaction."""
    changes = [(each.store, each.dropping(-1)) for each in parts]
    if changes:
        changes[0][0].transact([change for _, change in changes])


def names_in(home: Home, kind: str) -> list[str]:
    """Return the streams or queries of a home that have manifests; ``kind``: the first word of their parts.

    Cost: a look into the index for each.
    """
    found = (part.split("/") for (part,) in store_of(home).rows(_PARTS))
    return sorted({words[1] for words in found if words[0] == kind})
