"""Rows of raw that are wrong, as they are asked for, as they are recorded, and as a kernel finds them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.columns import sql_type
from lakehouse.config.problems import Permanent
from lakehouse.config.stream import Stream
from lakehouse.engine import Engine, Item
from lakehouse.engine.parts import ENTRIES, TableSink, commit_entries, file_items, sink_of
from lakehouse.spark import tables
from lakehouse.spark.ddl import schema_of
from lakehouse.spark.noted_rows import PLACE, NotedRows
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.open_tables import opened
from lakehouse.storage.tables.table_commits import arrow_schema
from lakehouse.storage.tables.table_log import Between, files_between
from lakehouse.storage.tables.table_reads import pieces_of

_LEAST, _MOST = -(2**63), 2**63 - 1
_GROUP = ["batch", "span"]
_FIGURES = pa.schema(dict.fromkeys((*_GROUP, "rows", "low_us", "high_us"), pa.int64()))


class RetractRefused(Permanent, RuntimeError):
    """The rows cannot be taken back out as asked."""


@dataclass(frozen=True)
class Wrong:
    """Wrong rows: all that is given must hold; ``where`` gives values of stored columns as text."""

    file: str | None = None
    where: Mapping[str, str] = field(default_factory=dict)
    from_us: int | None = None
    to_us: int | None = None

    def recorded(self) -> str:
        """Return the text that ``read`` reads."""
        given = {name: value for name, value in asdict(self).items() if value not in (None, {})}
        return json.dumps(given, sort_keys=True)

    @staticmethod
    def read(text: str) -> Wrong:
        """Return what a correction recorded."""
        return Wrong(**json.loads(text))

    def __str__(self) -> str:
        """Return what is given, for people."""
        parts = [f"source_file = {self.file}"] if self.file is not None else []
        parts += [f"{name} = {value}" for name, value in self.where.items()]
        parts += [f"event_us >= {self.from_us}"] if self.from_us is not None else []
        parts += [f"event_us < {self.to_us}"] if self.to_us is not None else []
        return " AND ".join(parts)

    def rows_of(self, stream: Stream, through: int) -> WrongRows:
        """Return what finds these rows among those of batches up to ``through``.

        Raises RetractRefused if a column is not the stream's, or cannot have the value.
        """
        values = {name: _typed(stream, name, text) for name, text in self.where.items()}
        low, high = (_LEAST if self.from_us is None else self.from_us), self.to_us
        return WrongRows(self.file, values, low, _MOST if high is None else high, through)


def _typed(stream: Stream, name: str, text: str) -> pa.Scalar:
    if name not in stream.all_columns:
        known = ", ".join(stream.all_columns)
        raise RetractRefused(f"stream {stream.name}: no column {name!r}; there are {known}")
    column = stream.all_columns[name]
    kind = schema_of(f"value {sql_type(column)}").field(0).type
    try:
        return pa.array([text]).cast(kind)[0]
    except pa.ArrowInvalid:
        raise RetractRefused(
            f"stream {stream.name}, column {name}: found {text!r}; expected a value of its type, {column.type}"
        ) from None


@dataclass(frozen=True)
class WrongRows:
    """Finds wrong rows in tables of raw rows."""

    file: str | None
    values: Mapping[str, pa.Scalar]
    from_us: int
    to_us: int
    through: int

    @property
    def columns(self) -> Sequence[str]:
        """The columns that it looks at."""
        return ["event_us", "batch", *([] if self.file is None else ["source_file"]), *self.values]

    @property
    def between(self) -> Between:
        """The files that may have such rows, by a column."""
        return ("event_us", self.from_us, self.to_us)

    def __call__(self, rows: pa.Table) -> pa.Array:
        """Return for each row whether it is one of them."""
        wanted: dict[str, Any] = {} if self.file is None else {"source_file": pa.scalar(self.file)}
        found = pc.and_(
            pc.greater_equal(rows["event_us"], self.from_us), pc.less(rows["event_us"], self.to_us)
        )
        found = pc.and_(found, pc.less_equal(rows["batch"], self.through))
        for name, value in (wanted | dict(self.values)).items():
            # A column that no row of raw has yet has no such value.
            is_equal = pc.equal(rows[name], value) if name in rows.column_names else pa.scalar(False)
            found = pc.and_(found, pc.fill_null(is_equal, False))
        return found


@dataclass(frozen=True)
class RevisedRows:
    """Finds the rows that some batches have revised, in the table that keeps them."""

    first: int
    last: int
    columns: tuple[str, ...] = ("event_us", "batch", "revised_in")

    @property
    def between(self) -> Between:
        """The files that may have such rows, by a column."""
        return ("revised_in", self.first, self.last)

    def __call__(self, rows: pa.Table) -> pa.Array:
        """Return for each row whether it is one of them."""
        numbers = rows["revised_in"]
        return pc.and_(pc.greater_equal(numbers, self.first), pc.less_equal(numbers, self.last))


@dataclass(frozen=True)
class NotedInRaw:
    """Finds rows of raw that a correction has noted."""

    noted: NotedRows
    columns: tuple[str, ...] = ("event_us", *PLACE)

    def __call__(self, rows: pa.Table) -> pa.Array:
        """Return for each row whether it is one of them."""
        return pa.array(self.noted.are(rows.select(PLACE)))


def count_wrong(
    engine: Engine, table: Location, wrong: WrongRows | RevisedRows, step: str, width_us: int = 2**62
) -> list[dict[str, int]]:
    """Return how many such rows each batch has in each span of a width, and the ends of their times.

    Cost: one Spark job over the files that may have such a row.
    """
    with opened(table) as known:
        columns = pa.schema([each for each in arrow_schema(known) if each.name in wrong.columns])
    kernel = partial(_counted, wrong=wrong, columns=columns, width_us=width_us)
    counted = engine.map(file_items(files_between(table, wrong.between)), kernel, _FIGURES, step)
    combine = [("rows", "sum"), ("low_us", "min"), ("high_us", "max")]
    found = counted.group_by(_GROUP).aggregate(combine).rename_columns(_FIGURES.names)
    rows: list[dict[str, int]] = found.to_pylist()
    return rows


def note_wrong(
    engine: Engine, layout: Home, stream: str, number: int, wrong: WrongRows | RevisedRows
) -> None:
    """Append the places of the rows that a correction of this number is about to take out of raw; once.

    Cost: one Spark job over the files that may have such a row.
    """
    rows = layout.revised(stream) if isinstance(wrong, RevisedRows) else layout.raw(stream)
    table, writer = layout.retracted(stream), (f"retract-{stream}", number)
    tables.create(table, "retracted")
    if tables.is_appended(table, *writer):
        return
    with opened(rows) as known:
        columns = pa.schema([each for each in arrow_schema(known) if each.name in {*wrong.columns, *PLACE}])
    kernel = partial(_noted, wrong=wrong, columns=columns, number=number, sink=sink_of(table))
    items = file_items(files_between(rows, wrong.between))
    commit_entries(table, engine.map(items, kernel, ENTRIES, f"note wrong rows of {stream}"), writer)


def _noted(
    item: Item, wrong: WrongRows | RevisedRows, columns: pa.Schema, number: int, sink: TableSink
) -> Iterator[pa.Table]:
    yield sink.write(_numbered(rows.filter(wrong(rows)), number) for rows in pieces_of(item["path"], columns))


def _numbered(rows: pa.Table, number: int) -> pa.Table:
    correction = pa.repeat(pa.scalar(number, pa.int64()), rows.num_rows)
    return rows.select(["event_us", *PLACE]).append_column("correction", correction)


def _counted(
    item: Item, wrong: WrongRows | RevisedRows, columns: pa.Schema, width_us: int
) -> Iterator[pa.Table]:
    for rows in pieces_of(item["path"], columns):
        own = rows.filter(wrong(rows))
        own = own.append_column("span", pa.array(own["event_us"].to_numpy() // width_us))
        combine = [("event_us", "count"), ("event_us", "min"), ("event_us", "max")]
        yield own.group_by(_GROUP).aggregate(combine).rename_columns(_FIGURES.names)
