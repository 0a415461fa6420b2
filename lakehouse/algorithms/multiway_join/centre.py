"""The synopsis centre: keeps all vectors and plans which rows of a block leave its site, for which stops, at what cost.

A driver does per interval, for instance per micro-batch:

    expiry = centre.advance(at_us)                         rows that left their windows are taken off
    for site in sites, in their order:                     the agreed order
        vector = Vector.of(entries, counts)                counted where the block is
        plan = centre.apply(site, vector)                  filter, order, sizes, cost

Where rows have times of their own, ``apply(site, vector, parts)`` tells from when on the windows of which rows count.
"""

from bisect import insort
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from lakehouse.algorithms.multiway_join.contract import (
    Cost,
    Float64s,
    Int64s,
    Ordering,
    Plan,
    Query,
    Sending,
    Sites,
    Snapshot,
    Trip,
    Vector,
)
from lakehouse.algorithms.multiway_join.cost import legs_of, message_cost, route_cost, sizes_of
from lakehouse.algorithms.multiway_join.synopsis import Synopsis, passing

NOWHERE = np.empty(0, np.int64)
FAR_PAST_US = -(2**62)


class Remembered:
    """Vectors of blocks by site, oldest first; memory O(their entries)."""

    def __init__(self, sites: int) -> None:
        self._blocks: list[deque[tuple[int, Vector]]] = [deque() for _ in range(sites)]

    def add(self, site: int, at_us: int, vector: Vector) -> None:
        """Remember a block, or a part of one, that came at a time; cost O(those of its site that came later)."""
        insort(self._blocks[site], (at_us, vector), key=_time)

    def take_before(self, site: int, at_us: int) -> Iterator[Vector]:
        """Forget the blocks of a site that came before a time, and yield their vectors."""
        blocks = self._blocks[site]
        while blocks and blocks[0][0] < at_us:
            yield blocks.popleft()[1]

    def of(self, site: int) -> tuple[tuple[int, Vector], ...]:
        """Return when each block of a site came, and its vector."""
        return tuple(self._blocks[site])

    def snapshot(self) -> dict[str, bytes]:
        """Return a line (site, time, entries) per block, and all blocks' vectors one after the other."""
        blocks = [(site, at_us, vector) for site, held in enumerate(self._blocks) for at_us, vector in held]
        lines = np.array([(site, at_us, len(vector)) for site, at_us, vector in blocks], np.int64)
        parts = {"lines": lines.tobytes()}
        for name in ("entries", "counts", "sums"):
            parts[name] = b"".join(getattr(vector, name).tobytes() for _, _, vector in blocks)
        return parts

    def restore(self, parts: dict[str, bytes]) -> None:
        """Become what the snapshot was taken of."""
        lines = np.frombuffer(parts["lines"], np.int64).reshape(-1, 3)
        entries, counts = (np.frombuffer(parts[name], np.int64) for name in ("entries", "counts"))
        sums = np.frombuffer(parts["sums"], np.int64)
        sums = sums.reshape(len(entries), len(sums) // max(len(entries), 1))
        self._blocks = [deque() for _ in self._blocks]
        end = 0
        for site, at_us, length in lines.tolist():
            part = slice(end, end := end + length)
            self.add(site, at_us, Vector(entries[part], counts[part], sums[part]))


def _time(block: tuple[int, Vector]) -> int:
    return block[0]


class Centre:
    """Vectors of all windows, and plans made of them.

    It stands at ``query.sites.centre``. It remembers the vectors of blocks in limited windows, so it knows by itself
    what expires when; without compact messages the sites' decrements are paid for all the same.

    Cost: a block O(sites x its entries), and what its order costs.
    Guarantee: with an exact synopsis ``sizes`` and ``cost`` are what moving the block takes, while sizes are below
    2^53; with a hashed one they are not below that. No row that could join is filtered.
    Reference: Yin, Zhang, SMJ, 2009, sections 3.2 and 4.
    """

    def __init__(
        self, query: Query, synopsis: Synopsis, ordering: Ordering, sending: Sending | None = None
    ) -> None:
        self.query, self.synopsis, self.ordering = query, synopsis, ordering
        self.sending = sending or Sending()
        self.site, self.at_us = query.sites.centre, FAR_PAST_US
        self._remembered = Remembered(len(query.sites))
        self.measure(query.sites.transfer)

    def measure(self, transfer: Float64s) -> None:
        """Plan with these transfer costs from now on; the centre stays where it is."""
        sites = Sites.of(self.query.sites.names, transfer)
        self.query = replace(self.query, sites=sites)
        self._legs = [legs_of(self.query, site) for site in range(len(sites))]

    def advance(self, at_us: int) -> Cost:
        """Take off the rows that are older than their windows at a time; return what telling that costs.

        Raises ValueError when the time is before the last.
        """
        if at_us < self.at_us:
            raise ValueError(f"expected a time from {self.at_us} us on, found {at_us}")
        self.at_us, cost = at_us, Cost()
        for site, window_us in enumerate(self.query.windows_us):
            if window_us is None:
                continue
            for vector in self._remembered.take_before(site, at_us - window_us):
                self.synopsis.decrement(site, vector)
                if self._hears_vectors and not self.sending.is_compact:
                    cost += Cost(synopsis=len(vector) * self.sending.entry * self._ways(site)[0])
        return cost

    def apply(self, site: str, vector: Vector, parts: Sequence[tuple[int, Vector]] | None = None) -> Plan:
        """Return a block's plan and add its vector, as of the last time given.

        ``parts``: vectors that add up to it, each with the time from which the windows of its rows count; rows that
        are beyond their window by then can be met until the time moves on. Raises ValueError when there is no such
        site; nothing is changed then.
        """
        number = self.query.sites.number(site)
        stored, passed = self.synopsis.stored_at(vector.entries), vector
        if self.sending.filters:
            passes = passing(stored, number)
            passed, stored = vector[passes], stored[:, passes]
        plan = self._plan(number, vector, passed, stored)
        self.add(site, vector, parts)
        return plan

    def add(self, site: str, vector: Vector, parts: Sequence[tuple[int, Vector]] | None = None) -> None:
        """Add a block's vector without a plan, as of rows that are stored at its site already; parts as above.

        Raises ValueError when there is no such site; nothing is changed then.
        """
        number = self.query.sites.number(site)
        self.synopsis.increment(number, vector)
        window_us = self.query.windows_us[number]
        if window_us is not None and len(vector):
            for at_us, part in parts or [(self.at_us, vector)]:
                self._remembered.add(number, max(at_us, self.at_us - window_us), part)

    def keys(self, site: str, vector: Vector) -> int:
        """Return how many entries a site and a vector have together."""
        held = [block.entries for _, block in self._remembered.of(self.query.sites.number(site))]
        return len(np.unique(np.concatenate([NOWHERE, vector.entries, *held])))

    def recount(self, synopsis: Synopsis) -> None:
        """Count what is stored in another synopsis of the same entries from now on; all windows are limited."""
        for site in range(len(self.query.sites)):
            for _, vector in self._remembered.of(site):
                synopsis.increment(site, vector)
        self.synopsis = synopsis

    def cost_of(self, plan: Plan, sizes: Float64s) -> Cost:
        """Return what a block cost whose rows left its site, and then each stop, in these numbers."""
        if not plan.order:
            return plan.cost
        legs = self._legs[self.query.sites.number(plan.site)]
        stops = [self.query.sites.number(name) for name in plan.order]
        return replace(plan.cost, data=route_cost(legs, np.searchsorted(legs.stops, stops), sizes))

    def _plan(self, site: int, vector: Vector, passed: Vector, stored: Int64s) -> Plan:
        order, sizes, reads, data = NOWHERE, np.zeros(1), np.zeros(0), 0.0
        legs = self._legs[site]
        if len(passed):
            others = stored[legs.stops].astype(np.float64)
            trip = Trip(site, legs, passed.counts.astype(np.float64), others, self.sending.is_factorised)
            order = self.ordering.choose(trip)
            sizes, reads = sizes_of(trip, order), others.sum(axis=1)[order]
            data = route_cost(legs, order, sizes)
        cost = Cost(data, reads=self.sending.read * float(reads.sum()))
        if self._hears_vectors:
            announced_stops = len(order) if self.ordering.is_sent else 0
            cost += message_cost(self.sending, len(vector), len(passed), announced_stops, self._ways(site))
        names = self.query.sites.names
        visits = tuple(names[stop] for stop in legs.stops[order].tolist())
        let_through = passed if self.sending.filters else None
        return Plan(names[site], let_through, visits, sizes, reads, cost)

    @property
    def _hears_vectors(self) -> bool:
        return self.sending.filters or self.ordering.is_sent

    def _ways(self, site: int) -> tuple[float, float]:
        transfer = self.query.sites.transfer
        return float(transfer[site, self.site]), float(transfer[self.site, site])

    def snapshot(self) -> Snapshot:
        """Return vectors, what will expire when, the time, the transfer costs and what the ordering remembers."""
        parts = {f"synopsis_{name}": part for name, part in self.synopsis.snapshot().items()}
        parts |= {f"remembered_{name}": part for name, part in self._remembered.snapshot().items()}
        parts["ordering"] = self.ordering.snapshot()
        parts["transfer"] = self.query.sites.transfer.tobytes()
        parts["clock"] = np.array([self.site, self.at_us], np.int64).tobytes()
        return Snapshot(self._name(), parts)

    def restore(self, snapshot: Snapshot) -> None:
        """Become the centre that the snapshot was taken of; query, synopsis, ordering and sending must be the same.

        Raises ValueError when the snapshot is of another centre.
        """
        if snapshot.method != self._name():
            raise ValueError(f"expected a snapshot of {self._name()}, found one of {snapshot.method}")
        parts, n = snapshot.parts, len(self.query.sites)
        self.synopsis.restore(parts_of(parts, "synopsis_"))
        self._remembered.restore(parts_of(parts, "remembered_"))
        self.ordering.restore(parts["ordering"])
        self.measure(np.frombuffer(parts["transfer"]).reshape(n, n))
        self.site, self.at_us = np.frombuffer(parts["clock"], np.int64).tolist()

    def _name(self) -> str:
        query = self.query
        words = f"{self.synopsis} {type(self.ordering).__name__} {self.sending}"
        return f"Centre of {query.sites.names} within {query.windows_us} us asked by {query.asker}, {words}"


def parts_of(parts: dict[str, bytes], prefix: str) -> dict[str, bytes]:
    """Return the parts of a snapshot whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): part for name, part in parts.items() if name.startswith(prefix)}
