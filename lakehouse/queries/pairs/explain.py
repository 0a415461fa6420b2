"""A registered query explained: what it does in words, what each bucket holds, what it missed and what is owed.

Reads the query's tables as they are now, not a published version; starts no JVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import duckdb

from lakehouse.algorithms.late_join.margin import judged_share, usual_margin
from lakehouse.queries.language.row_conditions import where_of
from lakehouse.queries.pairs.completeness import Completeness
from lakehouse.queries.pairs.describe import buckets_in_words, clock_in_words, policy_in_words
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.pairs.state import JoinState
from lakehouse.queries.runtime.batch_manifest import read_plan
from lakehouse.queries.runtime.batch_metrics import is_open
from lakehouse.queries.runtime.operators import Side, conditions_of
from lakehouse.queries.runtime.state import QueryState, newest_time
from lakehouse.serving.literals import parquet_of

Facts = dict[str, Any]
LAST = 10
_COUNTED = ("rows", "pairs", "missed", "refused", "unusable", "late_after_silence")
_HELD = ("held", "most_held", "bytes")


def explain(state: JoinState, completeness: Completeness) -> Facts:
    """Return all that is known of a query, as plain values; times in microseconds, None for no time yet."""
    query = state.query
    return {
        **state.facts(),
        "text": query.text,
        "meant_before": state.meant,
        "means": state.means,
        "plan": _plan(query, state.buckets),
        "buckets": list(_buckets(state)),
        "last_batches": list(batches(state))[-LAST:],
        "completeness": completeness.facts(),
        "to_repair": to_repair(state),
        "last_repairs": state.figures.repairs[-LAST:],
        **scans_explained(state),
    }


def _plan(query: PairsQuery, buckets: int) -> Facts:
    margin = None if query.policy == "paper" else usual_margin(query.recall)
    return {
        "sides": [
            {"stream": s.stream, "alias": s.alias, **asked_of(s), "keys": s.keys, "numbers": s.numbers}
            for s in query.sides
        ],
        "outputs": [
            {"name": each.name, "stream": query.sides[each.side].stream, "column": each.column}
            for each in query.outputs
        ],
        "step_us": query.step_us,
        "policy": query.policy,
        "margin": margin,
        "judged_recall": None if margin is None else judged_share(query.recall, margin),
        "slack": policy_in_words(query),
        "buckets": buckets,
        "spread": buckets_in_words(query, buckets),
        "clock": clock_in_words(query),
    }


def _buckets(state: JoinState) -> Iterator[Facts]:
    """Yield each bucket as the last batch left it, with what it has counted since the first."""
    now = {row["bucket"]: row for row in state.figures.last_batch}
    for bucket in sorted({row["bucket"] for row in state.figures.rows} - {-1}):
        own = [row for row in state.figures.rows if row["bucket"] == bucket]
        last = now.get(bucket, own[-1])
        shown = ("bucket", *_HELD, "left_slack_us", "right_slack_us", "time_us")
        yield {
            **{name: last[name] for name in shown},
            **{name: sum(row[name] for row in own) for name in _COUNTED},
        }


def batches(state: JoinState) -> Iterator[Facts]:
    """Yield each finished batch: sums over its buckets, the range of their slacks, the newest stream time.

    ``most_held`` adds the most that each bucket held, which need not have been at one moment.
    """
    for number, of_batch in groupby(state.figures.rows, key=lambda row: row["batch"]):
        rows = list(of_batch)
        slacks = {
            f"{side}_slack_us": [row[f"{side}_slack_us"] for row in rows if row["bucket"] >= 0]
            for side in ("left", "right")
        }
        yield {
            "batch": number,
            "committed_at": rows[0]["committed_at"],
            **{name: sum(row[name] or 0 for row in rows) for name in (*_COUNTED, *_HELD)},
            **{name: (min(found), max(found)) if found else None for name, found in slacks.items()},
            "time_us": newest_time(rows),
        }


def asked_of(side: Side) -> Facts:
    """Return what WHERE says of a side; where one of its conditions calls a predicate, each by itself too."""
    asked = {"conditions": conditions_of(side.conjuncts)} if side.conjuncts else {}
    return {"where": where_of(side), **asked}


def scans_explained(state: QueryState) -> Facts:
    """Return why the conditions on sides stand as they do, and the last scans; nothing where none calls a predicate."""
    if state.scans is None:
        return {}
    return {"why": list(state.scans.why()), "last_scans": list(state.scans.batches())[-LAST:]}


def to_repair(state: QueryState) -> Facts:
    """Return how many logged rows no repair has looked at, of which batches and times, and if one was begun."""
    figures = state.figures
    begun = read_plan(state.layout.plans(state.query.name), "repair", figures.last_repair + 1)
    found: Facts = {
        "rows": figures.total("missed", after=figures.repaired),
        "oldest_us": None,
        "newest_us": None,
    }
    late = parquet_of(state.layout.late(state.query.name))
    if found["rows"] and late:
        with duckdb.connect(":memory:") as connection:
            times = connection.execute(
                f"SELECT min(event_us), max(event_us) FROM {late} WHERE {is_open(figures.repaired, figures.finished)}"
            ).fetchone()
        found["oldest_us"], found["newest_us"] = times or (None, None)
    batches = [figures.repaired + 1, figures.finished] if figures.finished > figures.repaired else None
    return {**found, "batches": batches, "begun": begun is not None}
