"""Raw rows -> partial nodes of every level and grouping, in Arrow, one partition at a time.

Partial nodes need not be whole: readers combine them. So nothing is shuffled, each partition folds its own rows and
writes what it has. Each row enters at the finest level that still keeps its time and is carried up from there, so an
old row costs what a node costs, not what a second costs.

Source: DSMGA-Tree (OLAgg), section 4, over tables instead of a tree; late rows and groupings are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lakehouse.algorithms.rollup.levels import horizons
from lakehouse.catalog.stream import Stream
from lakehouse.spark.tables import rollup_schema

_PLACE = ["level", "start_us"]
_TIMES = (("first_us", "min"), ("last_us", "max"))
_DECIMALS = 38


def nodes_of(rows: DataFrame, stream: Stream, newest_us: int) -> DataFrame:
    """Return partial nodes of every level and grouping that rows add to, given the newest event time contained.

    Rows need ``event_us``, the grouping keys and the measures; every column of the rollup table but ``batch`` comes
    back. Rows older than every level are in no node. Cost: one pass, no shuffle; memory: the nodes that one
    partition touches.

    Raises:
        OverflowError: when an exact sum needs more than 38 digits.
    """
    return nodes_and_counts(rows, stream, newest_us).where("level > 0")


def nodes_and_counts(rows: DataFrame, stream: Stream, newest_us: int) -> DataFrame:
    """Return nodes, and how many rows entered at each level: as rows of the level's number below zero."""
    schema = StructType([field for field in rollup_schema(stream) if field.name != "batch"])
    needed = dict.fromkeys(["event_us", *stream.grouping_keys, *stream.measures])
    folder = NodeFolder(stream, newest_us, to_arrow_schema(schema))
    return rows.select(*needed).mapInArrow(folder.folding(), schema)


@dataclass(frozen=True)
class NodeFolder:
    """Folds rows into nodes: which levels keep which time, and how the columns combine."""

    stream: Stream
    newest_us: int
    schema: pa.Schema

    def folding(self) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Return the function that folds one partition's rows."""

        def fold(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            entered = self.entered(pa.Table.from_batches([b]) for b in batches if b.num_rows)
            if entered is not None:
                yield from self.grouped(self.raised(entered)).to_batches()
                yield from self.counts(entered).to_batches()

        return fold

    def entered(self, parts: Iterable[pa.Table]) -> pa.Table | None:
        """Return rows as nodes, with all keys, at the finest level that still keeps their time."""
        by = [*_PLACE, *self.stream.grouping_keys]
        held: list[pa.Table] = []
        waiting = least = 0
        for part in parts:
            held.append(self._lifted(part))
            waiting += held[-1].num_rows
            # Folding only when what waits has doubled keeps memory near the nodes, at an amortised cost of two.
            if waiting > 2 * least + 1_000_000:
                held = [self._combined(pa.concat_tables(held), by)]
                waiting = least = held[0].num_rows
        if not held:
            return None
        return held[0] if len(held) == 1 else self._combined(pa.concat_tables(held), by)

    def raised(self, entered: pa.Table) -> pa.Table:
        """Return nodes of every level: each one from the level below and from what entered there."""
        by = [*_PLACE, *self.stream.grouping_keys]
        levels: list[pa.Table] = []
        for number, level in enumerate(self.stream.levels, start=1):
            own = entered.filter(pc.equal(entered["level"], number))
            if levels and levels[-1].num_rows:
                below = levels[-1]
                below = _put(below, "level", pa.repeat(pa.scalar(number, pa.int32()), below.num_rows))
                below = _put(below, "start_us", _floor(below["start_us"], level.width_us))
                own = self._combined(pa.concat_tables([own, below]), by)
            levels.append(own)
        return pa.concat_tables(levels)

    def grouped(self, nodes: pa.Table) -> pa.Table:
        """Return nodes of every grouping: combined over the keys that it leaves out."""
        frames = []
        for number, grouping in enumerate(self.stream.groupings):
            cut = [key for key in self.stream.grouping_keys if key not in grouping]
            kept = self._combined(nodes.drop_columns(cut), [*_PLACE, *grouping]) if cut else nodes
            for key in cut:
                kept = kept.append_column(key, pa.nulls(kept.num_rows, self.schema.field(key).type))
            kept = kept.append_column("grouping", pa.repeat(pa.scalar(number, pa.int32()), kept.num_rows))
            frames.append(kept.select(self.schema.names).cast(self.schema))
        whole = pa.concat_tables(frames)
        self._check_sums(whole)
        return whole

    def counts(self, entered: pa.Table) -> pa.Table:
        """Return how many rows entered at each level, under the level's number below zero."""
        found = entered.group_by("level").aggregate([("rows", "sum")])
        columns = {name: pa.nulls(found.num_rows, self.schema.field(name).type) for name in self.schema.names}
        columns |= {"level": pc.negate(found["level"]), "rows": found["rows_sum"]}
        columns |= {"grouping": pa.repeat(pa.scalar(-1, pa.int32()), found.num_rows)}
        return pa.table(columns, self.schema)

    def _lifted(self, rows: pa.Table) -> pa.Table:
        """Rows as nodes: aggregates from values."""
        place = self._placed(rows["event_us"])
        keys = {key: rows[key] for key in self.stream.grouping_keys}
        columns = {**place, **keys, "event_us": rows["event_us"]}
        wanted: list[tuple[str, str, str]] = [("rows", "event_us", "count")]
        wanted += [(name, "event_us", combine) for name, combine in _TIMES]
        for name in self.stream.measures:
            value, total = rows[name], self.schema.field(f"{name}__sum").type
            columns[f"{name}__value"] = value
            columns[f"{name}__sum"] = value.cast(total)
            columns[f"{name}__seen"] = pc.if_else(pc.is_valid(value), rows["event_us"], None)
            wanted += [(f"{name}__n", f"{name}__value", "count"), (f"{name}__sum", f"{name}__sum", "sum")]
            wanted += [(f"{name}__{part}", f"{name}__value", part) for part in ("min", "max")]
            wanted += [(f"{name}__{part}", f"{name}__seen", combine) for part, combine in _TIMES]
        placed = pa.table(columns)
        return _folded(placed.filter(pc.is_valid(placed["level"])), [*place, *keys], wanted)

    def _placed(self, times: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
        level, start = pa.scalar(None, pa.int32()), pa.scalar(None, pa.int64())
        kept_from = horizons(self.stream.levels, self.newest_us)
        for number in range(len(kept_from), 0, -1):
            kept = pc.greater_equal(times, kept_from[number - 1])
            width = self.stream.levels[number - 1].width_us
            level = pc.if_else(kept, pa.scalar(number, pa.int32()), level)
            start = pc.if_else(kept, _floor(times, width), start)
        return {"level": level, "start_us": start}

    def _combined(self, nodes: pa.Table, by: list[str]) -> pa.Table:
        """Partial nodes of the same place and keys as one."""
        wanted = [("rows", "rows", "sum")] + [(name, name, combine) for name, combine in _TIMES]
        for name in self.stream.measures:
            parts = (("n", "sum"), ("sum", "sum"), ("min", "min"), ("max", "max"), *_TIMES)
            wanted += [(f"{name}__{part}", f"{name}__{part}", combine) for part, combine in parts]
        return _folded(nodes, by, wanted)

    def _check_sums(self, nodes: pa.Table) -> None:
        for name in self.stream.measures:
            kind = nodes.schema.field(f"{name}__sum").type
            if not pa.types.is_decimal(kind) or not nodes.num_rows:
                continue
            sizes = [pc.abs(nodes[f"{name}__{part}"].cast(pa.float64())) for part in ("min", "max")]
            most = pc.max(pc.multiply(pc.max_element_wise(*sizes), nodes[f"{name}__n"].cast(pa.float64())))
            if (most.as_py() or 0) >= 10.0 ** (_DECIMALS - kind.scale):
                raise OverflowError(
                    f"stream {self.stream.name}, measure {name}: a sum needs more than {_DECIMALS} digits with "
                    f"{kind.scale} decimals; declare fewer decimals, or bound the values"
                )


def _folded(rows: pa.Table, by: list[str], wanted: list[tuple[str, str, str]]) -> pa.Table:
    """Group; ``wanted`` names each new column, what it is made from and how."""
    groups = rows.group_by(by, use_threads=False)
    found = groups.aggregate([(source, combine) for _, source, combine in wanted])
    return found.select([*by, *(f"{source}_{combine}" for _, source, combine in wanted)]).rename_columns(
        [*by, *(name for name, _, _ in wanted)]
    )


def _floor(times: pa.ChunkedArray, width_us: int) -> pa.ChunkedArray:
    """Round down to a multiple of the width, also before the epoch."""
    quotient = pc.divide(times, width_us)
    rounded = pc.multiply(quotient, width_us)
    return pc.if_else(pc.greater(rounded, times), pc.subtract(rounded, width_us), rounded)


def _put(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, values)
