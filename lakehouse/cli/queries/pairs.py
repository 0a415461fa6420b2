"""Text of a join of pairs for ``tidemark queries`` and ``tidemark explain``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakehouse.cli.output import time_text
from lakehouse.cli.pages.chart_page import chart
from lakehouse.cli.pages.explain_page import POINTS, batch_charts
from lakehouse.cli.pages.explain_text import (
    HELD,
    Table,
    held_cells,
    outputs_in_words,
    repairs_table,
    state_in_words,
    to_repair_in_words,
)
from lakehouse.cli.pages.figures import ended_at, length, share
from lakehouse.config.durations import format_duration
from lakehouse.queries.pairs.state import PairsState, batches
from lakehouse.queries.runtime.state import Declared

Facts = Mapping[str, Any]
TITLE = "joins of pairs"
HEADERS = (
    *("query", "state", "streams", "window", "condition", "recall", "batches", "rows", "online", "repaired"),
    *HELD,
)
HEADING = "completeness"
# Of a period that is scored; a stretch without such a one has none of these.
_SCORED = ("recall", "pairs", "online", "open")


def cells(facts: Facts) -> tuple[Any, ...]:
    """Return the columns ``HEADERS`` of a query."""
    asked = f"{facts['recall']:g} over {format_duration(facts['period_us'])}"
    return (
        *(facts["query"], state_in_words(facts), facts["from_clause"], format_duration(facts["window_us"])),
        *(facts["condition"], asked, facts["batches"], facts["rows"]),
        *(facts["pairs_online"], facts["pairs_repaired"], *held_cells(facts)),
    )


def plan_in_words(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield what rows join, what is shown, and how it runs, each part under its name."""
    plan = facts["plan"]
    yield "joins", f"event times at most {format_duration(facts['window_us'])} apart and {facts['condition']}"
    yield "shows", outputs_in_words(facts)
    yield "buckets", plan["spread"]
    yield (
        "target",
        f"recall {facts['recall']:g} over any {format_duration(facts['period_us'])}{_margin(plan)}",
    )
    yield "slack", plan["slack"]
    yield "clock", plan["clock"]


def _margin(plan: Facts) -> str:
    if plan["margin"] is None:
        return ""
    return f", aimed at {plan['judged_recall']:.6g}: margin {plan['margin']:.4g} of the allowed loss is used"


def found_in_words(facts: Facts) -> Iterator[str]:
    """Yield how complete the query has been and what a repair still has to look at."""
    whole = facts["completeness"]
    still = f", {whole['missed_open']:,} of them open" if whole["missed_open"] else ""
    still += f" (known since {whole['missed_since'][:16].replace('T', ' ')})" if whole["missed_since"] else ""
    yield (
        f"periods: {whole['periods']:,} with pairs, {whole['scored']:,} scored (100 pairs or more), "
        f"{whole['met']:,} met {facts['recall']:g}, {whole['missed']:,} missed{still}"
    )
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


def tables(facts: Facts) -> Iterator[Table]:
    """Yield what its buckets hold, and its last batches."""
    yield Table("buckets, as the last batch left them", _BUCKET, [_bucket(row) for row in facts["buckets"]])
    yield Table("last batches", _BATCH, [_batch(row) for row in facts["last_batches"]])


def last_tables(facts: Facts) -> Iterator[Table]:
    """Yield its worst periods and its last repairs."""
    worst = [_miss(row) for row in facts["completeness"]["worst"]]
    yield Table("worst periods, none overlapping another", _MISS, worst)
    yield repairs_table(facts, "pairs found")


_HELD = ("rows held", "most held", "bytes")
_COUNTED = ("rows", "pairs", "logged", "refused", "unusable", "after silence")
_BUCKET = ("bucket", *_HELD, "slack left", "slack right", "late by", "stream time", *_COUNTED)
_BATCH = ("batch", "ended", *_COUNTED, *_HELD, "slack left", "slack right", "stream time")
_MISS = ("period", "until", "recall", "pairs", "online", "state")


def _counts(row: Facts) -> Sequence[Any]:
    return [row[name] for name in ("rows", "pairs", "missed", "refused", "unusable", "late_after_silence")]


def _held(row: Facts) -> Sequence[Any]:
    return [row[name] for name in ("held", "most_held", "bytes")]


def _bucket(row: Facts) -> tuple[Any, ...]:
    slacks = (length(row["left_slack_us"]), length(row["right_slack_us"]))
    late = length(row["late_us"])
    return (row["bucket"], *_held(row), *slacks, late, time_text(row["time_us"]), *_counts(row))


def _batch(row: Facts) -> tuple[Any, ...]:
    slacks = (_range(row["left_slack_us"]), _range(row["right_slack_us"]))
    return (row["batch"], ended_at(row), *_counts(row), *_held(row), *slacks, time_text(row["time_us"]))


def _range(lengths: Sequence[int] | None) -> str:
    if lengths is None:
        return "-"
    low, high = map(length, lengths)
    return low if low == high else f"{low} to {high}"


def _miss(row: Facts) -> tuple[Any, ...]:
    state = "open" if row["open"] else "repaired"
    ends = (time_text(row["from_us"]), time_text(row["to_us"]))
    return (*ends, share(row["recall"]), row["pairs"], row["online"], state)


def charts_of(facts: Mapping[str, Any], state: PairsState, declared: Declared) -> Sequence[Mapping[str, Any]]:
    """Return the charts of its page."""
    completeness = state.completeness
    recall = [_worst(stretch) for stretch in completeness.recall_over_time(POINTS)]
    return (
        chart("recall", rows=recall, asked=facts["recall"]),
        chart("waits", rows=completeness.waits_over_time(POINTS // 2)),
        *batch_charts(("slack", "held", "memory"), [_longest(batch) for batch in batches(state)]),
    )


def _worst(stretch: Mapping[str, Any]) -> dict[str, Any]:
    worst = stretch["worst"] or {}
    return {"from_us": stretch["from_us"], "to_us": stretch["to_us"]} | {
        name: worst.get(name) for name in _SCORED
    }


def _longest(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a batch with the longest slack that its buckets give, in place of the range of all."""
    slacks = {name: batch[name] and batch[name][1] for name in ("left_slack_us", "right_slack_us")}
    return dict(batch) | slacks
