"""Which batch of a registered query comes next: the one that was begun, or one of what ingest has finished since.

And which batch took in a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.catalog.crashpoint import crash_point
from lakehouse.catalog.layout import Home
from lakehouse.catalog.ledger import Entry, read_ledger
from lakehouse.catalog.plans import Plan, finished, next_spans, read_plans, write_plan
from lakehouse.catalog.queries import Query
from lakehouse.spark import tables

Ledgers = Mapping[str, Sequence[Entry]]
# What a batch holds in memory at most, unless one ingest batch has more.
MOST_ROWS = 2_000_000


def next_batch(
    layout: Home,
    query: Query,
    most_rows: int,
    ledgers: Ledgers | None = None,
    told: int = 0,
) -> Plan | None:
    """Return the batch that was begun and is not finished, or write down the next one; None when all is taken.

    Before every stream has a raw table there can be no result, and nothing is taken in.

    ``ledgers``: by stream, read before; so that several queries are planned by the same ones.
    ``told``: as in ``Plan``, of a batch that is written down now.
    """
    if not all(tables.exists(layout.raw(stream)) for stream in query.streams):
        return None
    folder = layout.plans(query.name)
    plans = read_plans(folder, "batch")
    if plans and plans[-1].number > finished(layout, query.name):
        return plans[-1]
    taken = plans[-1].spans if plans else tuple((0, 0) for _ in query.streams)
    known = {stream: read_ledger(layout, stream) for stream in query.streams} if ledgers is None else ledgers
    spans = next_spans(taken, [known[stream] for stream in query.streams], most_rows)
    if spans is None:
        return None
    plan = Plan(len(plans) + 1, spans, told)
    write_plan(folder, "batch", plan)
    crash_point("queries.planned")
    return plan


def taken_in(plans: Sequence[Plan]) -> Column:
    """Return which batch of the query took in a row, from its side and ingest batch; ``plans``: all from the first."""
    taken = F.lit(None).cast("bigint")
    for side in range(len(plans[-1].spans)):
        ends = F.array(*(F.lit(plan.spans[side][1]) for plan in plans))
        # The first batch that reaches as far: batches of the query are numbered from 1.
        number = F.size(F.filter(ends, lambda end: end < F.col("batch"))) + 1
        taken = F.when(F.col("side") == side, number.cast("bigint")).otherwise(taken)
    return taken
