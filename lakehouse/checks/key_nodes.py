"""Nodes of one level and grouping whose keys meet in tasks, and what these return of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.checks.stream_rules import masked
from lakehouse.storage.tables.table_commits import write_share
from lakehouse.storage.tables.table_reads import pieces_of
from lakehouse.storage.tables.tables_place import place_at

# Keys or periods that a sentence names.
NAMED = 5
# No column of a stream has "__" in its name.
IS_KEPT = "key__is_kept"
BUCKET = pa.field("key__bucket", pa.int32())
# Of each bucket some examples, and in its first row how many keys there are, how many are broken, and the part that it
# has written of what is kept.
EXAMPLES = pa.schema(
    {
        **{"name": pa.string(), "us": pa.int64(), "falls": pa.int64(), "keys": pa.int64()},
        **{"broken": pa.int64(), "part": pa.string(), "part_rows": pa.int64()},
    }
)


@dataclass(frozen=True)
class Nodes:
    """Nodes of one level and grouping with a row at or after a time; ``is_masked``: of names the form is shown."""

    level: int
    grouping: int
    keys: tuple[str, ...]
    since_us: int
    is_masked: bool

    def read(self, path: str, table: pa.Schema, columns: pa.Schema) -> Iterator[pa.Table]:
        """Yield these among the nodes of a file; where last times are asked, of each key the last."""
        own = (pc.field("level") == self.level) & (pc.field("grouping") == self.grouping)
        own &= pc.field("last_us") >= self.since_us
        names = [name for name in columns.names if name in table.names]
        wanted = pa.schema(
            [table.field(name) for name in dict.fromkeys([*names, "level", "grouping", "last_us"])]
        )
        for piece in pieces_of(path, wanted):
            nodes = piece.filter(own).select(names)
            if names == [*self.keys, "last_us"]:
                nodes = nodes.group_by(list(self.keys)).aggregate([("last_us", "max")]).rename_columns(names)
            for field in columns:
                if field.name not in names:
                    nodes = nodes.append_column(field, pa.nulls(nodes.num_rows, field.type))
            yield nodes.select(columns.names)

    def named(self, keys: pa.Table, *values: pa.Array, broken: int, of: int) -> pa.Table:
        """Return keys as examples, each with its values; the first row has how many are broken, and of how many."""
        names = [
            ", ".join(f"{key} {masked(value) if self.is_masked else value}" for key, value in row.items())
            for row in keys.select(self.keys).to_pylist()
        ]
        counts = pa.table([[None], [None], [None], [of], [broken], [None], [None]], schema=EXAMPLES)
        none = [pa.nulls(len(names), field.type) for field in list(EXAMPLES)[3:]]
        return pa.concat_tables(
            [counts, pa.table([pa.array(names, pa.string()), *values, *none], schema=EXAMPLES)]
        )

    @staticmethod
    def keeping(found: pa.Table, rows: pa.Table, folder: str | None) -> pa.Table:
        """Return examples, with the part that rows to be kept are written to, if there is a folder and any row."""
        if folder is None or not rows.num_rows:
            return found
        path = place_at(folder) / f"{uuid.uuid4().hex}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_share([rows], path, rows.schema)
        part = pa.table(
            [[None], [None], [None], [None], [None], [path.name], [rows.num_rows]], schema=EXAMPLES
        )
        return pa.concat_tables([found, part])
