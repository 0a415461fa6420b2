"""Nodes of a rollup read for rules over time, by tasks: rows of periods, who is silent, and falls of counters.

    Counted     rows of periods, in a file whose nodes are measured anyway
    silent      keys whose newest row is old: one job with a shuffle over the coarsest nodes
    falling     meters whose counter falls often: one job with a shuffle over the finest nodes (falls.py)

Both jobs read the nodes that came since the check before, and what that kept: a row for each key, some for each meter.
They read all nodes of a time where nothing is kept, or rows have left the rollup since. Of keys a job returns numbers
and some examples, so that a hundred thousand are no more to the driver than ten.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.checks.falls import falling
from lakehouse.checks.kept_falls import Falls
from lakehouse.checks.key_nodes import BUCKET, EXAMPLES, IS_KEPT, NAMED, Nodes
from lakehouse.checks.table_rows import TableRows
from lakehouse.config.stream import Stream
from lakehouse.engine import Engine, Item
from lakehouse.engine.parts import file_items
from lakehouse.spark.row_hash import xxhash64
from lakehouse.storage.control.lease import lease
from lakehouse.storage.kept_nodes import Kept, KeptNodes
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.appends import appended_since
from lakehouse.storage.tables.table_reads import pieces_of

_ROWS_A_BUCKET = 500_000
# A check of these rules takes minutes over very many nodes.
_TIMEOUT_S = 300.0


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
class Keeping:
    """State that rules keep of a rollup: ``before``, by rule, and from this check on ``now``; parts are in a folder."""

    folder: Location
    before: Mapping[str, Kept]
    now: dict[str, Kept]

    def came(self, rule: str, rollup: TableRows, since_us: int) -> tuple[Kept, Sequence[Location]] | None:
        """Return what a rule has kept, and the files that came since; None where all nodes are to be read."""
        kept = self.before.get(rule)
        if kept is None or kept.table != rollup.id or kept.since_us > since_us:
            return None
        came = appended_since(rollup.table, kept.version, rollup.version)
        return None if came is None else (kept, came)


@contextmanager
def kept_nodes(home: Home, stream: Stream, is_used: bool, is_kept: bool) -> Iterator[Keeping | None]:
    """Give what the rules of a stream keep, and keep what they have at the end; None where nothing is kept.

    ``is_used``: false where everything is to be read again. Raises LeaseHeld when another check has it for long.
    """
    if not is_kept or not any(rule.silent or rule.counter_resets for rule in stream.time_rules):
        yield None
        return
    with lease(home, home.kept_nodes(stream.name), _TIMEOUT_S):
        kept = KeptNodes.of(home, stream.name)
        keeping = Keeping(kept.folder, kept.read() if is_used else {}, {})
        yield keeping
        if keeping.now != {rule: keeping.before.get(rule) for rule in keeping.now}:
            kept.write({**keeping.before, **keeping.now})


@dataclass(frozen=True)
class Meeting:
    """Nodes of a rollup that meet by their keys, in one job with a shuffle; ``width_us``: of their level.

    ``rule``: what tells it from others, with all that its nodes depend on. ``keeping``: None where nothing is kept.
    """

    nodes: Nodes
    rollup: TableRows
    width_us: int
    engine: Engine
    step: str
    rule: str = ""
    keeping: Keeping | None = None

    def silent(self, before_us: int) -> tuple[int, int, list[tuple[str, int]]]:
        """Return how many keys were heard, how many of them not since a time, and names and last times of some."""
        kept = pa.schema([self.rollup.schema.field(name) for name in (*self.nodes.keys, "last_us")])
        heard, broken, rows = self._met(kept, partial(_silent, self.nodes, before_us))
        latest = rows.sort_by([("us", "descending"), ("name", "ascending")])[:NAMED]
        return heard, broken, list(zip(latest["name"].to_pylist(), latest["us"].to_pylist(), strict=True))

    def falling(self, counter: str, per_us: int, most: int) -> tuple[int, int, list[tuple[str, int, int]]]:
        """Return how many periods of meters there are, how many with more falls, and meter, start and falls of some."""
        near = self._near
        ends = [
            (str(path.absolute()), file.get("min.start_us"), file.get("max.start_us"))
            for path, file in zip(near.paths, near.files, strict=True)
        ]
        of = Falls(self.nodes, counter, per_us, most, near.schema, ends)
        judged, broken, rows = self._met(of.kept, partial(falling, of))
        worst = rows.sort_by([("falls", "descending"), ("us", "ascending"), ("name", "ascending")])[:NAMED]
        columns = (worst[name].to_pylist() for name in ("name", "us", "falls"))
        return judged, broken, list(zip(*columns, strict=True))

    @cached_property
    def _near(self) -> TableRows:
        """The files that may have such nodes."""
        level = self.nodes.level
        since_us = self.nodes.since_us - self.width_us
        return self.rollup.between("level", level, level).between("start_us", since_us, 2**62)

    def _met(self, columns: pa.Schema, kernel: Callable[..., pa.Table]) -> tuple[int, int, pa.Table]:
        """Run a kernel on nodes of some columns, and on what it kept of them."""
        near, keeping = self._near, self.keeping
        known = keeping.came(self.rule, self.rollup, self.nodes.since_us) if keeping else None
        kept, came = known or (None, near.paths)
        parts = [keeping.folder / name for name in kept.parts] if keeping and kept else []
        rows = kept.count if kept else near.count
        read = partial(_read, self.nodes, self.rollup.schema, columns, 1 + rows // _ROWS_A_BUCKET)
        is_kept = pa.array([True] * len(parts) + [False] * len(came), pa.bool_())
        items = file_items([*parts, *came]).append_column(IS_KEPT, is_kept)
        # Without new nodes what is kept stays as it is.
        folder = str(keeping.folder.absolute()) if keeping and (came or kept is None) else None
        of_rows = pa.schema([*columns, pa.field(IS_KEPT, pa.bool_()), BUCKET])
        found = self.engine.by_key(
            items, read, of_rows, BUCKET.name, partial(kernel, folder), EXAMPLES, self.step
        )
        if keeping:
            keeping.now[self.rule] = kept if kept and not came else self._kept(found)
        judged, broken = (pc.sum(found[name]).as_py() or 0 for name in ("keys", "broken"))
        return judged, broken, found.filter(pc.is_valid(found["name"]))

    def _kept(self, found: pa.Table) -> Kept:
        parts = found.filter(pc.is_valid(found["part"]))
        names, rows = parts["part"].to_pylist(), pc.sum(parts["part_rows"]).as_py() or 0
        return Kept(self.rollup.id, self.rollup.version, self.nodes.since_us, names, rows)


def _read(nodes: Nodes, table: pa.Schema, columns: pa.Schema, buckets: int, item: Item) -> Iterator[pa.Table]:
    """Yield the nodes of a file, or what is kept of them, with the bucket of their keys."""
    for rows in (
        pieces_of(item["path"], columns) if item[IS_KEPT] else nodes.read(item["path"], table, columns)
    ):
        hashes = xxhash64([rows[name] for name in nodes.keys], rows.num_rows)
        is_kept = pa.repeat(pa.scalar(item[IS_KEPT]), rows.num_rows)
        bucket = pa.array((hashes % buckets).astype(np.int32))
        yield rows.append_column(IS_KEPT, is_kept).append_column(BUCKET, bucket)


def _silent(nodes: Nodes, before_us: int, folder: str | None, _: int, rows: pa.Table) -> pa.Table:
    """Return how many keys there are, and some of those that were heard last before a time."""
    (key,) = nodes.keys
    heard = rows.filter(pc.field(key).is_valid() & (pc.field("last_us") >= nodes.since_us))
    last = heard.group_by(key).aggregate([("last_us", "max")]).rename_columns([key, "last_us"])
    broken = last.filter(pc.field("last_us") < before_us)
    shown = broken.sort_by([("last_us", "descending"), (key, "ascending")])[:NAMED]
    none = pa.nulls(shown.num_rows, pa.int64())
    found = nodes.named(shown, shown["last_us"], none, broken=broken.num_rows, of=last.num_rows)
    return nodes.keeping(found, last, folder)
