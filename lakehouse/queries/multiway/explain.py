"""A registered join of three streams or more explained: its plan, what each batch moved on which way, what is owed."""

from __future__ import annotations

from collections.abc import Iterator

from lakehouse.queries.kind import clock_in_words
from lakehouse.queries.multiway.describe import counts_in_words, slack_in_words, ways_in_words
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.multiway.sites import transfer_of
from lakehouse.queries.multiway.state import BATCH_METRICS, COSTS, MultiwayState, left_site, pruned
from lakehouse.queries.runtime.explain import Declared, batch_sums, conditions_on, last, repairs_of
from lakehouse.queries.runtime.state import Facts

_COUNTED = ("rows", "missed", "refused", "unusable")


def explain(state: MultiwayState, declared: Declared) -> Facts:
    """Return what is known of a query of this kind alone, as plain values."""
    return {
        "plan": _plan(state.query, declared),
        "sides": list(_sides(state)),
        "last_batches": last(batches(state)),
        "completeness": _completeness(state),
        **repairs_of(state),
    }


def _plan(query: MultiwayQuery, declared: Declared) -> Facts:
    streams = declared.streams
    transfer = transfer_of(query, streams, declared.site_costs)
    return {
        "sides": [
            {
                "stream": side.stream,
                "alias": side.alias,
                "site": streams[side.stream].site,
                "window_us": side.window_us,
                **conditions_on(side),
                "keys": side.keys,
            }
            for side in query.sides
        ],
        "outputs": [
            {"name": each.name, "stream": query.sides[each.side].stream, "column": each.column}
            for each in query.outputs
        ],
        "transfer": transfer,
        "ways": ways_in_words(query, transfer),
        "counts": counts_in_words(),
        "slack": slack_in_words(query),
        "clock": clock_in_words(query.idle_us, query.ahead_us),
    }


def _sides(state: MultiwayState) -> Iterator[Facts]:
    """Yield each side: its window after the last batch, and what became of all its rows."""
    held = {row["side"]: row["held"] for row in state.metrics.last_batch}
    for number, side in enumerate(state.query.sides):
        own = [row for row in state.metrics.rows if row["side"] == number]
        yield {
            "side": side.alias,
            "held": held.get(number, 0),
            **{name: sum(row[name] or 0 for row in own) for name in (*_COUNTED, *COSTS)},
            "pruned": sum(map(pruned, own)),
            "left": sum(map(left_site, own)),
        }


def batches(state: MultiwayState) -> Iterator[Facts]:
    """Yield each finished batch: results, bytes moved, and per side its rows, their way and what that cost."""
    for rows, sums in batch_sums(state, (*BATCH_METRICS, "bytes")):
        whole = next((row for row in rows if row["side"] < 0), {})
        told = {name: whole.get(name) for name in ("joined", "why")}
        yield {**sums, **told, "sides": [_side(state, row) for row in rows if row["side"] >= 0]}


def _side(state: MultiwayState, row: Facts) -> Facts:
    aliases = [side.alias for side in state.query.sides]
    told = {name: row[name] for name in _COUNTED}
    told |= {name: row[name] or [] for name in ("planned", "moved")}
    told |= {name: row[name] or 0.0 for name in COSTS}
    order = [aliases[stop] for stop in row["visits"] or ()]
    return {
        "side": aliases[row["side"]],
        **told,
        "pruned": pruned(row),
        "left": left_site(row),
        "order": order,
    }


def _completeness(state: MultiwayState) -> Facts:
    """Return how many results were found when, and the share of them found at once."""
    online, repaired = (state.summary()[f"results_{found}"] for found in ("online", "repaired"))
    whole = online + repaired
    return {"online": online, "repaired": repaired, "recall": online / whole if whole else None}
