"""How a registered query stands, in words: its state, what waits for it, and why it stopped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse.cli.output import cell, time_text
from lakehouse.cli.pages.status_page import age

Facts = Mapping[str, Any]
HELD = ("open", "held", "state bytes", "newest", "last batch")


def state_in_words(facts: Facts) -> str:
    """Return a query's state; one that is behind, by how many ingest batches."""
    waiting = sum(facts["waiting"].values())
    if facts["state"] == "behind":
        return f"behind by {waiting}"
    return f"new, {waiting} wait" if facts["state"] == "new" and waiting else str(facts["state"])


def stopped_in_words(stopped: Facts) -> str:
    """Return why a query stands still, and what to do."""
    place = f" ({stopped['place']})" if stopped["place"] else ""
    return (
        f"batch {stopped['batch']}, at {stopped['operator'].replace('`', '')}{place}: {stopped['error']}; mend it, the "
        "next run goes on from there"
    )


def state_in_full(facts: Facts) -> str:
    """Return a query's state with what waits and when its last batch ended; of a changed one, both meanings."""
    state, since = state_in_words(facts), facts["last_batch_age_s"]
    if facts["meant_before"] is not None:
        return (
            f"changed; its tables are of {facts['meant_before']}\n       now it means {facts['means']}\n       "
            f"give it a name of its own, or start over with `tidemark queries --forget {facts['query']}`"
        )
    if state == "stopped":
        return f"stopped; {stopped_in_words(facts['stopped'])}"
    waiting = cell({stream: count for stream, count in facts["waiting"].items() if count})
    told = f" ({waiting} ingest batches)" if waiting != "-" else ""
    ended = (
        "" if since is None else f"; last batch {age(since)} ago, stream time {time_text(facts['newest_us'])}"
    )
    return f"{state}{told}{ended}"


def held_cells(facts: Facts) -> tuple[Any, ...]:
    """Return the columns ``HELD`` of a query."""
    since = facts["last_batch_age_s"]
    ended = "-" if since is None else f"{age(since)} ago"
    return (facts["open"], facts["held"], facts["state_bytes"], time_text(facts["newest_us"]), ended)
