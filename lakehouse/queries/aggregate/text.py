"""The sentences and tables of ``tidemark explain`` about a join-aggregate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lakehouse.cli.charts.picture import named
from lakehouse.cli.output import moment, print_table
from lakehouse.cli.pages.explain_text import state_in_full, to_repair_in_words
from lakehouse.cli.pages.figures import ended_at, length
from lakehouse.cli.pages.operator_text import order_in_words, print_scans, where_in_words

Facts = Mapping[str, Any]


def print_aggregate(facts: Facts) -> None:
    """Print what is known of a query; before its first batch that is its plan."""
    told = f": {facts['description']}" if facts["description"] else ""
    print(f"{facts['query']}{told}\nstate: {state_in_full(facts)}")
    for name, sentence in aggregate_plan_in_words(facts):
        print(f"{name + ':':<11}{sentence}")
    if not facts["batches"]:
        return
    print_scans(facts)
    print_table(_BUCKET, list(map(_bucket, facts["buckets"])), title="buckets, as the last batch left them")
    print_table(_BATCH, list(map(_batch, facts["last_batches"])), title="last batches")
    print("\nanswers")
    for sentence in answers_in_words(facts):
        print(sentence)
    if facts["raised"]:
        print_table(_RAISED, list(map(_raised, facts["raised"])), title="alarms raised now")
    if facts["ended"]:
        print_table(_ENDED, list(map(_ended, facts["ended"])), title="alarms that ended last")
    if facts["last_repairs"]:
        print_table(_REPAIR, list(map(_repair, facts["last_repairs"])), title="last repairs")


def aggregate_plan_in_words(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield what the query does, each part under its name."""
    plan = facts["plan"]
    yield "streams", facts["join"]
    yield from where_in_words(plan["sides"])
    yield "joins", f"rows that are in their windows at once and {facts['condition']}"
    yield "groups", plan["groups"]
    yield "shows", plan["shows"]
    if plan["having"]:
        yield (
            "having",
            f"{plan['having']}{'; each group that it lets through raises an alarm' * plan['is_alarm']}",
        )
    yield "answers", plan["ticks"]
    yield "slack", plan["slack"]
    yield "method", plan["run_by"]
    yield "others", plan["others"]
    yield "buckets", plan["spread"]
    yield from order_in_words(facts)


def answers_in_words(facts: Facts) -> Iterator[str]:
    """Yield how much was answered and changed, what is final, and what a repair still has to look at."""
    changed = f"{facts['revised']:,} revised at once, {facts['repaired']:,} changed by repair"
    yield f"answers: {facts['answered']:,} given, {changed}"
    late = sum(batch["late"] for batch in facts["buckets"])
    yield f"late: {late:,} of {facts['rows']:,} rows came after a tick they belong to had been answered"
    if facts["final_before_us"] is not None:
        last = (facts["final_before_us"] - 1) // facts["every_us"] * facts["every_us"]
        yield f"final: ticks up to {moment(last)}, rows beyond the streams' latest apart"
    yield to_repair_in_words(facts["to_repair"])


_COUNTED = ("rows", "late", "logged", "refused", "unusable")
_BUCKET = ("bucket", "rows held", "bytes", *_COUNTED)
_BATCH = ("batch", "ended", "answered", "revised", *_COUNTED, "rows held", "bytes", "ticks up to")


def _counts(row: Facts) -> list[Any]:
    return [row[name] for name in ("rows", "late", "missed", "refused", "unusable")]


def _bucket(row: Facts) -> tuple[Any, ...]:
    return (row["bucket"], row["held"], row["bytes"], *_counts(row))


def _batch(row: Facts) -> tuple[Any, ...]:
    held = (row["held"], row["bytes"], moment(row["time_us"]))
    return (row["batch"], ended_at(row), row["answered"], row["revised"], *_counts(row), *held)


_RAISED = ("group", "since", "changes", "alarm")
_ENDED = ("group", "since", "until", "for", "state", "changes", "final", "alarm", "merged into")


def _raised(row: Facts) -> tuple[Any, ...]:
    return (_group(row), moment(row["raised_us"]), row["changes"], row["alarm"])


def _ended(row: Facts) -> tuple[Any, ...]:
    lasted = None if row["cleared_us"] is None else length(row["cleared_us"] - row["raised_us"])
    times = (moment(row["raised_us"]), moment(row["cleared_us"]), lasted)
    return (_group(row), *times, row["state"], row["changes"], row["final"], row["alarm"], row["merged_into"])


def _group(row: Facts) -> str:
    return (
        named({name: None if value is None else str(value) for name, value in row["group"].items()}) or "all"
    )


_REPAIR = (
    "repair",
    "ended",
    "through batch",
    "rows looked at",
    "answers changed",
    "beyond raw",
    "ticks up to",
)


def _repair(row: Facts) -> tuple[Any, ...]:
    counts = (row["through"], row["looked_at"], row["found"], row["gone"])
    return (row["repair"], ended_at(row), *counts, moment(row["time_us"]))
