"""Plan of a changed declaration for an existing rollup: what is built again, from what, and what will be missing.

keeps alone                 no rebuild: horizons move on; where one would move back, what is gone stays gone
levels, groupings,          a rebuild: from raw rows where they are kept, before that from the old nodes
measures
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US, horizons
from lakehouse.config.durations import format_duration, format_timestamp
from lakehouse.config.stream import Stream
from lakehouse.storage.tables.backfill import plan_backfill
from lakehouse.storage.tables.rollup_table import RollupSchema, declared_schema, same_but_keeps


@dataclass(frozen=True)
class SchemaChange:
    """Sentences on a change: its ``effects``, what it ``lacks`` for older times, and ``refusals`` that forbid it."""

    needs_rebuild: bool
    effects: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()


def compare_schemas(
    stream: Stream,
    schema: RollupSchema,
    newest_us: int | None,
    raw_us: int | None,
    earliest_us: int | None,
    later: Mapping[str, int] | None = None,
) -> SchemaChange:
    """Compare a stream with what its rollup was built for.

    ``raw_us`` is since when all raw rows are kept (None: all are), ``earliest_us`` the earliest event time accepted,
    ``later`` since when new columns are in raw that older rows lack.
    """
    now = declared_schema(stream)
    if newest_us is None:
        return SchemaChange(not same_but_keeps(now, schema))
    held = replace(schema, floors=tuple(schema.horizons(newest_us)))
    if same_but_keeps(now, schema):
        effects = tuple(_keeps(now, held, newest_us))
        return SchemaChange(False, effects, (), tuple(_erased(now, held, newest_us, earliest_us)))
    plan = plan_backfill(stream, held, raw_us, earliest_us, later)
    source = (
        f"raw rows since {format_timestamp(plan.from_us)}, and before that from the nodes that are there"
        if raw_us
        else "raw rows"
    )
    effects = (
        *_structure(now, schema),
        f"`tidemark rebuild {stream.name}` builds all nodes again, from {source}",
    )
    return SchemaChange(True, effects, tuple(plan.schema.lacks(newest_us)), tuple(plan.refusals))


def _keeps(now: RollupSchema, held: RollupSchema, newest_us: int) -> Iterator[str]:
    ahead = horizons(now.levels, newest_us)
    for place, (level, old) in enumerate(zip(now.levels, held.levels, strict=True)):
        if level.keep_us == old.keep_us:
            continue
        width, keep, before = map(format_duration, (level.width_us, level.keep_us, old.keep_us))
        changed = f"level {width}: kept for {keep} instead of {before}"
        if ahead[place] > held.floors[place] and place + 1 < len(now.levels):
            coarser = format_duration(now.levels[place + 1].width_us)
            yield f"{changed}: its nodes before {format_timestamp(ahead[place])} go, {coarser} is the finest there then"
        elif ahead[place] < held.floors[place]:
            floor = format_timestamp(held.floors[place])
            yield f"{changed}: from now on; its nodes before {floor} are gone and stay gone"


def _erased(now: RollupSchema, held: RollupSchema, newest_us: int, earliest_us: int | None) -> Iterator[str]:
    """Yield a sentence when the last level would drop times that no other level holds."""
    start = horizons(now.levels, newest_us)[-1]
    if start > max(held.floors[-1], KEPT_FOREVER_US if earliest_us is None else earliest_us):
        yield (
            f"the last level would forget the time before {format_timestamp(start)}, which no other holds: keep it, or "
            "add a coarser level that keeps it"
        )


def _structure(now: RollupSchema, schema: RollupSchema) -> Iterator[str]:
    widths = [[format_duration(level.width_us) for level in one.levels] for one in (now, schema)]
    groupings = [[str(list(keys)) for keys in one.groupings] for one in (now, schema)]
    for what, (new, old) in {"level": widths, "grouping": groupings}.items():
        yield from (f"{what} {name} is new" for name in new if name not in old)
        yield from (f"{what} {name} goes" for name in old if name not in new)
    for name in {**now.measures, **schema.measures}:
        if name not in schema.measures:
            yield f"measure {name} is new"
        elif name not in now.measures:
            yield f"measure {name} goes"
        elif now.measures[name] != schema.measures[name]:
            yield f"measure {name} has another type: counted as new"
