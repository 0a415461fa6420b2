"""Backfill: which nodes of an old rollup a rebuild takes over, for times whose raw rows are gone.

A level is combined from the coarsest old level whose width divides its own: that one reaches furthest back, and a
node has all rows of its time whatever its width. A grouping is combined from the smallest old one that has its keys.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US
from lakehouse.config.durations import format_duration, format_timestamp
from lakehouse.config.stream import Stream
from lakehouse.storage.tables.rollup_table import RollupSchema, declared_schema, descending


@dataclass(frozen=True)
class Backfill:
    """Old level and grouping of which each new one is made before ``from_us``; from there on it is made of raw rows.

    ``schema`` is that of the new table, with what older times lack. ``refusals`` say why it cannot be made.
    """

    from_us: int
    schema: RollupSchema
    sources: Mapping[int, int] = field(default_factory=dict)
    groupings: Mapping[int, int] = field(default_factory=dict)
    refusals: Sequence[str] = ()


def new_columns(stream: Stream, schema: RollupSchema | None) -> list[str]:
    """Return the measures and keys that old nodes do not have; raw rows may lack them too."""
    if schema is None:
        return []
    known = {key for keys in schema.groupings for key in keys}
    now = declared_schema(stream).measures
    measures = [name for name, kind in now.items() if schema.measures.get(name) != kind]
    return [*measures, *(key for key in stream.grouping_keys if key not in known)]


def plan_backfill(
    stream: Stream,
    schema: RollupSchema | None,
    raw_us: int | None,
    earliest_us: int | None,
    later: Mapping[str, int] | None = None,
) -> Backfill:
    """Return the backfill of a rebuild, given that all raw rows from ``raw_us`` on (None: all) are there.

    ``later`` tells of new columns that older raw rows lack since when these are there.
    """
    now, later = declared_schema(stream), later or {}
    lacking = list(_lacking(now, later))
    unknown = {name: since for name, since in later.items() if name in now.measures}
    if raw_us is None or schema is None:
        made = RollupSchema(now.levels, now.groupings, now.measures, now.floors, unknown)
        return Backfill(KEPT_FOREVER_US, made, refusals=lacking)
    top = now.levels[-1].width_us
    from_us = -(-raw_us // top) * top
    sources, floors, refusals = _levels(now, schema, from_us, earliest_us)
    groupings = {
        new: old for new, keys in enumerate(now.groupings) if (old := _grouping(keys, schema)) is not None
    }
    for keys in (keys for new, keys in enumerate(now.groupings) if new not in groupings):
        refusals.append(
            f"grouping {list(keys)} cannot be had for times whose raw rows are gone: no earlier grouping has its keys; "
            "declare it without, or as a stream of its own"
        )
    since = {
        name: min(schema.since.get(name, from_us), from_us) for name in now.measures if name in schema.since
    }
    new = {name: from_us for name, kind in now.measures.items() if schema.measures.get(name) != kind}
    new = {name: max(start, unknown.get(name, start)) for name, start in new.items()}
    made = RollupSchema(now.levels, now.groupings, now.measures, tuple(floors), since | new)
    return Backfill(from_us, made, sources, groupings, [*lacking, *refusals])


def _lacking(now: RollupSchema, later: Mapping[str, int]) -> Iterator[str]:
    """Tell which groupings have a key that older raw rows lack: their series would be wrong for those times."""
    for keys in now.groupings:
        lacked = [key for key in keys if key in later]
        if lacked:
            since = format_timestamp(max(later[key] for key in lacked))
            yield f"grouping {list(keys)} cannot be had: raw rows before {since} have no {', '.join(lacked)}"


def _levels(
    now: RollupSchema, schema: RollupSchema, from_us: int, earliest_us: int | None
) -> tuple[dict[int, int], list[int], list[str]]:
    sources: dict[int, int] = {}
    floors: list[int] = []
    for number, level in enumerate(now.levels, start=1):
        fitting = [n for n, old in enumerate(schema.levels, start=1) if level.width_us % old.width_us == 0]
        parent = now.levels[min(number, len(now.levels) - 1)].width_us
        start = from_us
        if fitting:
            sources[number] = fitting[-1]
            start = min(start, schema.floors[fitting[-1] - 1])
        floors.append(start if start == KEPT_FOREVER_US else -(-start // parent) * parent)
    refusals = []
    oldest = KEPT_FOREVER_US if earliest_us is None else earliest_us
    if floors[-1] > max(oldest, schema.floors[-1]):
        width, old = format_duration(now.levels[-1].width_us), format_duration(schema.levels[-1].width_us)
        refusals.append(
            f"nodes of {width} cannot hold the history older than raw, which is kept in nodes of {old}: "
            f"keep a last level of {old} or a multiple of it"
        )
    return sources, descending(floors), refusals


def _grouping(keys: Sequence[str], schema: RollupSchema) -> int | None:
    fitting = [old for old, known in enumerate(schema.groupings) if set(keys) <= set(known)]
    return min(fitting, key=lambda old: len(schema.groupings[old]), default=None)
