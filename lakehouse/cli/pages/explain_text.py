"""The sentences and tables of ``tidemark explain``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakehouse.cli.commands.queries import state_in_words, stopped_in_words
from lakehouse.cli.output import cell, moment, print_table
from lakehouse.cli.pages.figures import ended_at, length, share
from lakehouse.cli.pages.operator_text import order_in_words, print_scans, where_in_words
from lakehouse.cli.pages.status_page import age
from lakehouse.declare.durations import format_duration

Facts = Mapping[str, Any]


def print_query(facts: Facts) -> None:
    """Print what is known of a query; before its first batch that is its plan."""
    told = f": {facts['description']}" if facts["description"] else ""
    print(f"{facts['query']}{told}\nstate: {state_in_full(facts)}")
    for name, sentence in plan_in_words(facts):
        print(f"{name + ':':<11}{sentence}")
    if not facts["batches"]:
        return
    print_scans(facts)
    print_table(
        _BUCKET, [_bucket(row) for row in facts["buckets"]], title="buckets, as the last batch left them"
    )
    print_table(_BATCH, [_batch(row) for row in facts["last_batches"]], title="last batches")
    print("\ncompleteness")
    for sentence in completeness_in_words(facts):
        print(sentence)
    worst = facts["completeness"]["worst"]
    if worst:
        print_table(_MISS, [_miss(row) for row in worst], title="worst periods, none overlapping another")
    if facts["last_repairs"]:
        print_table(_REPAIR, [_repair(row) for row in facts["last_repairs"]], title="last repairs")


def plan_in_words(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield what the query does, each part under its name."""
    plan = facts["plan"]
    yield "streams", facts["join"]
    yield from where_in_words(plan["sides"])
    yield "joins", f"event times at most {format_duration(facts['window_us'])} apart and {facts['condition']}"
    yield "shows", ", ".join(f"{each['name']} ({each['stream']})" for each in plan["outputs"])
    yield "buckets", plan["spread"]
    yield (
        "target",
        f"recall {facts['recall']:g} over any {format_duration(facts['period_us'])}{_margin(plan)}",
    )
    yield "slack", plan["slack"]
    yield "clock", plan["clock"]
    yield from order_in_words(facts)


def _margin(plan: Facts) -> str:
    if plan["margin"] is None:
        return ""
    return f", aimed at {plan['judged_recall']:.6g}: margin {plan['margin']:.4g} of the allowed loss is used"


def completeness_in_words(facts: Facts) -> Iterator[str]:
    """Yield how complete the query has been and what a repair still has to look at."""
    found, open_rows = facts["completeness"], facts["to_repair"]
    still = f", {found['missed_open']:,} of them open" if found["missed_open"] else ""
    yield (
        f"periods: {found['periods']:,} with pairs, {found['scored']:,} scored (100 pairs or more), "
        f"{found['met']:,} met {facts['recall']:g}, {found['missed']:,} missed{still}"
    )
    if found["recall"] is not None:
        yield (
            f"pairs: {found['pairs_online']:,} online, {found['pairs_repaired']:,} repaired; recall "
            f"{share(found['recall'])}; mean wait of all {length(found['wait_mean_us'])}"
        )
    if found["pairs_repaired"]:
        yield (
            f"wait of repaired pairs: mean {length(found['repaired_wait_mean_us'])}, "
            f"p99 {length(found['repaired_wait_p99_us'])}, longest {length(found['repaired_wait_max_us'])}"
        )
    yield to_repair_in_words(open_rows)


def to_repair_in_words(found: Facts) -> str:
    """Return how many logged rows no repair has looked at."""
    begun = "; a repair was begun and is not finished" if found["begun"] else ""
    if not found["rows"]:
        return f"to repair: nothing{begun}"
    first, last = found["batches"]
    times = f"{moment(found['oldest_us'])} to {moment(found['newest_us'])}"
    taken = f"batch {last}" if first == last else f"batches {first} to {last}"
    return f"to repair: {found['rows']:,} logged rows of {taken}, {times}{begun}"


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
        "" if since is None else f"; last batch {age(since)} ago, stream time {moment(facts['newest_us'])}"
    )
    return f"{state}{told}{ended}"


_HELD = ("rows held", "most held", "bytes")
_COUNTED = ("rows", "pairs", "logged", "refused", "unusable", "after silence")
_BUCKET = ("bucket", *_HELD, "slack left", "slack right", "stream time", *_COUNTED)
_BATCH = ("batch", "ended", *_COUNTED, *_HELD, "slack left", "slack right", "stream time")


def _counts(row: Facts) -> Sequence[Any]:
    return [row[name] for name in ("rows", "pairs", "missed", "refused", "unusable", "late_after_silence")]


def _bucket(row: Facts) -> tuple[Any, ...]:
    slacks = (length(row["left_slack_us"]), length(row["right_slack_us"]))
    held = (row["held"], row["most_held"], row["bytes"])
    return (row["bucket"], *held, *slacks, moment(row["time_us"]), *_counts(row))


def _batch(row: Facts) -> tuple[Any, ...]:
    held = (row["held"], row["most_held"], row["bytes"])
    slacks = (_range(row["left_slack_us"]), _range(row["right_slack_us"]))
    return (row["batch"], ended_at(row), *_counts(row), *held, *slacks, moment(row["time_us"]))


def _range(lengths: Sequence[int] | None) -> str:
    if lengths is None:
        return "-"
    low, high = map(length, lengths)
    return low if low == high else f"{low} to {high}"


_MISS = ("period", "until", "recall", "pairs", "online", "state")


def _miss(row: Facts) -> tuple[Any, ...]:
    state = "open" if row["open"] else "repaired"
    ends = (moment(row["from_us"]), moment(row["to_us"]))
    return (*ends, share(row["recall"]), row["pairs"], row["online"], state)


_REPAIR = ("repair", "ended", "through batch", "rows looked at", "pairs found", "beyond raw", "stream time")


def _repair(row: Facts) -> tuple[Any, ...]:
    counts = (row["through"], row["looked_at"], row["found"], row["gone"])
    return (row["repair"], ended_at(row), *counts, moment(row["time_us"]))
