"""Frames of deviations per batch and per repair, from the tables of every registered query.

Only finished batches and repairs are judged. Which rows take part in a condition that calls a predicate is read from
the query's own scans: the predicate may have been corrected since, so it is never called again. Cost: two columns of
the results, and the log, are read once; of raw, one count of the rows that no earlier check passed. Guarantee: this
module returns batch numbers and counts, never a row. Tasks read the files, so counts alone reach the driver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.engine import Engine, Item
from lakehouse.engine.parts import file_items
from lakehouse.engine.rewriting import Gone
from lakehouse.queries.kind import Kind, Query, kind_of
from lakehouse.queries.kind import scanned as scanned_sides
from lakehouse.queries.runtime.batch_manifest import BatchManifest, Span, require_manifests
from lakehouse.queries.runtime.batch_metrics import BatchMetrics, read_batch_metrics
from lakehouse.queries.runtime.tasks import arrow_sql
from lakehouse.spark.deviations import Frame
from lakehouse.storage.corrections import read_corrections
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import Between, files_between, files_near, read_columns
from lakehouse.storage.tables.table_reads import named_columns, pieces_of

if TYPE_CHECKING:
    from lakehouse.queries.runtime.tasks.reading import FileRows

# Metrics that are checked for every kind.
COUNTS = ("rows", "missed", "refused")
Row = dict[str, Any]
# For each batch of a query, the number of rows that it had to read, least and most.
Taken = Mapping[int, tuple[int, int]]
_PASSED = pa.schema({"batch": pa.int64(), "rows": pa.int64()})
_COUNTS = pa.schema(
    [
        ("table", pa.int32()),
        ("value", pa.string()),
        *((name, pa.int64()) for name in ("batch", "start_us", "count_all")),
    ]
)
# Of a row of operators: the side, None of the kernel, and the operator, -1 of the scan as a whole.
_Operator = tuple[int | None, int]


@dataclass(frozen=True)
class QueryTables:
    """A query's tables at the time when they were opened.

    ``found`` counts its pairs or answers by found and batch, ``log`` its logged rows by what and batch.
    """

    layout: Home
    query: Query
    metrics: BatchMetrics
    found: pa.Table
    log: pa.Table
    engine: Engine
    since: int
    published_us: int | None

    @classmethod
    def opened(
        cls, engine: Engine, layout: Home, query: Any, since: int, published_us: int | None
    ) -> Self | None:
        """Return the contents of a query's tables, None if no batch is finished. Cost: one Spark job.

        ``since``: the last batch that passed a check. ``published_us``: how far back results are published, None for
        all.
        """
        kind = kind_of(query)
        names = dict.fromkeys((*COUNTS, *kind.counted, "time_us", *kind.newest))
        metrics = read_batch_metrics(layout, query.name, ("batch", kind.partition, *names))
        if not metrics.finished:
            return None
        results = Counting(getattr(layout, kind.results)(query.name), found_column(kind), cls.step_us(query))
        log = Counting(layout.missed_rows(query.name), "what")
        rows, logged = counted(engine, (results, log), f"counts of {query.name}")
        return cls(layout, query, metrics, rows, logged, engine, since, published_us)

    @staticmethod
    def step_us(query: Any) -> int | None:
        """Return the step of event time by which results are counted too, None for none."""
        return None

    @property
    def through(self) -> int:
        """The query's last finished batch."""
        return self.metrics.finished

    @property
    def gone(self) -> int:
        """Logged rows whose partners may lie where raw rows are deleted."""
        return self.metrics.total_repaired("gone")

    def report_misses(self) -> dict[str, Any]:
        """Note what a check has reported of the past, which the next check does not report again; return figures."""
        return {}

    def own_frames(self) -> Sequence[Frame]:
        """Return the frames that only a query of this kind has."""
        return ()


def frames_of(tables: QueryTables, taken: Taken) -> list[Frame]:
    """Return the frames of batches, of repairs, and of the kind; ``taken``: the rows that each batch had to read."""
    frames = [
        Frame("batches", ("batch",), list(_batch_rows(tables, taken))),
        Frame("repairs", ("repair",), list(_repair_rows(tables))),
        *tables.own_frames(),
    ]
    return [frame for frame in frames if frame.rows]


def rows_to_take(tables: QueryTables, since: int) -> Taken:
    """Return for each batch after ``since`` how many rows it had to read, least and most.

    Rows that were read and have left raw since are not counted.
    """
    new = manifests_since(tables, since)
    sides = [_side_to_take(tables, side, new) for side in range(len(tables.query.sides))]
    taken = {plan.number: [side[plan.number] for side in sides] for plan in new}
    return {
        batch: (sum(low for low, _ in own), sum(high for _, high in own) if tables.query.is_once else 2**62)
        for batch, own in taken.items()
    }


def manifests_since(tables: QueryTables, since: int) -> list[BatchManifest]:
    """Return the finished batches after ``since``."""
    folder = tables.layout.batch_manifests(tables.query.name)
    return require_manifests(folder, "batch", max(since, 0), tables.through)


def rows_in_raw(tables: QueryTables, side: int, plans: Sequence[BatchManifest]) -> Taken:
    """Return how many raw rows of a side each batch had to read, or to call predicates for, least and most."""
    counts = _raw_counts(tables, side, plans) if plans else {}
    return {plan.number: _inside(plan.spans[side], counts) for plan in plans}


def _batch_rows(tables: QueryTables, taken: Taken) -> Iterator[Row]:
    kind = kind_of(tables.query)
    online = counts_of(tables.found, "found", "online")
    withdrawn = tables.metrics.withdrawn("online")
    missed, refused = (counts_of(tables.log, "what", what) for what in ("missed", "refused"))
    for batch, (least, most) in sorted(taken.items()):
        rows = [row for row in tables.metrics.rows if row["batch"] == batch]
        sums = {name: sum(row.get(name) or 0 for row in rows) for name in (*COUNTS, *kind.counted)}
        log_gap = abs(sums["missed"] - missed[batch]) + abs(sums["refused"] - refused[batch])
        yield {
            "batch": batch,
            "rows_missing": max(least - sums["rows"], 0),
            "rows_added": max(sums["rows"] - most, 0),
            "repeats": len(rows) - len({row[kind.partition] for row in rows}),
            "found_gap": _gap(sum(sums[name] for name in kind.counted), online[batch], withdrawn[batch]),
            "log_gap": log_gap,
        }


def _repair_rows(tables: QueryTables) -> Iterator[Row]:
    found, withdrawn = counts_of(tables.found, "found", "repair"), tables.metrics.withdrawn("repair")
    missed = counts_of(tables.log, "what", "missed")
    times = Counter(row["repair"] for row in tables.metrics.repairs)
    after = 0
    for row in tables.metrics.repairs:
        number, through = row["repair"], row["through"]
        logged = sum(count for batch, count in missed.items() if after < batch <= through)
        yield {
            "repair": number,
            "found_gap": _gap(row["found"], found[number], withdrawn[number]),
            "looked_gap": abs(row["looked_at"] - logged),
            "repeats": times[number] - 1,
        }
        after = through


def _gap(counted: int, stored: int, withdrawn: int) -> int:
    """Return how far the stored results of a batch or repair are from those that it counted, less withdrawn ones.

    One that was killed before and finished after a retraction does not count what was withdrawn.
    """
    return max(stored - counted, counted - withdrawn - stored, 0)


def _side_to_take(tables: QueryTables, side: int, plans: Sequence[BatchManifest]) -> Taken:
    if not tables.query.sides[side].conjuncts:
        return rows_in_raw(tables, side, plans)
    names = ("batch", "side", "operator", "selected")
    selected = Counter[int]()
    for batch, of_side, operator, count in read_columns(tables.layout.operators(tables.query.name), names):
        if of_side == side and operator < 0:
            selected[batch] += count
    return {plan.number: (selected[plan.number], selected[plan.number]) for plan in plans}


def _inside(span: Span, counts: Mapping[int, tuple[int, int]]) -> tuple[int, int]:
    inside = [both for batch, both in counts.items() if span[0] < batch <= span[1]]
    return sum(kept for kept, _ in inside), sum(kept + left for kept, left in inside)


def _raw_counts(tables: QueryTables, side: int, plans: Sequence[BatchManifest]) -> dict[int, tuple[int, int]]:
    """Return per ingest batch how many rows of raw take part, and how many rows have left raw."""
    stream, where = tables.query.sides[side].stream, tables.query.sides[side].where
    after, through = plans[0].spans[side][0], plans[-1].spans[side][1]
    counts = _rows_by_batch(tables, stream, after, through, where)
    left = Counter[int]()
    for correction in read_corrections(tables.layout, stream):
        left.update(correction.batches)
    return {batch: (counts[batch], left[batch]) for batch in {*counts, *left} if after < batch <= through}


def _rows_by_batch(
    tables: QueryTables, stream: str, after: int, through: int, where: str | None
) -> Counter[int]:
    """Return how many rows a condition passes by batch, at least of those after one and through another."""
    # It comes with compiled loops, which a check of a query that reads no raw does not wait for.
    from lakehouse.queries.runtime.tasks.reading import ITEMS, FileRows, items_of, raw_columns

    names = {"batch", *(arrow_sql.columns_read([where]) if where else ())}
    rows = FileRows(raw_columns(tables.layout, stream, names), where)
    files = files_near(tables.layout.raw(stream), "batch", [(after + 1, through)])
    items = items_of([(0, *each) for each in files]) if files else ITEMS.empty_table()
    step = f"rows of {stream} for {tables.query.name}, batches {after + 1} to {through}"
    counts = Counter[int]()
    passed = tables.engine.map(items, partial(_passed, rows=rows), _PASSED, step)
    for batch, count in zip(*(passed[name].to_pylist() for name in _PASSED.names), strict=True):
        counts[batch] += count
    return counts


def _passed(item: Item, *, rows: FileRows) -> Iterator[pa.Table]:
    for batch in rows.batches(item["paths"]):
        counts = pc.value_counts(batch["batch"])
        yield pa.table([counts.field("values"), counts.field("counts")], schema=_PASSED)


@dataclass(frozen=True)
class Counting:
    """Rows to count by batch, and by the values of a text column; where there is none, all were found online.

    ``step_us``: count them by steps of a ``time`` too. ``only``: those of them that count, with times ``between``.
    """

    table: Location
    column: str | None
    step_us: int | None = None
    only: Gone | None = None
    between: Between | None = None
    time: str = "event_us"

    @property
    def by(self) -> tuple[str, ...]:
        """The columns of the counts."""
        return (self.column or "found", "batch", *(("start_us",) if self.step_us else ()))

    def columns(self) -> pa.Schema:
        """Return the columns that are read."""
        read = {"batch", *filter(None, [self.column, self.time if self.step_us else None])}
        read |= {*self.only.columns} if self.only else set()
        return named_columns(self.table, read)

    def of(self, rows: pa.Table) -> pa.Table:
        """Return the counts of some rows."""
        rows = rows.filter(self.only(rows)) if self.only else rows
        found = rows[self.column] if self.column else pa.repeat(pa.scalar("online"), rows.num_rows)
        times = pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows)
        if self.step_us:
            times = pa.array(rows[self.time].to_numpy() // self.step_us * self.step_us)
        ones = pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)
        return _summed(pa.table([found, rows["batch"], times, ones], names=_COUNTS.names[1:]))


def found_column(kind: Kind) -> str | None:
    """Return the column that says what has found a result; None where nothing is repaired: all was found online."""
    return "found" if kind.has("repair") else None


def counted(engine: Engine, countings: Sequence[Counting], step: str) -> Iterator[pa.Table]:
    """Yield the counts of each table, in the column ``count_all``, by its ``by``. Cost: one Spark job over all files.

    The driver gets a row for each of these values in a file: batches that wrote it, and steps of their times.
    """
    files = [
        (number, path)
        for number, counting in enumerate(countings)
        for path in files_between(counting.table, counting.between)
    ]
    numbers = [number for number, _ in files]
    items = file_items(path for _, path in files).append_column("table", pa.array(numbers, pa.int32()))
    columns = {number: countings[number].columns() for number in {*numbers}}
    kernel = partial(_counted, countings=tuple(countings), columns=columns)
    counts = engine.map(items, kernel, _COUNTS, step)
    for number, counting in enumerate(countings):
        own = _summed(counts.filter(pc.equal(counts["table"], number)).drop_columns("table"))
        names = dict(zip(("value", "batch", "start_us"), counting.by, strict=False))
        yield own.select([*names, "count_all"]).rename_columns([*counting.by, "count_all"])


def _counted(
    item: Item, *, countings: Sequence[Counting], columns: Mapping[int, pa.Schema]
) -> Iterator[pa.Table]:
    number = item["table"]
    pieces = [countings[number].of(rows) for rows in pieces_of(item["path"], columns[number])]
    counts = _summed(pa.concat_tables(pieces)) if pieces else _COUNTS.empty_table().drop_columns("table")
    of_table = pa.repeat(pa.scalar(number, pa.int32()), counts.num_rows)
    yield counts.add_column(0, "table", of_table).select(_COUNTS.names).cast(_COUNTS)


def _summed(counts: pa.Table) -> pa.Table:
    """Return counts with those of the same values added up."""
    total = counts.group_by(["value", "batch", "start_us"]).aggregate([("count_all", "sum")])
    return total.rename_columns(["value", "batch", "start_us", "count_all"])


def counts_of(counts: pa.Table, column: str, value: str) -> Counter[int]:
    """Return the counts of each batch, for rows with this value."""
    rows = counts.filter(pc.equal(counts[column], value)).select(["batch", "count_all"])
    found = Counter[int]()
    for batch, count in zip(rows["batch"].to_pylist(), rows["count_all"].to_pylist(), strict=True):
        found[batch] += count
    return found


def measure_scans(tables: QueryTables, since: int) -> list[Frame]:
    """Return the frame of the batches after ``since``, none of a query without scans of its sides.

    A scan looks at every raw row of its batch, whatever its conditions say: that can be counted again, what a predicate
    said cannot. Cost: one count of the raw rows that no earlier check passed, for each side on which one is called.
    """
    sides = scanned_sides(tables.query.sides)
    plans = manifests_since(tables, since)
    if not sides or not plans:
        return []
    to_see = {side: rows_in_raw(tables, side, plans) for side in sides}
    return [Frame("scans", ("batch",), list(_scan_rows(tables, [plan.number for plan in plans], to_see)))]


def _scan_rows(tables: QueryTables, batches: Sequence[int], to_see: Mapping[int, Taken]) -> Iterator[Row]:
    names = ("batch", "side", "operator", "rows")
    noted = read_columns(tables.layout.operators(tables.query.name), names)
    wanted = Counter(_wanted_operators(tables, to_see))
    for batch in batches:
        own = [row[1:] for row in noted if row[0] == batch]
        found = Counter((side, operator) for side, operator, _ in own)
        seen = {each: sum(rows for side, place, rows in own if side == each and place < 0) for each in to_see}
        bounds = {side: taken[batch] for side, taken in to_see.items()}
        yield {
            "batch": batch,
            "rows_missing": sum(max(least - seen[side], 0) for side, (least, _) in bounds.items()),
            "rows_added": sum(max(seen[side] - most, 0) for side, (_, most) in bounds.items()),
            "operators_gap": (wanted - found).total() + (found - wanted).total(),
        }


def _wanted_operators(tables: QueryTables, sides: Iterable[int]) -> Iterator[_Operator]:
    """Yield the rows that each batch has."""
    for side in sides:
        yield from ((side, operator) for operator in range(-1, len(tables.query.sides[side].conjuncts)))
    yield None, 0
