"""Contract of a join across sites: sites, blocks, vectors, orders, plans and their costs.

n streams are stored at n sites, one each, and joined on one attribute. Every interval each site may have a new block,
whose rows travel from site to site and meet the stored windows there. A result is one row of each site, all of one
key, so close in time that each is still in its window when the newest of them comes.

    window ........ rows of one site, kept for ``window_us`` after their block came; None: for ever
    agreed order .. blocks that come at one time are applied in the order of their sites, so a result is found once:
                    by the block that is applied last of its rows' blocks
    vector ........ counts of rows by entry: by join value, or by slot of hashed join values
    order ......... in which a block's rows visit the other sites

Times are int64 microseconds, keys int64 numbers that are equal where the values are. Sizes are rows; a cost is rows
moved times what a row costs on that way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Sites:
    """Sites and ``transfer``: float64, what moving one row costs from one (line) to another (column); by ``of``."""

    names: tuple[str, ...]
    transfer: Float64s

    @classmethod
    def of(cls, names: Any, transfer: Any) -> Self:
        """Return sites; costs need not be the same both ways.

        Raises ValueError when fewer than two sites, a name twice, costs that are not one finite number from 0 for every
        way between the sites, or a cost from a site to itself.
        """
        sites = cls(tuple(names), np.array(transfer, np.float64))
        sites._validate()
        return sites

    def _validate(self) -> None:
        n, names = len(self.names), f"sites: {', '.join(self.names)}"
        if n < 2 or len(set(self.names)) < n:
            raise ValueError(f"expected at least two sites, each named once, found {names}")
        if self.transfer.shape != (n, n):
            shape = " x ".join(map(str, self.transfer.shape))
            raise ValueError(f"expected {n} x {n} transfer costs, one for every way, found {shape}; {names}")
        wrong = ~np.isfinite(self.transfer) | (self.transfer < 0)
        wrong |= np.eye(n, dtype=np.bool_) & (self.transfer != 0)
        if np.any(wrong):
            start, end = np.argwhere(wrong)[0].tolist()
            raise ValueError(
                "expected transfer costs that are finite, not negative, and 0 from a site to itself, found "
                f"{self.transfer[start, end]} from {self.names[start]} to {self.names[end]}; {names}"
            )

    def __len__(self) -> int:
        return len(self.names)

    def number(self, name: str) -> int:
        """Return the number of a site. Raises ValueError when there is no such site."""
        if name not in self.names:
            raise ValueError(f"expected one of the sites {', '.join(self.names)}, found {name!r}")
        return self.names.index(name)

    @property
    def centre(self) -> int:
        """Return the number of the synopsis centre: least total cost to and from all others, the first of equals."""
        return int(np.argmin(self.transfer.sum(axis=0) + self.transfer.sum(axis=1)))


@dataclass(frozen=True)
class Query:
    """A join of the streams of all sites; ``asker`` is the site that wants the results, None: where they arise."""

    sites: Sites
    windows_us: tuple[int | None, ...]
    asker: str | None = None

    def __post_init__(self) -> None:
        if len(self.windows_us) != len(self.sites):
            raise ValueError(
                f"expected {len(self.sites)} windows, one for each of the sites {', '.join(self.sites.names)}, "
                f"found {len(self.windows_us)}"
            )
        if any(window is not None and window < 0 for window in self.windows_us):
            raise ValueError(f"expected windows that are None or at least 0 us, found {self.windows_us}")
        if self.asker is not None:
            self.sites.number(self.asker)


@dataclass(frozen=True)
class Vector:
    """A synopsis vector without its zeros; made by a synopsis, or by ``of`` of what was counted by entry elsewhere.

    ``entries`` int64, ascending, each once. ``counts`` int64, above 0: rows. ``sums`` int64, entries x summed columns.
    """

    entries: Int64s
    counts: Int64s
    sums: Int64s

    @classmethod
    def of(cls, entries: Any, counts: Any, sums: Any = None) -> Self:
        """Return the vector of entries in any order with their counts.

        Raises ValueError when columns differ in length, an entry is there twice, or a count is below 1.
        """
        entries, counts = np.asarray(entries, np.int64), np.asarray(counts, np.int64)
        numbers = np.zeros((len(entries), 0), np.int64) if sums is None else np.asarray(sums, np.int64)
        if not len(entries) == len(counts) == len(numbers) or len(np.unique(entries)) < len(entries):
            raise ValueError(
                "expected each entry once, with its count and sums, found "
                f"{len(entries)} entries, {len(np.unique(entries))} of them different, {len(counts)} counts, "
                f"{len(numbers)} sums"
            )
        if np.any(counts < 1):
            raise ValueError(f"expected counts of at least 1, found {counts.min()}")
        order = np.argsort(entries)
        return cls(entries[order], counts[order], numbers[order])

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, part: Bools) -> Vector:
        return Vector(self.entries[part], self.counts[part], self.sums[part])

    @property
    def rows(self) -> int:
        """Return how many rows were counted."""
        return int(self.counts.sum())


@dataclass(frozen=True)
class Legs:
    """Costs of a row on the ways that blocks of one site can take; of float64.

    ``stops`` int64: the numbers of the other sites, ascending. ``start``: from the site to each stop. ``between``:
    from one stop (line) to another (column). ``back``: from each stop to who asks, 0 where nobody does.
    """

    stops: Int64s
    start: Float64s
    between: Float64s
    back: Float64s


@dataclass(frozen=True)
class Trip:
    """Rows that an order is chosen for: those of a block of ``site``, by entry, which must meet all stops' windows.

    ``block`` float64: rows of the block by entry. ``stored`` float64, stops x entries: rows in the windows.
    ``is_factorised``: where a key has several rows at several sites, each travels once, not each combination of them.
    """

    site: int
    legs: Legs
    block: Float64s
    stored: Float64s
    is_factorised: bool = False


class Ordering(Protocol):
    """Chooses the order in which a block visits the stops. ``is_sent``: the centre chooses and sends it to the site."""

    is_sent: bool

    def choose(self, trip: Trip) -> Int64s:
        """Return the positions of all stops in the order of the visits."""

    def snapshot(self) -> bytes:
        """Return the whole state; equal states give equal bytes."""

    def restore(self, packed: bytes) -> None:
        """Become what the snapshot was taken of."""


@dataclass(frozen=True)
class Sending:
    """Bytes that are sent, and their cost beside rows; a row is the unit.

    ``filters``: rows that cannot join stay at home. ``is_factorised``: see ``Trip``. ``is_compact``: a filter is a bit
    for each entry that the site had sent, where that is less than the vector of what passes, and the centre remembers
    itself what will expire; else, as in the paper, a filter is that vector, and sites send decrements.
    ``entry``: one entry of a vector. ``bit``: one bit of a filter. ``hop``: one site's name in an order. ``read``:
    reading a stored row that a filter lets through, at its own site; it is the same for every order.
    """

    filters: bool = True
    is_factorised: bool = False
    is_compact: bool = False
    entry: float = 1 / 4
    bit: float = 1 / 256
    hop: float = 1 / 16
    read: float = 0.0

    def __post_init__(self) -> None:
        prices = self.entry, self.bit, self.hop, self.read
        if not all(np.isfinite(price) and price >= 0 for price in prices):
            raise ValueError(f"expected prices that are finite and not negative, found {prices}")


@dataclass(frozen=True)
class Cost:
    """A cost by what was moved: rows, synopsis vectors, filters, orders; and stored rows read."""

    data: float = 0.0
    synopsis: float = 0.0
    filter: float = 0.0
    order: float = 0.0
    reads: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.data + other.data,
            self.synopsis + other.synopsis,
            self.filter + other.filter,
            self.order + other.order,
            self.reads + other.reads,
        )

    @property
    def total(self) -> float:
        """Return the whole cost."""
        return self.data + self.synopsis + self.filter + self.order + self.reads


@dataclass(frozen=True)
class Plan:
    """Answer of the centre to a site that has announced a block, and its expectation.

    ``filter``: what may leave the site, None for everything. ``order``: names of the other sites; empty if nothing
    leaves. ``sizes`` float64: rows that leave the site, then each stop; the last go to who asks. They are what will
    be moved where vectors are exact and sizes below 2^53; otherwise bounds, or rounded. ``reads`` float64, per stop:
    stored rows of entries sent.
    """

    site: str
    filter: Vector | None
    order: tuple[str, ...]
    sizes: Float64s
    reads: Float64s
    cost: Cost


@dataclass(frozen=True)
class Snapshot:
    """A whole state as plain values: equal states give equal snapshots."""

    method: str
    parts: dict[str, bytes]
