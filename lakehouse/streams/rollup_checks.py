"""The rollup's nodes -> a frame of deviations: one row per level and grouping.

Levels are compared over the time that the finer one keeps. Its horizon H is a multiple of the coarser width, so
no node is cut:

    level 2   [--------)[--------)[--------)[--------)
    level 1             [--)[--)[--)[--)[--)[--)[--)[--
                        H                     rows from here on must be equal

Partial nodes need no combining, for all that is compared adds up. So each file is measured once, since files never
change, and the table is the sum of its files. Cost: files that no check has seen, and of each level the two that a
horizon passes through.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lakehouse.home.rollup_table import RollupSchema, read_rollup_schema
from lakehouse.spark.deviations import Frame
from lakehouse.streams.checks import Row, Tables, any_of, is_not_a_number
from lakehouse.streams.table_rows import TableRows

if TYPE_CHECKING:
    from lakehouse.declare.stream import Stream
    from lakehouse.home.layout import Home

_DISORDERS = ("disordered_values", "disordered_counts", "disordered_times", "not_numbers", "unaligned")
_KEPT = ("rows", *_DISORDERS)
# By file, what was measured of each of its levels and groupings.
Measured = Mapping[str, Sequence[Mapping[str, Any]]]


def measure_rollup(home: Home, tables: Tables) -> tuple[list[Frame], Measured]:
    """Return the frame of the stream's rollup, none where nothing was rolled up yet, and what each file measures."""
    schema = read_rollup_schema(home.rollup(tables.stream.name)) if tables.rollup else None
    if schema is None or tables.rollup is None:
        return [], {}
    measured = measure_files(tables.rollup, tables.stream, tables.checked.files)
    return rollup_frames(tables, schema, measured), measured


def measure_files(rollup: TableRows, stream: Stream, known: Measured) -> Measured:
    """Return what each file of a rollup measures; those in ``known`` are not read."""
    return {
        file["path"]: known.get(file["path"]) or _file_metrics(rollup.dataset([file]), stream)
        for file in rollup.files
    }


def _file_metrics(nodes: ds.Dataset, stream: Stream) -> list[Row]:
    """Return by level and grouping: rows, how many nodes are disordered, the first and last start, the last batch."""
    parts = [_claims(pa.Table.from_batches([rows]), stream) for rows in nodes.to_batches() if rows.num_rows]
    if not parts:
        return []
    combine = [(name, "sum") for name in _KEPT]
    combine += [("start_us", "min"), ("start_us", "max"), ("batch", "max")]
    found = pa.concat_tables(parts).group_by(["level", "grouping"]).aggregate(combine)
    names = {
        f"{name}_{how}": f"{name}_{how}" if name in ("start_us", "batch") else name for name, how in combine
    }
    rows: list[Row] = found.rename_columns([names.get(n, n) for n in found.column_names]).to_pylist()
    return rows


def _claims(nodes: pa.Table, stream: Stream) -> pa.Table:
    """Return nodes with their place, and 1 for each claim about them that does not hold."""
    widths = np.array([1, *(level.width_us for level in stream.levels)], np.int64)
    level = nodes["level"].to_numpy()
    is_known = (level > 0) & (level < len(widths))
    width = pa.array(widths[np.where(is_known, level, 0)], mask=~is_known)
    start = nodes["start_us"]
    doubles = [name for name in stream.measures if stream.all_columns[name].type == "double"]
    sums = [f"{name}__{part}" for name in doubles for part in ("sum", "min", "max")]
    offset = pc.subtract(start, pc.multiply(pc.divide(start, width), width))
    claims = {
        "disordered_values": list(_disordered_values(nodes, stream)),
        "disordered_counts": list(_disordered_counts(nodes, stream)),
        "disordered_times": list(_disordered_times(nodes, stream, width)),
        "not_numbers": [is_not_a_number(nodes[name]) for name in sums],
        "unaligned": [pc.not_equal(offset, 0)],
    }
    is_node = pa.array(level > 0)
    ones = {
        name: pc.and_(any_of(nodes.num_rows, found), is_node).cast(pa.int64())
        for name, found in claims.items()
    }
    place = {name: nodes[name] for name in ("level", "grouping", "start_us", "batch", "rows")}
    return pa.table({**place, **ones})


def rollup_frames(tables: Tables, schema: RollupSchema, measured: Measured) -> list[Frame]:
    """Return the frame of measured files, judged as of the newest marker among them; none without a marker."""
    marks = [row for rows in measured.values() for row in rows if row["level"] == 0]
    newest = max((row["start_us_max"] for row in marks if row["start_us_max"] is not None), default=None)
    if newest is None:
        return []
    kept = schema.horizons(newest)
    found = _by_level(tables, measured, kept)
    rows = list(_rows(tables.stream, found, tables.accepted(max(row["batch_max"] for row in marks))))
    return [Frame("rollup", ("level", "grouping"), rows)]


def _by_level(tables: Tables, measured: Measured, kept: Sequence[int]) -> dict[tuple[int, int], Row]:
    """Add up the files by level and grouping; rows where a level is kept, and where the finer one is."""
    found: dict[tuple[int, int], Row] = {}
    for path, rows in measured.items():
        for row in rows:
            level = row["level"]
            if level <= 0:
                continue
            own = found.setdefault((level, row["grouping"]), Row(dict.fromkeys(_DISORDERS, 0)))
            for name in _DISORDERS:
                own[name] += row[name]
            starts = {"kept_rows": kept[level - 1]} if level <= len(kept) else {}
            if 1 < level <= len(kept):
                starts["rows_where_finer"] = kept[level - 2]
            for name, start in starts.items():
                own[name] = own.get(name, 0) + _rows_from(tables, path, row, start)
    return found


def _rows_from(tables: Tables, path: str, row: Mapping[str, Any], start: int) -> int:
    """Return how many rows the nodes of a file, of one level and grouping, hold from a start on."""
    if row["start_us_min"] >= start:
        return int(row["rows"] or 0)
    if row["start_us_max"] < start or tables.rollup is None:
        return 0
    (file,) = (file for file in tables.rollup.files if file["path"] == path)
    level, grouping = (ds.field(name) == row[name] for name in ("level", "grouping"))
    nodes = tables.rollup.dataset([file]).to_table(
        columns=["rows"], filter=level & grouping & (ds.field("start_us") >= start)
    )
    return int(pc.sum(nodes["rows"]).as_py() or 0)


def _disordered_values(nodes: pa.Table, stream: Stream) -> Iterator[pa.Array]:
    for name in stream.measures:
        yield pc.greater(nodes[f"{name}__min"], nodes[f"{name}__max"])
    for name in stream.counters:
        yield pc.greater(nodes[f"{name}__drops_low"], nodes[f"{name}__drops_high"])


def _disordered_counts(nodes: pa.Table, stream: Stream) -> Iterator[pa.Array]:
    yield pc.less_equal(nodes["rows"], 0)
    for name in stream.measures:
        yield pc.less(nodes[f"{name}__n"], 0)
        yield pc.greater(nodes[f"{name}__n"], nodes["rows"])


def _disordered_times(nodes: pa.Table, stream: Stream, width: pa.Array) -> Iterator[pa.Array]:
    first, last, start = nodes["first_us"], nodes["last_us"], nodes["start_us"]
    yield pc.greater(first, last)
    yield pc.less(first, start)
    yield pc.greater_equal(last, pc.add(start, width))
    for name in stream.measures:
        yield pc.less(nodes[f"{name}__first_us"], first)
        yield pc.greater(nodes[f"{name}__last_us"], last)


def _rows(stream: Stream, found: Mapping[tuple[int, int], Row], accepted: int) -> Iterator[Row]:
    top = len(stream.levels)
    declared = [(level, grouping) for level in range(1, top + 1) for grouping in range(len(stream.groupings))]
    for level, grouping in sorted({*declared, *found}):
        row = found.get((level, grouping), {})
        finer = found.get((level - 1, grouping), {})
        is_declared = (level, grouping) in declared
        counts_all = level == top and stream.levels[-1].keep_us is None
        has_finer = is_declared and level > 1
        yield {
            "level": level,
            "grouping": grouping,
            "undeclared": int(not is_declared),
            "gap_to_finer": _gap(row, "rows_where_finer", finer.get("kept_rows") or 0) if has_finer else 0,
            "gap_to_accepted": _gap(row, "kept_rows", accepted) if is_declared and counts_all else 0,
            **{name: row.get(name, 0) for name in _DISORDERS},
        }


def _gap(row: Mapping[str, Any], name: str, expected: int) -> int:
    return abs(int(row.get(name) or 0) - expected)
