"""Raw rows -> partial nodes of every level and grouping, in Arrow, one partition at a time.

Partial nodes need not be whole: readers combine them. So nothing is shuffled, each partition folds its own rows and
writes what it has. Each row enters at the finest level that still keeps its time and is carried up from there, so an
old row costs what a node costs, not what a second costs.

Nodes that hold counters depend on the order of their rows: those are brought together per meter and put in order
of time first, which costs a shuffle. Partial nodes of a later batch may still overlap them.

Source: DSMGA-Tree (OLAgg), section 4, over tables instead of a tree; late rows, groupings and counters are ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.rollup.levels import horizons
from lakehouse.algorithms.rollup.runs import sum_runs
from lakehouse.config.columns import sql_type
from lakehouse.config.stream import Stream
from lakehouse.rollup import counters
from lakehouse.rollup.row_nodes import row_nodes
from lakehouse.spark.ddl import schema_of
from lakehouse.spark.tables import rollup_schema

_PLACE = ["level", "start_us"]
_TIMES = (("first_us", "min"), ("last_us", "max"))
_DECIMALS = 38
# So many rows are sorted at once: some hundred bytes of memory each; fewer of long texts.
ROWS_AT_ONCE, BYTES_AT_ONCE = 2_000_000, 1024 * 1024 * 1024


def needed(stream: Stream) -> list[str]:
    """Return the columns of raw that nodes are made of."""
    return list(dict.fromkeys(["event_us", *stream.grouping_keys, *stream.measures]))


def row_columns(stream: Stream) -> pa.Schema:
    """Return the columns that nodes are made of, with the types that raw has them with."""
    kinds = {name: sql_type(column) for name, column in stream.all_columns.items()} | {"event_us": "BIGINT"}
    return schema_of(", ".join(f"`{name}` {kinds[name]}" for name in needed(stream)))


def folder_of(stream: Stream, newest_us: int = 0) -> NodeFolder:
    """Return what folds a stream's rows, given the newest event time contained, or its nodes."""
    schema = pa.schema([field for field in rollup_schema(stream) if field.name != "batch"])
    return NodeFolder(stream, newest_us, schema)


@dataclass(frozen=True)
class NodeFolder:
    """Folds rows into nodes: which levels keep which time, and how the columns combine."""

    stream: Stream
    newest_us: int
    schema: pa.Schema

    def folded(self, parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield the nodes of rows, and how many rows entered at each level; nothing where there are none.

        Those of many rows are not whole. Where there are counters, each part is in order of time in itself alone.
        Cost: as of ``row_nodes``; memory: ``ROWS_AT_ONCE`` rows, and the nodes that the rows touch.
        """
        if self.stream.counters:
            yield from self.by_keys(parts)
            return
        by, held, least = [*_PLACE, "grouping", *self.stream.grouping_keys], list[pa.Table](), 0
        for rows in _gathered(parts):
            nodes = row_nodes(rows, self.stream, self.newest_us, self.schema)
            held += self.by_keys([rows]) if nodes is None else [nodes]
            # Combining only when what is held has doubled keeps memory near the nodes, at an amortised cost of two.
            if sum(part.num_rows for part in held) > 2 * least + ROWS_AT_ONCE:
                whole = self.combined(pa.concat_tables(held), by)
                held, least = [whole.select(self.schema.names).cast(self.schema)], whole.num_rows
        yield from held

    def by_keys(self, parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield the same where counters are joined, or exact sums are long."""
        entered = self.entered(parts)
        if entered is not None:
            yield self.grouped(self.raised(entered))
            yield self.counts(entered)

    def whole(self, nodes: pa.Table) -> pa.Table:
        """Return one row per node; counters are only where one series is one meter."""
        by = [*_PLACE, "grouping", *self.stream.grouping_keys]
        nodes = self.combined(nodes, by)
        if not self.stream.counters:
            return nodes.select(self.schema.names).cast(self.schema)
        levels = [nodes.filter(pc.equal(nodes["level"], 1))]
        for number in range(2, len(self.stream.levels) + 1):
            own = nodes.filter(pc.equal(nodes["level"], number))
            levels.append(self.joined(own, self.carried(levels[-1], number, by), by))
        return pa.concat_tables(levels).select(self.schema.names).cast(self.schema)

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
                held = [self.combined(pa.concat_tables(held), by)]
                waiting = least = held[0].num_rows
        if not held:
            return None
        return held[0] if len(held) == 1 else self.combined(pa.concat_tables(held), by)

    def raised(self, entered: pa.Table) -> pa.Table:
        """Return nodes of every level: each one from the level below and from what entered there."""
        by = [*_PLACE, *self.stream.grouping_keys]
        levels: list[pa.Table] = []
        for number, level in enumerate(self.stream.levels, start=1):
            own = entered.filter(pc.equal(entered["level"], number))
            if levels and levels[-1].num_rows:
                below = self._moved_up(levels[-1], number, level.width_us)
                own = self.combined(pa.concat_tables([own, below]), by)
            levels.append(own)
        return pa.concat_tables(levels)

    def grouped(self, nodes: pa.Table) -> pa.Table:
        """Return nodes of every grouping: combined over the keys that it leaves out."""
        frames = []
        for number, grouping in enumerate(self.stream.groupings):
            cut = [key for key in self.stream.grouping_keys if key not in grouping]
            kept = (
                self.combined(nodes.drop_columns(cut), [*_PLACE, *grouping], meters=False) if cut else nodes
            )
            if cut:
                absent = [*cut, *self.stream.counter_columns]
                kept = _without(kept, [self.schema.field(name) for name in absent])
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

    def combined(self, nodes: pa.Table, by: list[str], meters: bool = True) -> pa.Table:
        """Return partial nodes of the same place and keys as one; ``meters``: counters too."""
        wanted = [("batch", "batch", "max")] if "batch" in nodes.column_names else []
        wanted += [("rows", "rows", "sum")] + [(name, name, combine) for name, combine in _TIMES]
        for name in self.stream.measures:
            wanted.append((f"{name}__n", f"{name}__n", "sum"))
            wanted += self._sums(name)
            parts = (("min", "min"), ("max", "max"), *_TIMES)
            wanted += [(f"{name}__{part}", f"{name}__{part}", combine) for part, combine in parts]
        return self._folded(nodes, by, wanted, nodes if meters and self.stream.counters else None)

    def carried(self, nodes: pa.Table, number: int, by: list[str]) -> pa.Table:
        """Return nodes combined in the places of their parents of a level."""
        return self.combined(self._moved_up(nodes, number, self.stream.levels[number - 1].width_us), by)

    def joined(self, nodes: pa.Table, children: pa.Table, by: list[str]) -> pa.Table:
        """Return nodes, in order, whose counters are joined from ``carried`` children where these are all there."""
        for name in self.stream.counters:
            nodes = counters.from_children(nodes, children, by, name)
        return nodes

    def _lifted(self, rows: pa.Table) -> pa.Table:
        """Rows as nodes: aggregates from values."""
        for name in self.stream.counters:
            rows = _put(rows, name, counters.readings(rows[name]))
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
            wanted.append((f"{name}__n", f"{name}__value", "count"))
            wanted += self._sums(name, lifted=True)
            wanted += [(f"{name}__{part}", f"{name}__value", part) for part in ("min", "max")]
            wanted += [(f"{name}__{part}", f"{name}__seen", combine) for part, combine in _TIMES]
        placed = pa.table(columns)
        is_kept = pc.is_valid(placed["level"])
        return self._folded(
            placed.filter(is_kept), [*place, *keys], wanted, self._readings(rows.filter(is_kept))
        )

    def _sums(self, name: str, lifted: bool = False) -> list[tuple[str, str, str]]:
        """Return how a measure's sums combine; those of doubles in two columns."""
        if name in self.stream.rounded:
            # Values have no carry.
            parts = ("sum",) if lifted else ("sum", "carry")
            return [(f"{name}__{part}", f"{name}__{part}", "list") for part in parts]
        return [(f"{name}__sum", f"{name}__sum", "sum")]

    def _readings(self, rows: pa.Table) -> pa.Table | None:
        """Return each row's readings as nodes of one reading; None where there are no counters."""
        columns: dict[str, pa.ChunkedArray] = {}
        for name in self.stream.counters:
            columns |= counters.lifted(name, rows["event_us"], rows[name])
        return pa.table(columns) if columns else None

    def _moved_up(self, nodes: pa.Table, number: int, width_us: int) -> pa.Table:
        """Nodes in the places of their parents."""
        nodes = _put(nodes, "level", pa.repeat(pa.scalar(number, pa.int32()), nodes.num_rows))
        return _put(nodes, "start_us", _floor(nodes["start_us"], width_us))

    def _placed(self, times: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
        level, start = pa.scalar(None, pa.int32()), pa.scalar(None, pa.int64())
        kept_from = horizons(self.stream.levels, self.newest_us)
        for number in range(len(kept_from), 0, -1):
            kept = pc.greater_equal(times, kept_from[number - 1])
            width = self.stream.levels[number - 1].width_us
            level = pc.if_else(kept, pa.scalar(number, pa.int32()), level)
            start = pc.if_else(kept, _floor(times, width), start)
        return {"level": level, "start_us": start}

    def _folded(
        self, nodes: pa.Table, by: list[str], wanted: list[tuple[str, str, str]], metered: pa.Table | None
    ) -> pa.Table:
        if metered is None:
            return _totalled(_folded(nodes, by, wanted), self.stream.rounded)
        order = counters.order(nodes, by)
        nodes, metered = nodes.take(order), metered.take(order)
        run = counters.runs(nodes, by)
        # Groups come in no order of their own.
        found = _folded(nodes.append_column("run", pa.array(run)), ["run"], wanted)
        found = _totalled(found, self.stream.rounded).sort_by("run")
        firsts = nodes.select(by).take(pa.array(np.flatnonzero(np.diff(run, prepend=-1))))
        joined = [counters.joined(metered, run, name) for name in self.stream.counters]
        return _beside(firsts, found.drop_columns("run"), *joined)

    def _check_sums(self, nodes: pa.Table) -> None:
        for name in self.stream.measures:
            kind = nodes.schema.field(f"{name}__sum").type
            if not pa.types.is_decimal(kind) or not nodes.num_rows:
                continue
            sizes = [
                pc.abs(nodes[f"{name}__{part}"].cast(pa.float64(), safe=False)) for part in ("min", "max")
            ]
            most = pc.max(pc.multiply(pc.max_element_wise(*sizes), nodes[f"{name}__n"].cast(pa.float64())))
            if (most.as_py() or 0) >= 10.0 ** (_DECIMALS - kind.scale):
                raise OverflowError(
                    f"stream {self.stream.name}, measure {name}: a sum needs more than {_DECIMALS} digits with "
                    f"{kind.scale} decimals; declare fewer decimals, or bound the values"
                )


def _gathered(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Put parts together to about as many rows as are sorted at once."""
    held, waiting, size = list[pa.Table](), 0, 0
    for part in parts:
        held.append(part)
        waiting += part.num_rows
        size += part.nbytes
        if waiting >= ROWS_AT_ONCE or size >= BYTES_AT_ONCE:
            yield pa.concat_tables(held)
            held, waiting, size = [], 0, 0
    if waiting:
        yield pa.concat_tables(held)


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


def _beside(*tables: pa.Table) -> pa.Table:
    """Put the columns of tables of equal length together."""
    return pa.table({name: table[name] for table in tables for name in table.column_names})


def _without(table: pa.Table, fields: Sequence[pa.Field]) -> pa.Table:
    """Add columns that have no values here."""
    for field in fields:
        table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table


def _put(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, values)


def _totalled(groups: pa.Table, measures: Sequence[str]) -> pa.Table:
    """Return groups with the lists of each measure's sums added up, as two columns each. Cost: one pass.

    ``{m}__sum`` is the double nearest to the sum, ``{m}__carry`` what rounding cut off it.
    """
    for name in measures:
        place = groups.schema.get_field_index(f"{name}__sum")
        has_carry = f"{name}__carry" in groups.column_names
        carries = groups[f"{name}__carry"] if has_carry else None
        sums, rests = _added(groups[f"{name}__sum"], carries)
        groups = groups.set_column(place, f"{name}__sum", sums)
        if has_carry:
            groups = groups.drop_columns([f"{name}__carry"])
        groups = groups.add_column(place + 1, f"{name}__carry", rests)
    return groups


def _added(totals: pa.ChunkedArray, carries: pa.ChunkedArray | None) -> tuple[pa.Array, pa.Array]:
    lists = _whole(totals)
    values = lists.values
    rests = _whole(carries).values if carries is not None else pa.repeat(0.0, len(values))
    size = len(lists)
    sums, left, is_sum = np.empty(size), np.empty(size), np.empty(size, np.bool_)
    is_value: npt.NDArray[np.bool_] = values.is_valid().to_numpy(zero_copy_only=False)
    sum_runs(lists.offsets.to_numpy(), _filled(values), _filled(rests), is_value, sums, left, is_sum)
    return pa.array(sums, mask=~is_sum), pa.array(left, mask=~is_sum)


def _whole(lists: pa.ChunkedArray) -> pa.ListArray:
    found = lists.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)


def _filled(values: pa.Array) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False)
    return found
