"""Text of a join of three streams or more for ``tidemark queries`` and ``tidemark explain``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lakehouse.cli.output import time_text
from lakehouse.cli.pages.explain_text import (
    HELD,
    Table,
    held_cells,
    outputs_in_words,
    repairs_table,
    state_in_words,
    to_repair_in_words,
)
from lakehouse.cli.pages.figures import ended_at, share

Facts = Mapping[str, Any]
TITLE = "joins of three streams or more"
HEADERS = (
    *("query", "state", "streams", "condition", "batches", "rows", "online", "repaired", "left site"),
    *("bytes moved", *HELD),
)
HEADING = "completeness"


def cells(facts: Facts) -> tuple[Any, ...]:
    """Return the columns ``HEADERS`` of a query."""
    return (
        *(facts["query"], state_in_words(facts), facts["from_clause"], facts["condition"], facts["batches"]),
        *(facts["rows"], facts["results_online"], facts["results_repaired"], facts["left"]),
        *(facts["moved_bytes"], *held_cells(facts)),
    )


def plan_in_words(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield what rows join, what is shown, and how it runs, each part under its name."""
    plan = facts["plan"]
    yield "joins", f"a row of each, none older than its window when the newest came, and {facts['condition']}"
    yield "shows", outputs_in_words(facts)
    sites = [f"{side['alias']} at {side['site']}" for side in plan["sides"] if side["site"]]
    if sites:
        yield "sites", ", ".join(sites)
    yield "ways", plan["ways"]
    yield "counts", plan["counts"]
    yield "slack", plan["slack"]
    yield "clock", plan["clock"]


def found_in_words(facts: Facts) -> Iterator[str]:
    """Yield how many results were found at once, and what a repair still has to look at."""
    whole = facts["completeness"]
    at_once = "" if whole["recall"] is None else f"; {share(whole['recall'])} of them at once"
    yield f"results: {whole['online']:,} online, {whole['repaired']:,} repaired{at_once}"
    yield to_repair_in_words(facts["to_repair"])


def tables(facts: Facts) -> Iterator[Table]:
    """Yield its sides, its last batches, and the order in which their rows met the other sides."""
    batches = facts["last_batches"]
    blocks = [_block(batch["batch"], side) for batch in batches for side in batch["sides"]]
    yield Table("sides, since the first batch", _SIDE, list(map(_side, facts["sides"])))
    yield Table("last batches", _BATCH, list(map(_batch, batches)))
    yield Table("what their rows met, in which order", _BLOCK, blocks)


def last_tables(facts: Facts) -> Iterator[Table]:
    """Yield its last repairs."""
    yield repairs_table(facts, "results found")


_COUNTED = ("rows", "logged", "refused", "unusable", "pruned", "left")
_COSTS = ("planned cost", "real cost")
_SIDE = ("side", "rows held", *_COUNTED, *_COSTS)
_BATCH = (
    *("batch", "ended", "results", "bytes shuffled", "through driver", "state bytes", "stream time"),
    *("joined", "why"),
)
_BLOCK = ("batch", "side", *_COUNTED, "order", "planned rows", "moved rows", *_COSTS)


def _counts(row: Facts) -> list[Any]:
    return [row[name] for name in ("rows", "missed", "refused", "unusable", "pruned", "left")]


def _costs(row: Facts) -> list[str]:
    return [f"{row[name]:,.6g}" for name in ("planned_cost", "real_cost")]


def _side(row: Facts) -> tuple[Any, ...]:
    return (row["side"], row["held"], *_counts(row), *_costs(row))


def _batch(row: Facts) -> tuple[Any, ...]:
    moved = (row["results"], row["shuffled"], row["collected"], row["bytes"])
    choice = (row["joined"] or "-", row["why"] or "-")
    return (row["batch"], ended_at(row), *moved, time_text(row["time_us"]), *choice)


def _block(batch: int, row: Facts) -> tuple[Any, ...]:
    order = ", ".join(row["order"]) or "-"
    sizes = [" ".join(f"{size:,}" for size in row[name]) for name in ("planned", "moved")]
    return (batch, row["side"], *_counts(row), order, *sizes, *_costs(row))
