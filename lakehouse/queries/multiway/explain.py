"""A registered join of three streams or more explained: what it does, what each batch moved on which way, what is owed.

Reads the query's tables as they are now, not a published version; starts no JVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from lakehouse.declare.stream import Stream
from lakehouse.queries.multiway.describe import clock_in_words, counts_in_words, slack_in_words, ways_in_words
from lakehouse.queries.multiway.sites import Costs, transfer_of
from lakehouse.queries.multiway.state import BATCH_FIGURES, COSTS, MultiwayState, left_site, pruned
from lakehouse.queries.pairs.explain import LAST, asked_of, scans_explained, to_repair
from lakehouse.queries.runtime.state import Facts, newest_time

_COUNTED = ("rows", "missed", "refused", "unusable")


def explain_multiway(state: MultiwayState, streams: Mapping[str, Stream], costs: Costs) -> Facts:
    """Return all that is known of a query, as plain values; times in microseconds, None for no time yet."""
    return {
        **state.facts(),
        "text": state.query.text,
        "meant_before": state.meant,
        "means": state.means,
        "plan": _plan(state, streams, costs),
        "sides": list(_sides(state)),
        "last_batches": list(multiway_batches(state))[-LAST:],
        "completeness": _completeness(state),
        "to_repair": to_repair(state),
        "last_repairs": state.figures.repairs[-LAST:],
        **scans_explained(state),
    }


def _plan(state: MultiwayState, streams: Mapping[str, Stream], costs: Costs) -> Facts:
    query = state.query
    transfer = transfer_of(query, streams, costs)
    return {
        "sides": [
            {
                "stream": side.stream,
                "alias": side.alias,
                "site": streams[side.stream].site,
                "window_us": side.window_us,
                **asked_of(side),
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
        "clock": clock_in_words(query),
    }


def _sides(state: MultiwayState) -> Iterator[Facts]:
    """Yield each side: its window after the last batch, and what became of all its rows."""
    held = {row["side"]: row["held"] for row in state.figures.last_batch}
    for number, side in enumerate(state.query.sides):
        own = [row for row in state.figures.rows if row["side"] == number]
        yield {
            "side": side.alias,
            "held": held.get(number, 0),
            **{name: sum(row[name] or 0 for row in own) for name in (*_COUNTED, *COSTS)},
            "pruned": sum(map(pruned, own)),
            "left": sum(map(left_site, own)),
        }


def multiway_batches(state: MultiwayState) -> Iterator[Facts]:
    """Yield each finished batch: results, bytes moved, and per side its rows, their way and what that cost."""
    for number, of_batch in groupby(state.figures.rows, key=lambda row: row["batch"]):
        rows = list(of_batch)
        yield {
            "batch": number,
            "committed_at": rows[0]["committed_at"],
            "time_us": newest_time(rows),
            **{name: sum(row[name] or 0 for row in rows) for name in (*BATCH_FIGURES, "bytes")},
            "sides": [_side(state, row) for row in rows if row["side"] >= 0],
        }


def _side(state: MultiwayState, row: Facts) -> Facts:
    aliases = [side.alias for side in state.query.sides]
    told = {name: row[name] for name in (*_COUNTED, "planned", "moved", *COSTS)}
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
    online, repaired = (state.facts()[f"results_{found}"] for found in ("online", "repaired"))
    whole = online + repaired
    return {"online": online, "repaired": repaired, "recall": online / whole if whole else None}
