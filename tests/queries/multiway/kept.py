"""A join of three streams or more kept current in memory: batches joined each way, late rows, repair, retractions."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse.algorithms.late_join.policy_by_stream import held_us
from lakehouse.queries.kind import kind_of
from lakehouse.queries.multiway.centre import Planner, counts_of
from lakehouse.queries.multiway.places import RESULT, JoinPlaces, Route, used_rows, whole_routes
from lakehouse.queries.multiway.pruned import passing
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.multiway.reach import Reach, policy_of
from lakehouse.queries.multiway.repair import RepairPlaces
from lakehouse.queries.multiway.rows import keyed, side_columns
from lakehouse.queries.runtime.recall.needed_slack import learned
from lakehouse.queries.runtime.retracted import Resting, Retracted
from lakehouse.queries.runtime.tasks.arrow_sql import one_batch
from lakehouse.queries.runtime.tasks.bucket import BucketResult
from lakehouse.spark.noted_rows import PLACE, NotedRows
from tests.queries.exact_rows import STREAMS, ReadOnce, Row, Source, raw, read

# How a batch is joined: from raw, from windows of all its rows, or from those of keys that can join.
WAYS = ("plain", "windows", "pruned")
PLACES = 2
Values = tuple[tuple[int, ...], list[Any]]


@dataclass
class KeptJoin:
    """A query kept current over places in memory, each batch by a process of its own.

    ``known``: all rows of each side that will come, if they are to be read at once.
    """

    query: MultiwayQuery
    slots: int
    known: Sequence[Sequence[Row]] | None = None
    found: list[pa.Table] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.of = ReadOnce(self._read, self.known).of
        self.policy = policy_of(self.query)
        self.rows = list[pa.Table]()
        self.reach: dict[int, Reach] = {}
        self.repaired = 0
        self.until_us: int | None = None
        self.state: dict[str, bytes] = {}

    def batch(self, sides: Sequence[Sequence[Row]], until_us: int | None, way: str) -> None:
        """Take rows of each side in, with the time that all streams have passed then."""
        number = len(self.reach) + 1
        reach = self.reach[number] = Reach(self.query, self.until_us, self._slacks(number))
        own = self.of(sides)
        self.rows.append(own.append_column("taken", pa.repeat(pa.scalar(number, pa.int64()), own.num_rows)))
        times = [row["event_us"] for rows in sides for row in rows]
        join = {"plain": self._plain, "windows": self._windows, "pruned": self._pruned}[way]
        found = join(reach, number, min(times, default=None), until_us)
        if self.policy is not None:
            counts: list[Any] = [
                [each.metrics.get(name, ()) for each in found] for name in ("needed", "lags")
            ]
            learned(self.policy, reach.time_us, reach.slack_us, *counts)
        self.until_us = until_us

    def repair(self) -> None:
        """Add what late rows lack."""
        known = {number: each for number, each in self.reach.items() if number > self.repaired}
        self.repaired = len(self.reach)
        self._run(RepairPlaces(self.query, known, 0), pa.concat_tables(self.rows))

    def withdraw(self, gone: Sequence[Row], stream: str) -> None:
        """Take results on rows of a stream away, and the rows; all that were late are repaired."""
        if not gone:
            return
        rows = pa.Table.from_batches([raw(gone)]).select(["event_us", *PLACE])
        times = rows["event_us"].to_numpy()
        sides = frozenset(side for side, each in enumerate(self.query.streams) if each == stream)
        with tempfile.TemporaryDirectory() as folder:
            one = pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)
            pq.write_table(rows.append_column("correction", one), f"{folder}/noted.parquet")
            noted = NotedRows((f"{folder}/noted.parquet",), 1)
            retracted = Retracted(noted, sides, int(times.min()), int(times.max()) + 1)
            rests = Resting(retracted, kind_of(self.query).rests_on)
            self.found = [each.filter(pc.invert(rests(each))) for each in self.found]
            self.rows = [each.filter(pa.array(~retracted.among(each))) for each in self.rows]

    @property
    def results(self) -> list[Values]:
        """The results: the lines of their rows, and what they show."""
        rows = (row for each in self.found for row in each.to_pylist())
        return [(tuple(row["row_lines"]), [row[each.name] for each in self.query.outputs]) for row in rows]

    def _slacks(self, number: int) -> tuple[int, ...]:
        """Return how much longer than its window rows of each side are held; none comes back that has left."""
        if self.policy is None or self.until_us is None:
            return (self.query.slack_us,) * len(self.query.sides)
        slack_us, before = held_us(self.policy.latest_us(self.until_us)), self.reach.get(number - 1)
        if before is None or before.time_us is None:
            return slack_us
        most_us = (self.until_us - before.time_us + each for each in before.slack_us)
        return tuple(map(min, slack_us, most_us))

    def _read(self, sides: Sequence[Sequence[Row]]) -> pa.Table:
        """Return rows of each side as tasks read them."""
        source = Source(tuple(map(raw, sides)), tuple(side.where for side in self.query.sides))
        columns = [keyed(side_columns(self.query, STREAMS, side), PLACES) for side in range(len(sides))]
        return read(source.read(side, own) for side, own in enumerate(columns))

    def _seen(self, number: int, since_us: Sequence[int | None]) -> pa.Table:
        """Return the rows of a batch, and those of earlier ones that are in their windows."""
        rows = pa.concat_tables(self.rows)
        is_new = pc.equal(rows["taken"], number)
        is_seen = is_new
        for side, since in enumerate(since_us):
            own = pc.equal(rows["side"], side)
            is_met = own if since is None else pc.and_(own, pc.greater_equal(rows["event_us"], since))
            is_seen = pc.or_(is_seen, is_met)
        return rows.append_column("is_new", is_new).filter(is_seen)

    def _plain(self, reach: Reach, number: int, oldest_us: int | None, _: int | None) -> list[BucketResult]:
        self.state, routes = {}, whole_routes(len(self.query.sides))
        return self._run(
            JoinPlaces(reach, routes, batch=number), self._seen(number, reach.since_us(oldest_us))
        )

    def _windows(self, reach: Reach, number: int, oldest_us: int | None, _: int | None) -> list[BucketResult]:
        self.state, routes = {}, whole_routes(len(self.query.sides))
        rows = used_rows(self._seen(number, reach.since_us(oldest_us)))
        return self._run(JoinPlaces(reach, routes, self.slots), rows)

    def _pruned(self, reach: Reach, number: int, _: int | None, until_us: int | None) -> list[BucketResult]:
        query, many = self.query, len(self.query.sides)
        transfer = [[float(one != two) * (1 + one) for two in range(many)] for one in range(many)]
        planner = Planner(query, transfer, self.slots, self.state)
        next_us = reach.at_us
        if query.recall is None and until_us is not None:
            next_us = until_us - query.slack_us
        rows = used_rows(self._seen(number, reach.since_us()))
        new, earlier = (
            counts_of(rows.filter(own), query, self.slots, next_us)
            for own in (rows["is_new"], pc.invert(rows["is_new"]))
        )
        if not planner.knows_windows and number > 1:
            planner.remember(earlier, reach.at_us)
        blocks = planner.plan(new, reach.at_us)
        routes = [Route.of(block) for block in blocks if block.visits]
        self.state = planner.state()
        parts = [self._passing(rows, routes, side) for side in range(many)]
        return (
            self._run(JoinPlaces(reach, tuple(routes), self.slots), pa.concat_tables(parts)) if routes else []
        )

    def _passing(self, rows: pa.Table, routes: Sequence[Route], side: int) -> pa.Table:
        """Return the rows of a side of which some block has or meets the slot."""
        own, passes = rows.filter(pc.equal(rows["side"], side)), passing(routes, side, self.slots)
        return own if passes is None else own.filter(pa.array(passes(one_batch(own))))

    def _run(self, kernel: Any, rows: pa.Table) -> list[BucketResult]:
        """Return what places answer, whose results are kept."""
        answers: list[BucketResult] = []
        for place in range(PLACES):
            own = rows.filter(pc.equal(rows["bucket"], place)).combine_chunks()
            if own.num_rows:
                answers.append(kernel(place, own))
        self.found += [each.rows[RESULT] for each in answers]
        return answers
