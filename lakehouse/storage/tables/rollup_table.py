"""Properties of a rollup table, read without an engine: its schema, gaps of older times, its contents.

    tidemark.definition   levels, groupings and measures, as one line (``Stream.definition``)
    tidemark.floors       per level: since when its nodes are there, where its horizon would reach further back
    tidemark.since        per measure that came later: since when its values are known

A horizon follows from the newest time and what a level keeps. When a level shall keep more, or is new, its
horizon would move back over nodes that do not exist: there the floor holds.

What it contains its commits say in rows that are no nodes. Level 0 holds markers. The level's number below zero holds
how many rows entered at a level, the finest that kept their time when they came; those above the finest level came too
late for the finer ones.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US, Level, horizons
from lakehouse.config.durations import format_duration, format_timestamp, parse_duration
from lakehouse.config.stream import Stream
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import read_columns, read_log

_DEFINITION = re.compile(r"levels \[(.*)\] groupings \[(.*)\] measures \[(.*)\]")


@dataclass(frozen=True)
class RollupSchema:
    """Levels, groupings and measures (name -> type and scale) of a rollup table, floors and since-times in us."""

    levels: tuple[Level, ...]
    groupings: tuple[tuple[str, ...], ...]
    measures: Mapping[str, str]
    floors: tuple[int, ...] = ()
    since: Mapping[str, int] = field(default_factory=dict)

    def horizons(self, newest_us: int | None) -> list[int]:
        """Return since when each level has its nodes, finest first; never less far back from one to the next."""
        if newest_us is None:
            return [KEPT_FOREVER_US] * len(self.levels)
        floors = self.floors or (KEPT_FOREVER_US,) * len(self.levels)
        return descending([max(pair) for pair in zip(horizons(self.levels, newest_us), floors, strict=True)])

    def lacks(self, newest_us: int | None) -> list[str]:
        """Return what older times lack, one sentence each; nothing where horizons are the only limit."""
        if newest_us is None:
            return []
        pairs = zip(self.levels, self.horizons(newest_us), horizons(self.levels, newest_us), strict=True)
        sentences = [
            f"level {format_duration(level.width_us)}: its nodes are kept since {format_timestamp(start)} only"
            for level, start, horizon in pairs
            if start > horizon
        ]
        return sentences + [
            f"measure {name}: its values are known since {format_timestamp(start)} only"
            for name, start in self.since.items()
        ]

    def properties(self) -> dict[str, str]:
        """Return floors and since-times as properties of the table."""
        floors = self.floors or (KEPT_FOREVER_US,) * len(self.levels)
        return {"tidemark.floors": json.dumps(list(floors)), "tidemark.since": json.dumps(dict(self.since))}


def descending(starts: Sequence[int]) -> list[int]:
    """Return starts that never grow from one level to the next: a node is kept only where its parent is."""
    found: list[int] = []
    for start in reversed(starts):
        found.append(max(start, found[-1]) if found else start)
    return found[::-1]


def declared_schema(stream: Stream) -> RollupSchema:
    """Return the schema that a stream declares now; nothing is lacking."""
    return parse_definition(stream.definition())


def parse_definition(definition: str) -> RollupSchema:
    """Read a definition back. Raises ValueError when the text is no definition."""
    found = _DEFINITION.fullmatch(definition)
    if not found:
        raise ValueError(
            f'expected a definition "levels [...] groupings [...] measures [...]", found {definition!r}'
        )
    levels = tuple(_level(text) for text in found[1].split(", "))
    groupings = tuple(tuple(key for key in text.split(",") if key) for text in found[2].split("; "))
    measures = dict(text.split(":", 1) for text in found[3].split(", ") if text)
    return RollupSchema(levels, groupings, measures)


def read_rollup_schema(table: Location) -> RollupSchema | None:
    """Return the schema of a rollup table, None where there is no table."""
    log = read_log(table)
    return None if log is None else schema_of_properties(log.properties)


def schema_of_properties(properties: Mapping[str, str]) -> RollupSchema:
    """Return the schema of a rollup table with these properties."""
    schema = parse_definition(properties["tidemark.definition"])
    floors = tuple(json.loads(properties.get("tidemark.floors", "[]")))
    since = json.loads(properties.get("tidemark.since", "{}"))
    return RollupSchema(schema.levels, schema.groupings, schema.measures, floors, since)


def same_but_keeps(now: RollupSchema, schema: RollupSchema) -> bool:
    """Return whether schemas differ at most in how long levels keep their nodes."""
    widths = [[level.width_us for level in one.levels] for one in (now, schema)]
    return widths[0] == widths[1] and (now.groupings, now.measures) == (schema.groupings, schema.measures)


@dataclass(frozen=True)
class Marker:
    """Contents of a rollup table: ingest batches up to ``batch``; levels reach back from the time ``newest_us``.

    It is the confirmed newest time (``algorithms/ingest/confirmed.py``): rows may be ahead of it.
    """

    newest_us: int | None
    batch: int


def read_marker(table: Location) -> Marker:
    """Return what a rollup table contains; batch 0 and no time when it is empty or missing."""
    marks = read_columns(table, ("start_us", "batch"), ("level", 0, 0))
    newest = max((time for time, _ in marks if time is not None), default=None)
    return Marker(newest, max((batch for _, batch in marks), default=0))


def read_level_counts(table: Location, levels: int) -> list[int]:
    """Return how many rows entered at each level, finest first."""
    counts = (read_columns(table, ("rows",), ("level", -level, -level)) for level in range(1, levels + 1))
    return [sum(rows for (rows,) in level) for level in counts]


def _level(text: str) -> Level:
    width, _, keep = text.partition(" for ")
    return Level(parse_duration(width), None if keep == "forever" else parse_duration(keep))
