"""Tables of all kinds of query: columns that the query shows, creation, old states, and missed rows in the log."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.columns import sql_type
from lakehouse.config.stream import Stream
from lakehouse.engine import Engine, Item
from lakehouse.engine.parts import TableSink, file_items
from lakehouse.engine.rewriting import remove_rows
from lakehouse.queries.kind import Output, Query, Side, kind_of
from lakehouse.queries.runtime.batch_manifest import finished, read_manifest
from lakehouse.spark import tables
from lakehouse.spark.noted_rows import PLACE
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import files_between
from lakehouse.storage.tables.table_reads import pieces_of

_TIMES = ("event_us", "arrival_us")
_MARKERS = pa.schema([("part", pa.string()), ("leave_us", pa.int64())])
# Of states that are in memory at the same time: each may be a segment of many rows.
_STATE_ROWS = 1024

Constants = Mapping[str, str | int | None]


class Shown(Protocol):
    """A query that shows columns of its streams' rows."""

    @property
    def sides(self) -> tuple[Side, ...]:
        """Its streams."""

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The columns that it shows."""


@dataclass(frozen=True)
class NewTable:
    """A table of a query that may not exist: its path, its name in sql/tables, and its additional columns."""

    path: Location
    statement: str
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Written:
    """A table that tasks write: its columns by their names there and in the rows, and constant columns."""

    sink: TableSink
    columns: Mapping[str, str]
    constants: Constants = field(default_factory=dict)

    def rows(self, found: pa.Table) -> pa.Table:
        """Return rows with the columns of the table."""
        own = found.select(list(self.columns.values())).rename_columns(list(self.columns))
        return with_constants(own, self.constants)


def with_constants(rows: pa.Table, constants: Constants) -> pa.Table:
    """Return rows with additional constant columns, whose types come from the table."""
    for name, value in constants.items():
        filled = pa.nulls(len(rows)) if value is None else pa.repeat(value, len(rows))
        rows = rows.append_column(name, filled)
    return rows


def create_tables(layout: Home, query: Query, streams: Mapping[str, Stream]) -> None:
    """Create a query's tables if they do not exist, and last the one that counts its batches."""
    name, kind = query.name, kind_of(query)
    if tables.exists(layout.queries(name)):
        return
    own = [*kind.part("tables", "own_tables", row_tables)(layout, query, streams)]
    if kind.has("repair"):
        own += [NewTable(getattr(layout, each)(name), each) for each in ("missed_rows", "states", "repairs")]
    tables.side_by_side(*(partial(tables.create, new.path, new.statement, **new.columns) for new in own))
    tables.create(layout.queries(name), kind.batches)


def row_tables(layout: Home, query: Any, streams: Mapping[str, Stream]) -> list[NewTable]:
    """Return the table of the rows that a query finds."""
    results = kind_of(query).results
    columns = {"columns": as_columns(output_types(query, streams))}
    return [NewTable(getattr(layout, results)(query.name), results, columns)]


def column_type(streams: Mapping[str, Stream], side: Side, column: str) -> str:
    """Return the stored type of a column of a side's raw rows."""
    return "bigint" if column in _TIMES else sql_type(streams[side.stream].all_columns[column])


def output_types(query: Shown, streams: Mapping[str, Stream]) -> dict[str, str]:
    """Return the query's own columns with their stored types."""
    return {each.name: column_type(streams, query.sides[each.side], each.column) for each in query.outputs}


# A short name of a row for people, made of its place in the sources.
ROW_HASH = f"xxhash64({', '.join(PLACE)})"


def hash_of(columns: Sequence[str]) -> str:
    """Return SQL for a number that is equal where these columns are, null where one of them is: null equals nothing."""
    names = quoted(columns)
    complete = " AND ".join(f"{name} IS NOT NULL" for name in names)
    return f"IF({complete}, xxhash64({', '.join(names)}), NULL)"


def quoted(columns: Iterable[str]) -> list[str]:
    """Return names of columns as SQL has them."""
    return [f"`{name}`" for name in columns]


def bucket_of(number: str | Sequence[str], buckets: int) -> str:
    """Return SQL for the bucket of a row: by a number, or by a hash of values; one for all rows if there are none."""
    if not isinstance(number, str):
        number = f"xxhash64({', '.join(number)})" if number else "0L"
    return f"CAST(pmod({number}, {buckets}) AS int) AS bucket"


def output_columns(query: Shown, streams: Mapping[str, Stream], side: int) -> Iterator[str]:
    """Yield the columns that the query shows, as SQL for rows of a side; those of other sides are null."""
    types = output_types(query, streams)
    for output in query.outputs:
        value = f"`{output.column}`" if output.side == side else "NULL"
        yield f"CAST({value} AS {types[output.name]}) AS `o_{output.name}`"


def as_columns(types: Mapping[str, str], prefix: str = "") -> str:
    """Return columns with types as they continue a list in CREATE TABLE."""
    return "".join(f",\n    `{prefix}{name}` {kind}" for name, kind in types.items())


def missed_in(path: str, columns: pa.Schema, batches: tuple[int, int]) -> Iterator[pa.Table]:
    """Yield the missed rows in a file of the log, of batches after one and through another."""
    for rows in pieces_of(path, columns):
        is_new = pc.and_(pc.greater(rows["batch"], batches[0]), pc.less_equal(rows["batch"], batches[1]))
        yield rows.filter(pc.and_(is_new, pc.equal(rows["what"], "missed")))


def drop_old_states(engine: Engine, layout: Home, query: str) -> None:
    """Delete what nobody reads any more: replaced counters, segments that have ended, and those of old scales.

    Cost: two Spark jobs over the table of states, none where no batch was finished since the last time. The driver gets
    a time for each part of a state.
    """
    table, done = layout.states(query), finished(layout, query)
    writer = f"maintain-{query}", done
    if not tables.exists(table) or tables.is_appended(table, *writer):
        return
    manifest = read_manifest(layout.batch_manifests(query), "batch", done)
    since = manifest.scales[-1].since if manifest and manifest.scales else 0
    last = file_items(files_between(table, ("batch", done, done)))
    step = f"states of {query}, batch {done}"
    marked = engine.map(last, partial(_markers, batch=done), _MARKERS, f"{step}: what is in use")
    least = marked.group_by("part").aggregate([("leave_us", "min")])
    alive_from = zip(least["part"].to_pylist(), least["leave_us_min"].to_pylist(), strict=True)
    gone = OldStates(done, since, tuple(alive_from))
    remove_rows(engine, layout, table, gone, None, f"{step}: remove old ones", writer)


def _markers(item: Item, *, batch: int) -> Iterator[pa.Table]:
    """Yield from when on the segments of each part are in use, as a file says it of a batch."""
    columns = pa.schema([*_MARKERS, ("batch", pa.int64()), ("content", pa.binary())])
    for rows in pieces_of(item["path"], columns, _STATE_ROWS):
        is_marker = pc.and_(pc.equal(rows["batch"], batch), pc.is_null(rows["content"]))
        found = rows.filter(is_marker).group_by("part").aggregate([("leave_us", "min")])
        yield found.rename_columns({"leave_us_min": "leave_us"}).select(_MARKERS.names)


@dataclass(frozen=True)
class OldStates:
    """The rows of states that nobody reads after batch ``done``.

    ``since``: the first batch with as many buckets as now. ``alive_from``: by part, the least ``leave_us`` in use.
    """

    done: int
    since: int
    alive_from: tuple[tuple[str, int], ...]
    columns: ClassVar[tuple[str, ...]] = ("batch", "part", "leave_us", "content")

    def __call__(self, rows: pa.Table) -> pa.Array:
        """Return for each row whether it is one of them."""
        is_counter, is_marker = pc.is_null(rows["leave_us"]), pc.is_null(rows["content"])
        gone = pc.and_(pc.less(rows["batch"], self.done), pc.or_(is_counter, is_marker))
        gone = pc.or_(gone, pc.less(rows["batch"], self.since))
        for part, from_us in self.alive_from:
            ended = pc.and_kleene(pc.equal(rows["part"], part), pc.less(rows["leave_us"], from_us))
            gone = pc.or_kleene(gone, pc.and_kleene(ended, pc.invert(is_marker)))
        return gone
