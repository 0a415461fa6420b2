"""Nodes of a rollup read for rules over time, by tasks: rows of periods, who is silent, and falls of counters.

    Counted     rows of periods, in a file whose nodes are measured anyway
    silent      keys whose newest row is old: one job with a shuffle over the coarsest nodes of a time
    falling     meters whose counter falls often: one job with a shuffle over the finest nodes of a time

Of keys a job returns numbers and some examples, so that a hundred thousand are no more to the driver than ten.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.checks.stream_rules import masked
from lakehouse.checks.table_rows import TableRows
from lakehouse.engine import Engine, Item
from lakehouse.engine.contract import KeyedKernel
from lakehouse.engine.parts import file_items
from lakehouse.rollup.counters import joined, order, runs
from lakehouse.spark.row_hash import xxhash64
from lakehouse.storage.tables.table_reads import pieces_of

# Keys or periods that a sentence names.
NAMED = 5
_ROWS_A_BUCKET = 500_000
# No column of a stream has "__" in its name.
_BUCKET = pa.field("key__bucket", pa.int32())
# Of each bucket some examples, and in its first row how many keys there are, and how many are examples.
_EXAMPLES = pa.schema(
    {"name": pa.string(), "us": pa.int64(), "falls": pa.int64(), "keys": pa.int64(), "broken": pa.int64()}
)
_COUNTER = ("n", "first_us", "last_us", "max", "first", "last", "drops_low", "drops_high")


@dataclass(frozen=True)
class Counted:
    """Periods of a width, from a time on, whose rows the nodes of one level and grouping tell."""

    level: int
    grouping: int
    per_us: int
    from_us: int

    def rows(self, nodes: pa.Table) -> dict[int, int]:
        """Return the rows of each period by its start."""
        of = (pc.field("level") == self.level) & (pc.field("grouping") == self.grouping)
        own = nodes.filter(of & (pc.field("start_us") >= self.from_us))
        starts = own["start_us"].to_numpy()
        periods, place = np.unique(starts - starts % self.per_us, return_inverse=True)
        sums = np.bincount(place, own["rows"].to_numpy(), len(periods)).astype(np.int64)
        return dict(zip(periods.tolist(), sums.tolist(), strict=True))


@dataclass(frozen=True)
class Nodes:
    """Nodes of one level and grouping with a row at or after a time; ``is_masked``: of names the form is shown."""

    level: int
    grouping: int
    keys: tuple[str, ...]
    since_us: int
    is_masked: bool

    def chosen(self, rows: pa.Table) -> pa.Table:
        """Return these among some nodes."""
        own = (pc.field("level") == self.level) & (pc.field("grouping") == self.grouping)
        return rows.filter(own & (pc.field("last_us") >= self.since_us))

    def named(self, keys: pa.Table, *values: pa.Array, broken: int, of: int) -> pa.Table:
        """Return keys as examples, each with its values; the first row has how many are broken, and of how many."""
        names = [
            ", ".join(f"{key} {masked(value) if self.is_masked else value}" for key, value in row.items())
            for row in keys.select(self.keys).to_pylist()
        ]
        counts = pa.table([[None], [None], [None], [of], [broken]], schema=_EXAMPLES)
        none = pa.nulls(len(names), pa.int64())
        return pa.concat_tables(
            [counts, pa.table([pa.array(names, pa.string()), *values, none, none], schema=_EXAMPLES)]
        )


@dataclass(frozen=True)
class Meeting:
    """Nodes of a rollup that meet by their keys, in one job with a shuffle; ``width_us``: of their level."""

    nodes: Nodes
    rollup: TableRows
    width_us: int
    engine: Engine
    step: str

    def silent(self, before_us: int) -> tuple[int, int, list[tuple[str, int]]]:
        """Return how many keys were heard, how many of them not since a time, and names and last times of some."""
        heard, broken, rows = self._met(["last_us"], partial(_silent, self.nodes, before_us))
        latest = rows.sort_by([("us", "descending"), ("name", "ascending")])[:NAMED]
        return heard, broken, list(zip(latest["name"].to_pylist(), latest["us"].to_pylist(), strict=True))

    def falling(self, counter: str, per_us: int, most: int) -> tuple[int, int, list[tuple[str, int, int]]]:
        """Return how many periods of meters there are, how many with more falls, and meter, start and falls of some."""
        names = ["start_us", *(f"{counter}__{part}" for part in _COUNTER)]
        judged, broken, rows = self._met(names, partial(_falling, self.nodes, counter, per_us, most))
        worst = rows.sort_by([("falls", "descending"), ("us", "ascending"), ("name", "ascending")])[:NAMED]
        columns = (worst[name].to_pylist() for name in ("name", "us", "falls"))
        return judged, broken, list(zip(*columns, strict=True))

    def _met(self, names: Sequence[str], kernel: KeyedKernel) -> tuple[int, int, pa.Table]:
        level, since_us = self.nodes.level, self.nodes.since_us
        near = self.rollup.between("level", level, level).between("start_us", since_us - self.width_us, 2**62)
        needed = dict.fromkeys([*self.nodes.keys, *names, "level", "grouping", "last_us"])
        columns = pa.schema([near.schema.field(name) for name in needed])
        rows = pa.schema([*(columns.field(name) for name in (*self.nodes.keys, *names)), _BUCKET])
        read = partial(_chosen, self.nodes, columns, rows, 1 + near.count // _ROWS_A_BUCKET)
        of = file_items(near.paths), read, rows, _BUCKET.name
        found = self.engine.by_key(*of, kernel, _EXAMPLES, self.step)
        keys, broken = (pc.sum(found[name]).as_py() or 0 for name in ("keys", "broken"))
        return keys, broken, found.filter(pc.is_valid(found["name"]))


def _chosen(
    nodes: Nodes, columns: pa.Schema, rows: pa.Schema, buckets: int, item: Item
) -> Iterator[pa.Table]:
    """Yield the nodes of a file with the bucket of their keys; where last times are asked, of each key the last."""
    for piece in pieces_of(item["path"], columns):
        own = nodes.chosen(piece).select(rows.names[:-1])
        if own.column_names == [*nodes.keys, "last_us"]:
            own = (
                own.group_by(list(nodes.keys))
                .aggregate([("last_us", "max")])
                .rename_columns(own.column_names)
            )
        hashes = xxhash64([own[name] for name in nodes.keys], own.num_rows)
        yield own.append_column(_BUCKET, pa.array((hashes % buckets).astype(np.int32)))


def _silent(nodes: Nodes, before_us: int, _: int, rows: pa.Table) -> pa.Table:
    """Return how many keys there are, and some of those that were heard last before a time."""
    (key,) = nodes.keys
    last = rows.filter(pc.field(key).is_valid()).group_by(key).aggregate([("last_us", "max")])
    broken = last.filter(pc.field("last_us_max") < before_us)
    shown = broken.sort_by([("last_us_max", "descending"), (key, "ascending")])[:NAMED]
    none = pa.nulls(shown.num_rows, pa.int64())
    return nodes.named(shown, shown["last_us_max"], none, broken=broken.num_rows, of=last.num_rows)


def _falling(nodes: Nodes, counter: str, per_us: int, most: int, _: int, rows: pa.Table) -> pa.Table:
    """Return how many periods of meters there are, and some of those in which a counter falls more often.

    A fall between two nodes counts, and of those inside a node one, if any is sure: late rows leave some in doubt.
    """
    keys = list(nodes.keys)
    ordered = rows.take(order(rows, [*keys, "start_us"]))
    run = runs(ordered, [*keys, "start_us"])
    states = joined(ordered, run, counter)
    ones = ordered.take(pa.array(np.flatnonzero(np.diff(run, prepend=-1))))
    has = states[f"{counter}__first"].is_valid()
    ones, states = ones.select([*keys, "start_us"]).filter(has), states.filter(has)
    first, last, inside = (states[f"{counter}__{part}"].to_numpy() for part in ("first", "last", "drops_low"))
    meter = runs(ones, keys) if keys else np.zeros(len(first), np.int64)
    falls = (inside > 0).astype(np.int64)
    falls[1:] += (meter[1:] == meter[:-1]) & (last[:-1] > first[1:])
    start = ones["start_us"].to_numpy()
    counted = ones.set_column(len(keys), "start_us", pa.array(start - start % per_us)).append_column(
        "falls", pa.array(falls)
    )
    # The first period is read for the falls between it and the next alone.
    counted = counted.filter(pc.field("start_us") >= nodes.since_us + per_us)
    periods = counted.group_by([*keys, "start_us"]).aggregate([("falls", "sum")])
    broken = periods.filter(pc.field("falls_sum") > most)
    shown = broken.sort_by([("falls_sum", "descending"), ("start_us", "ascending")])[:NAMED]
    return nodes.named(
        shown, shown["start_us"], shown["falls_sum"], broken=broken.num_rows, of=periods.num_rows
    )
