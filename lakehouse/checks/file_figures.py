"""Files of a stream's tables -> the figures that checks compare, by tasks, each of which reads one file.

    quarantine, raw    by batch: rows, and how many of them each claim does not hold of
    rollup             by level and grouping: rows, disordered nodes, ends of their times

Figures come back as texts, so that one job is for all tables. Memory of a task: a piece of a file.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.profile.summary import Summary
from lakehouse.checks.column_figures import summary_of
from lakehouse.checks.stream_rules import BROKEN, EXAMPLES, JUDGED, examples_of, sources_of, worst_of
from lakehouse.checks.table_rows import TableRows
from lakehouse.checks.time_nodes import Counted
from lakehouse.config.columns import sql_type
from lakehouse.config.stream import Stream
from lakehouse.engine import Engine, Item
from lakehouse.ingest.parser.plain_values import arrow_type
from lakehouse.ingest.parser.row_rules import verdicts
from lakehouse.storage.tables.table_reads import pieces_of

RAW, QUARANTINE, ROLLUP = "raw", "quarantine", "rollup"
DISORDERS = ("disordered_values", "disordered_counts", "disordered_times", "not_numbers", "unaligned")
RAW_CLAIMS = ("without_event_time", "out_of_bounds", "not_numbers", "without_origin")
_TEXTS = pa.schema({"table": pa.string(), "path": pa.string(), "figures": pa.string()})
# Rows from the start on that a level keeps, and from that of the finer level.
_KEPT = ("kept_rows", "rows_where_finer")
Row = dict[str, Any]
# By file, what was measured of each of its levels and groupings.
Measured = Mapping[str, Sequence[Mapping[str, Any]]]
# By table and file; of raw and quarantine: ``rows`` by batch, ``held`` of batches so far, the ends of their times, and
# ``examples`` of rows that break a rule, their ``sources``, and summaries of ``columns`` that rules are about.
Figures = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Measuring:
    """Inputs of tasks: batches that are judged, from where on levels keep nodes, and periods whose rows are counted."""

    stream: Stream
    since: int
    through: int
    horizons: Sequence[int]
    counted: Sequence[Counted] = ()

    def columns(self, table: str, schema: pa.Schema) -> pa.Schema:
        """Return the columns of a table that are looked at; one that came later is not there before its first row."""
        if table == ROLLUP:
            return pa.schema([field for field in schema if field.name not in self.stream.grouping_keys])
        wanted = {
            QUARANTINE: ("batch", "reason", "source_file"),
            RAW: (
                "batch",
                "event_us",
                "source_file",
                "source_line",
                *_doubles(self.stream),
                *self._ruled(),
                *self._sources(),
            ),
        }
        return pa.schema([field for field in schema if field.name in wanted[table]])

    def of_file(self, table: str, pieces: Iterator[pa.Table]) -> Any:
        """Return the figures of a file's rows."""
        if table == ROLLUP:
            return self._of_rollup(pieces)
        counts, times, held = list[pa.Table](), list[int](), 0
        examples, sources = dict[str, list[str]](), dict[str, Counter[str]]()
        parts: dict[str, list[Summary]] = {name: [] for name in self.stream.summed_columns}
        for rows in pieces:
            held += pc.sum(pc.less_equal(rows["batch"], self.through)).as_py() or 0
            is_new = pc.and_(
                pc.greater(rows["batch"], self.since), pc.less_equal(rows["batch"], self.through)
            )
            own = rows.filter(is_new)
            ones = self._of_raw(own, examples, sources) if table == RAW else _of_quarantine(own)
            counts.append(added([ones], ["batch"]))
            times += _ends(own["event_us"]) if table == RAW else []
            if table == RAW and own.num_rows:
                values = self._ruled_values(own)
                for name, summaries in parts.items():
                    summaries.append(summary_of(values[name]))
        ends = {"low": min(times, default=None), "high": max(times, default=None)}
        rows_of = added(counts, ["batch"]).to_pylist() if counts else []
        columns = {name: asdict(Summary.combined(of)) for name, of in parts.items() if of}
        broken = {"examples": examples, "sources": sources}
        return {"held": held, **ends, "rows": rows_of, **broken, "columns": columns}

    def _of_rollup(self, pieces: Iterator[pa.Table]) -> list[Row]:
        """Return the figures of a file's nodes by level and grouping, with rows of ``periods``: width, start, rows."""
        by, nodes = ["level", "grouping"], list[pa.Table]()
        periods: dict[Counted, Counter[int]] = {counted: Counter() for counted in self.counted}
        for rows in pieces:
            nodes.append(added([self._of_nodes(rows)], by))
            for counted, own in periods.items():
                own.update(counted.rows(rows))
        figures: list[Row] = added(nodes, by).to_pylist() if nodes else []
        for counted, own in periods.items():
            for row in figures:
                if (row["level"], row["grouping"]) == (counted.level, counted.grouping):
                    row.setdefault("periods", []).extend([counted.per_us, *each] for each in own.items())
        return figures

    def _of_raw(
        self, rows: pa.Table, examples: dict[str, list[str]], sources: dict[str, Counter[str]]
    ) -> pa.Table:
        """Return the claims about rows by batch; rows that break a rule are added to its examples and sources."""
        low, high = self.stream.event_time_bounds
        # Lines are counted from 1, offsets from 0.
        first_line = 0 if self.stream.source.kind == "kafka" else 1
        event, doubles = rows["event_us"], set(_doubles(self.stream)) & {*rows.column_names}
        origin = [pc.is_null(rows["source_file"]), pc.less(rows["source_line"], first_line)]
        claims = {
            "found": pc.is_valid(rows["batch"]),
            "without_event_time": pc.is_null(event),
            "out_of_bounds": pc.or_(pc.less(event, low), pc.greater_equal(event, high)),
            "not_numbers": _any_of(rows.num_rows, [_is_not_a_number(rows[name]) for name in sorted(doubles)]),
            "without_origin": _any_of(rows.num_rows, origin),
        }
        ruled = self._ruled_values(rows)
        for rule in self.stream.share_rules:
            breaks = verdicts(ruled, rule)
            claims |= {JUDGED + rule.name: pc.is_valid(breaks), BROKEN + rule.name: breaks}
            own = examples.setdefault(rule.name, [])
            if len(own) < EXAMPLES:
                own += examples_of(rows, {name: ruled[name] for name in rule.columns}, breaks)
            more = sources_of(rows, self._sources(), breaks)
            sources[rule.name] = worst_of(sources.get(rule.name, Counter()) + more)
        return _counted(rows, claims)

    def _sources(self) -> tuple[str, ...]:
        """Return the keys that name the sources of rows that break a rule."""
        return self.stream.keys if self.stream.share_rules else ()

    def _ruled(self) -> set[str]:
        return {name for rule in self.stream.checked_rules for name in rule.columns}

    def _ruled_values(self, rows: pa.Table) -> dict[str, pa.ChunkedArray]:
        """Return the columns that rules are about; of one that came later, the rows before it have no value."""
        columns, count = self.stream.all_columns, rows.num_rows
        return {
            name: rows[name]
            if name in rows.column_names
            else pa.nulls(count, arrow_type(sql_type(columns[name])))
            for name in self._ruled()
        }

    def _of_nodes(self, nodes: pa.Table) -> pa.Table:
        """Return nodes with their place, and 1 for each claim about them that does not hold."""
        widths = np.array([1, *(level.width_us for level in self.stream.levels)], np.int64)
        level, start = nodes["level"].to_numpy(), nodes["start_us"]
        is_known = (level > 0) & (level < len(widths))
        width = pa.array(widths[np.where(is_known, level, 0)], mask=~is_known)
        sums = [f"{name}__{part}" for name in _doubles(self.stream) for part in ("sum", "min", "max")]
        claims = {
            "disordered_values": list(_disordered_values(nodes, self.stream)),
            "disordered_counts": list(_disordered_counts(nodes, self.stream)),
            "disordered_times": list(_disordered_times(nodes, self.stream, width)),
            "not_numbers": [_is_not_a_number(nodes[name]) for name in sums],
            "unaligned": [pc.not_equal(pc.subtract(start, pc.multiply(pc.divide(start, width), width)), 0)],
        }
        is_node = pa.array(level > 0)
        ones = {
            name: pc.and_(_any_of(nodes.num_rows, one), is_node).cast(pa.int64())
            for name, one in claims.items()
        }
        node = {name: nodes[name] for name in ("level", "grouping", "rows")}
        ends = {"start_us_min": start, "start_us_max": start}
        return pa.table({**node, **ends, **ones, **self._kept(level, start, nodes["rows"])})

    def _kept(self, level: Any, start: pa.Array, rows: pa.Array) -> Mapping[str, pa.Array]:
        """Return the rows of nodes from the horizon of their level on, and from that of the finer one."""
        kept = np.array([2**62, *self.horizons, 2**62])
        columns = {}
        for name, finer in zip(_KEPT, (0, 1), strict=True):
            own = np.where(level > len(self.horizons), 0, np.clip(level - finer, 0, len(kept) - 1))
            is_in = pc.greater_equal(start, pa.array(kept[own]))
            columns[name] = pc.if_else(pc.fill_null(is_in, False), rows, 0)
        return columns


def file_figures(engine: Engine, measuring: Measuring, of: Mapping[str, TableRows], step: str) -> Figures:
    """Return the figures of files of raw, quarantine and rollup. Cost: one Spark job over them."""
    schema = {"table": pa.string(), "path": pa.string(), "file": pa.string()}
    files = [
        dict(zip(schema, (table, name, str(path.absolute())), strict=True))
        for table, rows in of.items()
        for name, path in zip(rows.names, rows.paths, strict=True)
    ]
    columns = {table: measuring.columns(table, rows.schema) for table, rows in of.items()}
    kernel = partial(_measured, measuring=measuring, columns=columns)
    figures: dict[str, dict[str, Any]] = {table: {} for table in of}
    for row in engine.map(pa.Table.from_pylist(files, pa.schema(schema)), kernel, _TEXTS, step).to_pylist():
        figures[row["table"]][row["path"]] = json.loads(row["figures"])
    return figures


def _measured(item: Item, measuring: Measuring, columns: Mapping[str, pa.Schema]) -> Iterator[pa.Table]:
    pieces = pieces_of(item["file"], columns[item["table"]])
    text = json.dumps(measuring.of_file(item["table"], pieces))
    yield pa.Table.from_pylist([{"table": item["table"], "path": item["path"], "figures": text}], _TEXTS)


def _of_quarantine(rows: pa.Table) -> pa.Table:
    claims = {
        "held": pc.is_valid(rows["batch"]),
        "without_reason": pc.equal(pc.fill_null(rows["reason"], ""), ""),
        "without_origin": pc.is_null(rows["source_file"]),
    }
    return _counted(rows, claims)


def _counted(rows: pa.Table, claims: Mapping[str, pa.Array]) -> pa.Table:
    """Return the batch of each row, and 1 for each claim that holds; an unknown one (null) does not."""
    ones = {name: pc.fill_null(claim, False).cast(pa.int64()) for name, claim in claims.items()}
    return pa.table({"batch": rows["batch"], **ones})


def added(parts: Sequence[pa.Table], by: list[str]) -> pa.Table:
    """Add up the columns of tables, of which there is one at least; least and largest values stay such."""
    rows = pa.concat_tables(parts)
    how = {
        name: name[-3:] if name.endswith(("_min", "_max")) else "sum"
        for name in rows.column_names
        if name not in by
    }
    total = rows.group_by(by).aggregate(list(how.items()))
    return total.select([*by, *(f"{name}_{each}" for name, each in how.items())]).rename_columns([*by, *how])


def _ends(times: pa.ChunkedArray) -> list[int]:
    return [time for time in pc.min_max(times).as_py().values() if time is not None]


def _doubles(stream: Stream) -> list[str]:
    return [name for name in stream.measures if stream.all_columns[name].type == "double"]


def _is_not_a_number(values: pa.Array) -> pa.Array:
    """Return where doubles are NaN or infinite; null is neither."""
    return pc.fill_null(pc.invert(pc.is_finite(values)), False)


def _any_of(rows: int, claims: Sequence[pa.Array]) -> pa.Array:
    """Return where at least one claim holds; an unknown one (null) does not."""
    result = pa.repeat(pa.scalar(False), rows)
    for claim in claims:
        result = pc.or_(result, pc.fill_null(claim, False))
    return result


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
