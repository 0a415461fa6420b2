"""Answers -> alarms: what a batch or a repair changes about when groups began and ceased to be alarming.

A batch goes on from the alarms as they stand: the newest change of each that is raised, or was cleared lately.

    alarms/<query>/_standing.parquet    rows of the table; the commit up to which they count; from when they are whole

A table of alarms has every change, so reading it takes longer with each batch. Here changes that were committed since
the file was written take the place of older ones. The file follows from the table alone: where it is missing, cannot
be read, is of another table or does not reach back far enough, all changes are read and it is made again. Cost: alarms
that are raised or were cleared lately, and the changes since.

All this is on the driver, as it is no more than groups: the most that it holds is a row for each alarm, and the changes
of one file, however many rows of streams or answers were behind them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse.algorithms.join_aggregate.alarms import OPEN_US, Followed, Runs, followed
from lakehouse.algorithms.join_aggregate.contract import Int64s
from lakehouse.config.stream import Stream
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.tables import group_types
from lakehouse.queries.aggregate.value_codes import coded, newest
from lakehouse.spark.ddl import schema_of
from lakehouse.storage.atomic_files import replacing
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables import table_reads
from lakehouse.storage.tables.appends import appended_since
from lakehouse.storage.tables.table_commits import arrow_schema, fitted, open_table
from lakehouse.storage.tables.table_files import source
from lakehouse.storage.tables.table_log import newest_version, table_id

# Delta passes over names that begin like this.
_FILE = "_standing.parquet"


@dataclass(frozen=True)
class Changed:
    """Ticks from ``from_us`` on may have other answers; ``last_us`` is the last tick answered."""

    from_us: int
    last_us: int


@dataclass(frozen=True)
class Following:
    """Alarms that stand, and answers -> a row for each alarm that is new, or other than its newest row says.

    An alarm is named after what raised it, so that one which was withdrawn and is raised again has a new name.
    """

    names: tuple[str, ...]
    schema: pa.Schema
    changed: Changed
    every_us: int
    run: str

    @classmethod
    def of(
        cls,
        query: AggregateQuery,
        streams: Mapping[str, Stream],
        changed: Changed,
        found: str,
        batch: int,
    ) -> Self:
        """Return how the alarms of a query follow from what a batch or repair changes."""
        groups = group_types(query, streams)
        shown = ", ".join(f"`{name}` {kind}" for name, kind in groups.items())
        times = "state string, raised_us bigint, cleared_us bigint, change int, merged_into string"
        schema = schema_of(f"alarm string, {shown}{', ' if shown else ''}{times}")
        run = f"{query.name} {found} {batch}"
        return cls(tuple(groups), schema, changed, query.every_us, run)

    def __call__(self, alarms: pa.Table, answers: pa.Table) -> pa.Table:
        """Return the changes of alarms; ``answers``: all revisions of the ticks that may have changed."""
        names, from_us = list(self.names), self.changed.from_us
        known = near(alarms, from_us)
        holding = newest(answers, ["tick_us", *names], "revision").filter(pc.field("holds"))
        both = pa.concat_tables([known.select(["raised_us", *names]), _moments(holding, names)])
        group = coded(both, names)
        order = pa.array(np.lexsort((known["raised_us"].to_numpy(), group[: known.num_rows])))
        known, before = known.take(order), group[: known.num_rows][order.to_numpy()]
        raised, cleared = (known[name].fill_null(OPEN_US).to_numpy() for name in ("raised_us", "cleared_us"))
        ticks = group[known.num_rows :], holding["tick_us"].to_numpy()
        runs = Runs(before, raised, cleared)
        told = followed(runs, *ticks, from_us, self.changed.last_us, self.every_us)
        is_same = np.zeros(len(told.runs), np.bool_)
        old = told.alarm >= 0
        was = told.alarm[old]
        is_same[old] = (told.runs.raised_us[old] == raised[was]) & (told.runs.cleared_us[old] == cleared[was])
        groups = both.take(pa.array(_first_of(group, told.runs.group))).select(names)
        now = _now(known, told, groups).filter(pa.array(~is_same))
        parts = [part.select(self.schema.names).cast(self.schema) for part in (now, _gone(known, told))]
        return named(pa.concat_tables(parts), names, self.run)


def named(told: pa.Table, groups: Sequence[str], run: str) -> pa.Table:
    """Return changes with a name for each new alarm, made of what raised it: a batch or repair, ``run``.

    A name is 128 bits of BLAKE2b: nobody can make groups whose alarms share one.
    """
    own = zip(*(told[name].to_pylist() for name in ("alarm", *groups, "raised_us")), strict=True)
    names = [known or blake2b(repr((run, *of)).encode(), digest_size=16).hexdigest() for known, *of in own]
    place = told.column_names.index("alarm")
    return told.set_column(place, told.field(place), pa.array(names, pa.string()))


def _moments(holding: pa.Table, names: list[str]) -> pa.Table:
    return holding.select(["tick_us", *names]).rename_columns(["raised_us", *names])


def _first_of(group: Int64s, wanted: Int64s) -> Int64s:
    """Return the first position of each group wanted."""
    known, first = np.unique(group, return_index=True)
    positions: Int64s = first[np.searchsorted(known, wanted)]
    return positions


def _now(known: pa.Table, told: Followed, groups: pa.Table) -> pa.Table:
    """Return how the alarm of each run stands; a new one has no name yet."""
    runs, before = told.runs, pa.array(told.alarm, mask=told.alarm < 0)
    is_open = runs.cleared_us == OPEN_US
    columns = {
        "alarm": known["alarm"].take(before),
        **{name: groups[name] for name in groups.column_names},
        "state": pc.if_else(pa.array(is_open), "raised", "cleared"),
        "raised_us": pa.array(runs.raised_us),
        "cleared_us": pa.array(runs.cleared_us, mask=is_open),
        "change": pc.fill_null(pc.add(known["change"].take(before), 1), 0),
        "merged_into": pa.nulls(len(runs), pa.string()),
    }
    return pa.table(columns)


def _gone(known: pa.Table, told: Followed) -> pa.Table:
    """Return alarms that no run continues, with the one that has their time now."""
    heir = np.where(told.run >= 0, told.alarm[told.run], -1) if len(told.alarm) else told.run
    is_gone = heir != np.arange(known.num_rows)
    heirs = pa.array(heir, mask=heir < 0)
    columns = {name: known[name] for name in known.column_names} | {
        "state": pa.repeat("withdrawn", known.num_rows),
        "change": pc.add(known["change"], 1),
        "merged_into": known["alarm"].take(heirs),
    }
    return pa.table(columns).filter(pa.array(is_gone))


@dataclass(frozen=True)
class _Kept:
    """Alarms after some commit of a table: all that were raised then, or cleared at ``since_us`` or later."""

    table: str
    version: int
    since_us: int
    rows: pa.Table

    @classmethod
    def read(cls, path: Path) -> Self | None:
        try:
            rows = pq.read_table(path, partitioning=None)
        except (FileNotFoundError, pa.ArrowInvalid):
            return None
        table, version, since_us = rows.schema.metadata[b"follows"].decode().split()
        return cls(table, int(version), int(since_us), rows.replace_schema_metadata())

    def write(self, path: Path) -> None:
        follows = f"{self.table} {self.version} {self.since_us}"
        with replacing(path, durable=True) as file:
            pq.write_table(self.rows.replace_schema_metadata({"follows": follows}), file)


def standing_alarms(alarms: Location, beside: Path, from_us: int, lately_us: int) -> pa.Table:
    """Return the newest change of each alarm that is raised, or was cleared at ``from_us`` or later.

    ``beside``: the folder that keeps the last answer. ``lately_us``: batches to come will hardly ask for alarms that
    were cleared before.
    """
    # Before its files are read: what is committed meanwhile is read again.
    version, table = newest_version(alarms), table_id(alarms)
    assert version is not None and table is not None
    kept, came = _Kept.read(beside / _FILE), None
    if kept is not None and kept.table == table and kept.since_us <= from_us:
        came = appended_since(alarms, kept.version)
    lately_us = min(from_us, lately_us)
    if kept is None or came is None:
        kept, rows = None, _newest_of(table_reads.parts_between(alarms))
    else:
        columns = arrow_schema(open_table(alarms))
        parts = (fitted(pq.read_table(source(path), partitioning=None), columns) for path in came)
        rows = _newest_of(chain([fitted(kept.rows, columns)], parts))
        lately_us = max(kept.since_us, lately_us)
    standing = near(rows, lately_us)
    if kept is None or kept.version != version:
        _Kept(table, version, lately_us, standing).write(beside / _FILE)
    return near(standing, from_us)


def _newest_of(parts: Iterable[pa.Table]) -> pa.Table:
    """Return the newest change of each alarm, of changes that come in parts."""
    return reduce(lambda known, part: newest(pa.concat_tables([known, part]), ["alarm"], "change"), parts)


def near(changes: pa.Table, from_us: int) -> pa.Table:
    """Return the newest change of each alarm that is raised, or was cleared at some time or later."""
    cleared_us = pc.field("cleared_us")
    is_near = cleared_us.is_null() | (cleared_us >= from_us)
    return newest(changes, ["alarm"], "change").filter((pc.field("state") != "withdrawn") & is_near)
