"""The sentences and tables of ``tidemark explain`` about a join of three streams or more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lakehouse.cli.output import moment, print_table
from lakehouse.cli.pages.explain_text import state_in_full, to_repair_in_words
from lakehouse.cli.pages.figures import ended_at, share
from lakehouse.cli.pages.operator_text import order_in_words, print_scans, where_in_words

Facts = Mapping[str, Any]


def print_multiway(facts: Facts) -> None:
    """Print what is known of a query; before its first batch that is its plan."""
    told = f": {facts['description']}" if facts["description"] else ""
    print(f"{facts['query']}{told}\nstate: {state_in_full(facts)}")
    for name, sentence in multiway_plan_in_words(facts):
        print(f"{name + ':':<11}{sentence}")
    if not facts["batches"]:
        return
    print_scans(facts)
    print_table(_SIDE, list(map(_side, facts["sides"])), title="sides, since the first batch")
    batches = facts["last_batches"]
    print_table(_BATCH, list(map(_batch, batches)), title="last batches")
    blocks = [(batch["batch"], side) for batch in batches for side in batch["sides"]]
    print_table(_BLOCK, [_block(*each) for each in blocks], title="what their rows met, in which order")
    print("\ncompleteness")
    for sentence in found_in_words(facts):
        print(sentence)
    if facts["last_repairs"]:
        print_table(_REPAIR, list(map(_repair, facts["last_repairs"])), title="last repairs")


def multiway_plan_in_words(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield what the query does, each part under its name."""
    plan = facts["plan"]
    yield "streams", facts["join"]
    yield from where_in_words(plan["sides"])
    yield "joins", f"a row of each, none older than its window when the newest came, and {facts['condition']}"
    yield "shows", ", ".join(f"{each['name']} ({each['stream']})" for each in plan["outputs"])
    sites = [f"{side['alias']} at {side['site']}" for side in plan["sides"] if side["site"]]
    if sites:
        yield "sites", ", ".join(sites)
    yield "ways", plan["ways"]
    yield "counts", plan["counts"]
    yield "slack", plan["slack"]
    yield "clock", plan["clock"]
    yield from order_in_words(facts)


def found_in_words(facts: Facts) -> Iterator[str]:
    """Yield how many results were found at once, and what a repair still has to look at."""
    found = facts["completeness"]
    at_once = "" if found["recall"] is None else f"; {share(found['recall'])} of them at once"
    yield f"results: {found['online']:,} online, {found['repaired']:,} repaired{at_once}"
    yield to_repair_in_words(facts["to_repair"])


_COUNTED = ("rows", "logged", "refused", "unusable", "pruned", "left")
_COSTS = ("planned cost", "real cost")
_SIDE = ("side", "rows held", *_COUNTED, *_COSTS)
_BATCH = ("batch", "ended", "results", "bytes shuffled", "through driver", "state bytes", "stream time")
_BLOCK = ("batch", "side", *_COUNTED, "order", "planned rows", "moved rows", *_COSTS)


def _counts(row: Facts) -> list[Any]:
    return [row[name] for name in ("rows", "missed", "refused", "unusable", "pruned", "left")]


def _costs(row: Facts) -> list[str]:
    return [f"{row[name]:,.6g}" for name in ("planned_cost", "real_cost")]


def _side(row: Facts) -> tuple[Any, ...]:
    return (row["side"], row["held"], *_counts(row), *_costs(row))


def _batch(row: Facts) -> tuple[Any, ...]:
    moved = (row["results"], row["shuffled"], row["collected"], row["bytes"])
    return (row["batch"], ended_at(row), *moved, moment(row["time_us"]))


def _block(batch: int, row: Facts) -> tuple[Any, ...]:
    order = ", ".join(row["order"]) or "-"
    sizes = [" ".join(f"{size:,}" for size in row[name]) for name in ("planned", "moved")]
    return (batch, row["side"], *_counts(row), order, *sizes, *_costs(row))


_REPAIR = ("repair", "ended", "through batch", "rows looked at", "results found", "beyond raw", "stream time")


def _repair(row: Facts) -> tuple[Any, ...]:
    counts = (row["through"], row["looked_at"], row["found"], row["gone"])
    return (row["repair"], ended_at(row), *counts, moment(row["time_us"]))
