"""A registered join of three streams or more as it stands, and explained: its plan, its sides, its batches."""

from collections.abc import Iterator
from dataclasses import dataclass

from lakehouse.queries.language.words import clock_in_words
from lakehouse.queries.multiway.query import (
    MultiwayQuery,
    counts_in_words,
    equalities_in_words,
    slack_in_words,
    ways_in_words,
)
from lakehouse.queries.multiway.sites import transfer_of
from lakehouse.queries.runtime.state import (
    Declared,
    Facts,
    QueryState,
    batch_sums,
    completeness_of,
    conditions_on,
    last,
    outputs_of,
    repairs_of,
    target_of,
)

BATCH_METRICS = ("results", "shuffled", "collected")
COSTS = ("planned_cost", "real_cost")
_COUNTED = ("rows", "missed", "refused", "unusable")


@dataclass(frozen=True)
class MultiwayState(QueryState):
    """One join of three streams or more, as its tables have it."""

    query: MultiwayQuery

    def own_summary(self) -> Facts:
        """Return what it joins, results found online and by repair, rows that left their site, and bytes moved."""
        metrics = self.metrics
        return {
            "condition": equalities_in_words(self.query),
            "slack_us": None if self.query.recall is not None else self.query.slack_us,
            "recall": self.query.recall,
            "period_us": self.query.period_us,
            "results_online": metrics.standing("results"),
            "results_repaired": metrics.standing_repaired,
            "left": sum(left_site(row) for row in metrics.rows if row["side"] >= 0),
            **{name: metrics.total(name) for name in COSTS},
            "moved_bytes": metrics.total("shuffled") + metrics.total("collected"),
        }


state_of = MultiwayState


def left_site(row: Facts) -> int:
    """Return how many of one side's new rows left their site; all that can join where nothing was pruned."""
    return int(row["moved"][0]) if row["moved"] else _joinable(row)


def pruned(row: Facts) -> int:
    """Return how many of one side's new rows stayed at home, as nothing could join them."""
    return _joinable(row) - left_site(row)


def _joinable(row: Facts) -> int:
    return int((row["rows"] or 0) - (row["refused"] or 0) - (row["unusable"] or 0))


def explain(state: MultiwayState, declared: Declared) -> Facts:
    """Return what is known of a query of this kind alone, as plain values."""
    return {
        "plan": _plan(state.query, declared),
        "sides": list(_sides(state)),
        "last_batches": last(batches(state)),
        **(completeness_of(state) or _completeness(state)),
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
        "outputs": outputs_of(query),
        "transfer": transfer,
        "ways": ways_in_words(query, transfer),
        "counts": counts_in_words(query),
        "slack": slack_in_words(query),
        "clock": clock_in_words(query.idle_us, query.ahead_us),
        **target_of(query),
    }


def _sides(state: MultiwayState) -> Iterator[Facts]:
    """Yield each side: its window after the last batch, and what became of all its rows."""
    held = {row["side"]: row["held"] for row in state.metrics.last_batch}
    slack_us = {row["side"]: row["slack_us"] for row in state.metrics.last_batch}
    for number, side in enumerate(state.query.sides):
        own = [row for row in state.metrics.rows if row["side"] == number]
        yield {
            "side": side.alias,
            "held": held.get(number, 0),
            "slack_us": slack_us.get(number),
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
    told |= {name: row[name] or 0.0 for name in COSTS} | {"slack_us": row["slack_us"]}
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
    found = {"online": online, "repaired": repaired, "recall": online / whole if whole else None}
    return {"completeness": found}
