"""Text of a join of pairs for ``tidemark queries`` and ``tidemark explain``."""

from collections.abc import Iterator, Sequence
from typing import Any

from lakehouse.cli.pages.chart_page import chart
from lakehouse.cli.pages.explain_page import POINTS, batch_charts
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
from lakehouse.config.durations import format_duration
from lakehouse.queries.pairs.state import PairsState, batches
from lakehouse.queries.runtime.state import Declared

# Of a period that is scored; a stretch without such a one has none of these.
_SCORED = ("recall", "pairs", "online", "open")


def _plan(facts: Facts) -> Iterator[tuple[str, str]]:
    plan = facts["plan"]
    yield "joins", f"event times at most {format_duration(facts['window_us'])} apart and {facts['condition']}"
    yield "shows", outputs_in_words(facts)
    yield "buckets", plan["spread"]
    yield "target", target_in_words(facts)
    yield "slack", plan["slack"]
    yield "clock", plan["clock"]


def found_in_words(facts: Facts) -> Iterator[str]:
    """Yield how complete the query has been and what a repair still has to look at."""
    whole = facts["completeness"]
    yield periods_in_words(facts, "pairs")
    if enough := facts["enough_slack"]:
        yield f"all would have met it with {_slack_in_words(enough)} {_spare_in_words(facts)}"
    if whole["missed"] and facts["plan"]["policy"] == "needed_slack":
        yield "if sources fall silent and then send what they held back, POLICY PER_SOURCE may meet more of them"
    if late := facts["late_slack"]:
        yield from _late_in_words(late, facts)
    if whole["recall"] is not None:
        yield (
            f"pairs: {whole['pairs_online']:,} online, {whole['pairs_repaired']:,} repaired; recall "
            f"{share(whole['recall'])}; mean wait of all {length(whole['wait_mean_us'])}"
        )
    if whole["pairs_repaired"]:
        yield (
            f"wait of repaired pairs: mean {length(whole['repaired_wait_mean_us'])}, "
            f"p99 {length(whole['repaired_wait_p99_us'])}, longest {length(whole['repaired_wait_max_us'])}"
        )
    yield to_repair_in_words(facts["to_repair"])


def _late_in_words(late: Facts, facts: Facts) -> Iterator[str]:
    yield (
        f"not repaired: {late['rows']:,} rows came too late for the slack; none of them would have missed a partner "
        f"with {_slack_in_words(late['for_all'])} {_spare_in_words(facts)}"
    )
    if usual := late["for_recall"]:
        yield f"at most {share(1 - facts['recall'])} of all rows would have come too late for {_slack_in_words(usual)}"


def _slack_in_words(held: Facts) -> str:
    size = f"{held['bytes'] / 1e6:.2g} MB"
    return f"a slack of {length(held['slack_us'])}: about {held['rows']:,} rows held, {size},"


def _spare_in_words(facts: Facts) -> str:
    plan = facts["plan"]
    return f"in {plan['buckets']} buckets, where SPARE lets each hold {plan['spare_rows']:,}"


def _range(lengths: Sequence[int] | None) -> str:
    if lengths is None:
        return "-"
    low, high = map(length, lengths)
    return low if low == high else f"{low} to {high}"


def _charts(facts: Facts, state: PairsState, declared: Declared) -> Sequence[Facts]:
    completeness = state.completeness
    recall = [_worst(stretch) for stretch in completeness.recall_over_time(POINTS)]
    return (
        chart("recall", rows=recall, asked=facts["recall"]),
        chart("waits", rows=completeness.waits_over_time(POINTS // 2)),
        *batch_charts(("slack", "held", "memory"), [_longest(batch) for batch in batches(state)]),
    )


def _worst(stretch: Facts) -> dict[str, Any]:
    worst = stretch["worst"] or {}
    return {"from_us": stretch["from_us"], "to_us": stretch["to_us"]} | {
        name: worst.get(name) for name in _SCORED
    }


def _longest(batch: Facts) -> dict[str, Any]:
    """Return a batch with the longest slack that its buckets give, in place of the range of all."""
    slacks = {name: batch[name] and batch[name][1] for name in ("left_slack_us", "right_slack_us")}
    return dict(batch) | slacks


_HELD: Columns = {"rows held": "held", "most held": "most_held", "bytes": "bytes"}
_COUNTED: Columns = {
    **{"rows": "rows", "pairs": "pairs", "logged": "missed", "refused": "refused", "unusable": "unusable"},
    "after silence": "late_after_silence",
}
_BUCKET: Columns = {
    **{"bucket": "bucket", **_HELD},
    "slack left": of("left_slack_us", length),
    "slack right": of("right_slack_us", length),
    "late by": of("late_us", length),
    **{**TIME, **_COUNTED},
}
_BATCH: Columns = {
    **{"batch": "batch", "ended": ended_at, **_COUNTED, **_HELD},
    "slack left": of("left_slack_us", _range),
    "slack right": of("right_slack_us", _range),
    **TIME,
}
TEXT = KindText(
    title="joins of pairs",
    columns={
        **{"query": "query", "state": state_in_words, "streams": "from_clause"},
        "window": of("window_us", format_duration),
        "condition": "condition",
        "recall": recall_in_words,
        **{
            "batches": "batches",
            "rows": "rows",
            "online": "pairs_online",
            "repaired": "pairs_repaired",
            **HELD,
        },
    },
    plan=_plan,
    heading="completeness",
    results=found_in_words,
    tables=(
        Table("buckets, as the last batch left them", "buckets", _BUCKET),
        Table("last batches", "last_batches", _BATCH),
    ),
    last_tables=(
        worst_periods("pairs"),
        repairs_table("pairs found"),
    ),
    charts=_charts,
)
