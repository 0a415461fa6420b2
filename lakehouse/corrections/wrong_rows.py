"""Rows of raw that are wrong, as they are asked for, as they are recorded, and as a kernel finds them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.columns import sql_type
from lakehouse.config.problems import Permanent
from lakehouse.engine.parts import file_items
from lakehouse.spark.ddl import schema_of
from lakehouse.storage.tables.open_tables import opened
from lakehouse.storage.tables.table_commits import arrow_schema
from lakehouse.storage.tables.table_log import files_between
from lakehouse.storage.tables.table_reads import pieces_of

if TYPE_CHECKING:
    from lakehouse.config.stream import Stream
    from lakehouse.engine import Engine, Item

_LEAST, _MOST = -(2**63), 2**63 - 1
_FIGURES = pa.schema({"batch": pa.int64(), "rows": pa.int64(), "low_us": pa.int64(), "high_us": pa.int64()})


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

        Raises:
            RetractRefused: if a column is not the stream's, or cannot have the value.
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


def count_wrong(engine: Engine, raw: Path, wrong: WrongRows, step: str) -> list[dict[str, int]]:
    """Return how many such rows each batch has, and the ends of their times: ``batch, rows, low_us, high_us``.

    Cost: one Spark job over the files that may have such a row.
    """
    with opened(raw) as known:
        columns = pa.schema([each for each in arrow_schema(known) if each.name in wrong.columns])
    files = files_between(raw, ("event_us", wrong.from_us, wrong.to_us))
    counted = engine.map(file_items(files), partial(_counted, wrong=wrong, columns=columns), _FIGURES, step)
    combine = [("rows", "sum"), ("low_us", "min"), ("high_us", "max")]
    found = counted.group_by("batch").aggregate(combine).rename_columns(_FIGURES.names)
    rows: list[dict[str, int]] = found.to_pylist()
    return rows


def _counted(item: Item, wrong: WrongRows, columns: pa.Schema) -> Iterator[pa.Table]:
    for rows in pieces_of(item["path"], columns):
        own = rows.filter(wrong(rows))
        combine = [("event_us", "count"), ("event_us", "min"), ("event_us", "max")]
        yield own.group_by("batch").aggregate(combine).rename_columns(_FIGURES.names)
