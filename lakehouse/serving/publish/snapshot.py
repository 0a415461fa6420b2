"""Snapshots of streams for a publisher, as plain values, and the basis of a version."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US, Level
from lakehouse.config.stream import Stream
from lakehouse.serving.publish.macros import ROW_FILES, macros, tables, views
from lakehouse.serving.publish.query_snapshot import QuerySnapshot
from lakehouse.storage.corrections import MOST_RANGES
from lakehouse.storage.doubtful import ranges_in_doubt
from lakehouse.storage.stores.store_path import Location
from sql import statement

ROWS = "*"
# Increased with every change of how nodes are stored that the tables do not show.
_STORED = 3


@dataclass(frozen=True)
class PublishedMeasure:
    """A published measure; ``decimals`` is None for a double, whose sums are rounded.

    ``is_sum``: its values are amounts that add up, such as bytes. No node depends on it, so it is no part of a basis.
    """

    name: str
    type: str
    decimals: int | None = None
    is_counter: bool = False
    is_sum: bool = field(default=False, repr=False)

    @property
    def is_exact(self) -> bool:
        """True if its sums are exact."""
        return self.decimals is not None

    @property
    def default_agg(self) -> str:
        """The aggregate that is asked for where none is given: a temperature or a meter's reading does not add up."""
        if self.name == ROWS:
            return "count"
        return "increase" if self.is_counter else "sum" if self.is_sum else "avg"


def measures_of(stream: Stream) -> list[PublishedMeasure]:
    """Return the published measures of a stream."""
    columns = stream.all_columns
    return [
        PublishedMeasure(m, columns[m].type, columns[m].scale, m in stream.counters, m in stream.sums)
        for m in stream.measures
    ]


@dataclass(frozen=True)
class Total:
    """A total of all nodes of one level, grouping and measure, added up by Arrow or Spark."""

    level: int
    grouping: int
    measure: str
    rows: int
    n: int
    total: float | int | Decimal | None


class UncheckedRange(NamedTuple):
    """Rows with a value of a measure, or rows (measure ``*``), between two event times, both included.

    ``below`` and ``above`` are the sums of values below and above zero, ``least`` and ``greatest`` their ends.
    """

    measure: str
    from_us: int
    to_us: int
    n: int
    below: float
    above: float
    least: float | None
    greatest: float | None


@dataclass(frozen=True)
class ChangedNodes:
    """New data of a stream after the batch ``after``: files of partial nodes and of the ledger, all of it if corrected.

    These hold all batches since; a file may hold earlier ones too, which do not count again. ``ranges`` are those of
    whole top nodes that corrections after ``rebuilt`` have built again: their nodes, all of them, are in files of
    folded nodes, ``again``, and partial nodes of these times do not count. ``is_corrected``: a correction came since,
    which may change times in any row of the ledger.
    """

    after: int
    nodes: Sequence[Location]
    ledger: Sequence[Location]
    rebuilt: int = 0
    ranges: Sequence[tuple[int, int]] = ()
    again: Sequence[Location] = ()
    is_corrected: bool = False

    @property
    def counted(self) -> int:
        """The last batch whose row of the ledger is as the version has it."""
        return 0 if self.is_corrected else self.after

    @property
    def has_nodes(self) -> bool:
        """True if there are files of nodes."""
        return bool(self.nodes or self.again)

    def within(self, start: str = "start_us") -> str:
        """Return SQL for whether nodes of a start are built again."""
        if not self.ranges:
            return "false"
        hull = f"{start} >= {self.ranges[0][0]} AND {start} < {self.ranges[-1][1]}"
        own = (f"{start} >= {low} AND {start} < {high}" for low, high in self.ranges)
        return f"({hull} AND ({' OR '.join(own)}))"


@dataclass(frozen=True)
class StreamSnapshot:
    """One stream as it is to be published.

    ``nodes`` is a folder of parquet files with folded nodes at or above their horizons, ``ledger`` one with a row per
    ingest batch; ``confirmed_us`` is the time that horizons count from. None if there are none yet. ``horizons`` has
    one entry per level, finest first. ``entered`` counts per level the rows for which it was the finest that kept their
    time when they came. ``since`` says from when on the values of measures that were added later are known.
    ``correction`` is the number of the last correction of its history, ``rebuilt`` that of the last one that changed
    nodes, and whether it is done, and ``rebuilds`` those of all, with the ranges of time whose nodes were built again,
    None where others changed, too; all raw rows from ``raw_from_us`` on exist. ``unchecked`` are the rows that may
    repeat others, ``ambiguous`` those that may be missing, as their local time comes twice in ``timezone``. If
    ``changed`` is given, ``nodes``, ``ledger`` and ``totals`` are not: these changes and the current version are
    everything.
    """

    name: str
    definition: str
    groupings: Sequence[Sequence[str]]
    measures: Sequence[PublishedMeasure]
    levels: Sequence[Level]
    horizons: Sequence[int]
    newest_us: int | None
    confirmed_us: int | None
    batch: int
    latest_us: int
    raw_path: str
    nodes: Path | None = None
    ledger: Path | None = None
    earliest_us: int | None = None
    quarantine: Mapping[str, int] = field(default_factory=dict)
    closed: Mapping[str, int] = field(default_factory=dict)
    totals: Sequence[Total] = ()
    entered: Sequence[int] = ()
    since: Mapping[str, int] = field(default_factory=dict)
    correction: int = 0
    raw_from_us: int | None = None
    retracted: int = 0
    unchecked: Sequence[UncheckedRange] = ()
    ambiguous: Sequence[UncheckedRange] = ()
    timezone: str = "UTC"
    rebuilt: int = 0
    rebuilds: Sequence[tuple[int, Sequence[tuple[int, int]] | None]] = ()
    changed: ChangedNodes | None = None

    @property
    def key_names(self) -> tuple[str, ...]:
        """Every key that some grouping holds, in order of first use."""
        return tuple(dict.fromkeys(key for grouping in self.groupings for key in grouping))

    @property
    def meter_grouping(self) -> int | None:
        """The place of the grouping with all keys, by which counters are kept apart; None if there is none."""
        whole = (place for place, keys in enumerate(self.groupings) if set(keys) == set(self.key_names))
        return next(whole, None)

    def rebuilt_since(self, rebuilt: int) -> Sequence[tuple[int, int]] | None:
        """Return the ranges of time whose nodes corrections after one have built again, None where any may differ."""
        # Who asks or opens a version waits for no NumPy.
        import numpy as np

        from lakehouse.algorithms.late_join.ranges import covering_ranges

        if self.rebuilt == rebuilt:
            return ()
        later = [ranges for number, ranges in self.rebuilds if number > rebuilt]
        known = [ranges for ranges in later if ranges is not None]
        if not later or len(known) < len(later):
            return None
        lows, highs = np.array([each for ranges in known for each in ranges], np.int64).reshape(-1, 2).T
        return covering_ranges(lows, highs, MOST_RANGES)

    def basis(self) -> str:
        """Return the hash of what all nodes depend on but batches and corrections; while it stays nodes are shared."""
        shown = (
            _STORED,
            statement("serving/segment"),
            self.definition,
            [list(one) for one in self.groupings],
        )
        forgets = [horizon > KEPT_FOREVER_US for horizon in self.horizons]
        made = (list(self.measures), list(self.levels), forgets, sorted(self.since.items()))
        return hashlib.sha256(repr((*shown, *made)).encode()).hexdigest()

    def identity(self) -> str:
        """Return a text that determines the published content: equal texts publish the same answers."""
        shown = (
            self.name,
            self.definition,
            [list(grouping) for grouping in self.groupings],
            [(measure, measure.default_agg) for measure in self.measures],
        )
        times = (self.newest_us, self.confirmed_us, self.earliest_us, self.latest_us)
        doubtful = (list(self.unchecked), list(self.ambiguous), self.timezone)
        # Nodes change between the two rows of a correction, too.
        changing = (sorted(self.quarantine.items()), self.correction, self.rebuilt, *doubtful)
        kept = (list(self.levels), list(self.horizons))
        return repr((*shown, *kept, *times, self.batch, self.raw_path, *changing))


def totals_of(row: Mapping[str, Any], measures: Sequence[PublishedMeasure]) -> list[Total]:
    """Return the totals of one level and grouping, of its rows and of each measure."""
    level, grouping, rows = row["level"], row["grouping"], row["rows"]
    named = [
        Total(level, grouping, m.name, rows, row[f"{m.name}__n"] or 0, row[f"{m.name}__sum"])
        for m in measures
    ]
    return [Total(level, grouping, ROWS, rows, rows, None), *named]


def fingerprint(
    streams: Sequence[StreamSnapshot], queries: Sequence[QuerySnapshot] = (), withheld: Sequence[object] = ()
) -> str:
    """Return the hash of everything that determines a version: streams, queries, batches, definitions and macros.

    ``withheld``: the streams whose state in the version before stays, and why.
    """
    digest = hashlib.sha256()
    filled = sorted({file for query in queries for file in query.statements})
    for created in (
        *tables(),
        *views(),
        *macros(),
        *(statement(f"serving/{file}") for file in (*filled, *ROW_FILES)),
    ):
        digest.update(created.encode())
    for stream in sorted(streams, key=lambda stream: stream.name):
        digest.update(stream.identity().encode())
    for query in sorted(queries, key=lambda query: query.name):
        digest.update(query.identity().encode())
    digest.update(repr(list(withheld)).encode() if withheld else b"")
    return digest.hexdigest()


def ranges_through(table: Location, batch: int, reason: str) -> list[UncheckedRange]:
    """Return the ranges of a reason of batches up to one, in order; none where there is no table."""
    names, rows = UncheckedRange._fields, ranges_in_doubt(table, batch)
    return sorted(UncheckedRange(*(row[name] for name in names)) for row in rows if row["reason"] == reason)


def in_ladder(ranges: Sequence[UncheckedRange], measure: str) -> list[dict[str, Any]]:
    """Return the ranges of a measure as its rows of the ladder hold them."""
    return [
        {name: value for name, value in one._asdict().items() if name != "measure"}
        for one in ranges
        if one.measure == measure
    ]
