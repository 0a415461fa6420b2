"""Text of a join of three streams or more for ``tidemark queries`` and ``tidemark explain``."""

from collections.abc import Iterator, Sequence

from lakehouse.cli.pages.explain_text import (
    HELD,
    TIME,
    Columns,
    Facts,
    KindText,
    Table,
    of,
    outputs_in_words,
    repairs_table,
    state_in_words,
    to_repair_in_words,
)
from lakehouse.cli.pages.figures import ended_at, length, share
from lakehouse.cli.pages.recall_text import (
    periods_in_words,
    recall_in_words,
    target_in_words,
    worst_periods,
)


def _plan(facts: Facts) -> Iterator[tuple[str, str]]:
    plan = facts["plan"]
    yield "joins", f"a row of each, none older than its window when the newest came, and {facts['condition']}"
    yield "shows", outputs_in_words(facts)
    sites = [f"{side['alias']} at {side['site']}" for side in plan["sides"] if side["site"]]
    if sites:
        yield "sites", ", ".join(sites)
    yield "ways", plan["ways"]
    yield "counts", plan["counts"]
    if facts["recall"] is not None:
        yield "target", target_in_words(facts)
    yield "slack", plan["slack"]
    yield "clock", plan["clock"]


def _results_in_words(facts: Facts) -> Iterator[str]:
    whole = facts["completeness"]
    if facts["recall"] is not None:
        yield periods_in_words(facts, "results")
    at_once = "" if whole["recall"] is None else f"; {share(whole['recall'])} of them at once"
    yield f"results: {whole['online']:,} online, {whole['repaired']:,} repaired{at_once}"
    yield to_repair_in_words(facts["to_repair"])


def _blocks(facts: Facts) -> Iterator[Facts]:
    for batch in facts["last_batches"]:
        yield from ({**side, "batch": batch["batch"]} for side in batch["sides"])


def _or_dash(value: str | None) -> str:
    return value or "-"


def _sizes(sizes: Sequence[int]) -> str:
    return " ".join(f"{size:,}" for size in sizes)


_COUNTED: Columns = {
    **{"rows": "rows", "logged": "missed", "refused": "refused", "unusable": "unusable"},
    **{"pruned": "pruned", "left": "left"},
}
_SLACK: Columns = {"slack": of("slack_us", length)}
_COSTS: Columns = {
    "planned cost": of("planned_cost", "{:,.6g}".format),
    "real cost": of("real_cost", "{:,.6g}".format),
}
_BATCH: Columns = {
    **{"batch": "batch", "ended": ended_at, "results": "results", "bytes shuffled": "shuffled"},
    **{"through driver": "collected", "state bytes": "bytes", **TIME},
    "joined": of("joined", _or_dash),
    "why": of("why", _or_dash),
}
_BLOCK: Columns = {
    **{"batch": "batch", "side": "side", **_COUNTED},
    "order": of("order", lambda order: ", ".join(order) or "-"),
    "planned rows": of("planned", _sizes),
    "moved rows": of("moved", _sizes),
    **_COSTS,
}
TEXT = KindText(
    title="joins of three streams or more",
    columns={
        **{"query": "query", "state": state_in_words, "streams": "from_clause", "condition": "condition"},
        **{"recall": recall_in_words, "batches": "batches", "rows": "rows"},
        **{"online": "results_online", "repaired": "results_repaired"},
        **{"left site": "left", "bytes moved": "moved_bytes", **HELD},
    },
    plan=_plan,
    heading="completeness",
    results=_results_in_words,
    tables=(
        Table(
            "sides, since the first batch",
            "sides",
            {"side": "side", "rows held": "held", **_SLACK, **_COUNTED, **_COSTS},
        ),
        Table("last batches", "last_batches", _BATCH),
        Table("what their rows met, in which order", _blocks, _BLOCK),
    ),
    last_tables=(worst_periods("results"), repairs_table("results found")),
)
