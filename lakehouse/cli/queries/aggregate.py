"""Text of a join-aggregate for ``tidemark queries`` and ``tidemark explain``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakehouse.cli.output import time_text
from lakehouse.cli.pages.chart_page import chart
from lakehouse.cli.pages.explain_page import POINTS, batch_charts
from lakehouse.cli.pages.explain_text import (
    HELD,
    Table,
    held_cells,
    repairs_table,
    state_in_words,
    to_repair_in_words,
)
from lakehouse.cli.pages.figures import ended_at, length
from lakehouse.cli.pages.picture import named, picture_of_answers
from lakehouse.config.durations import format_duration
from lakehouse.queries.aggregate.state import AggregateState, batches
from lakehouse.queries.runtime.state import Declared

if TYPE_CHECKING:
    from lakehouse.serving.ask.answer_series import AnswerSeries

Facts = Mapping[str, Any]
TITLE = "join-aggregates"
HEADERS = (
    *("query", "state", "streams", "condition", "groups", "every", "method", "batches", "rows", "answered"),
    *("revised", "repaired", "alarms", *HELD),
)
HEADING = "answers"


def cells(facts: Facts) -> tuple[Any, ...]:
    """Return the columns ``HEADERS`` of a query."""
    return (
        *(facts["query"], state_in_words(facts), facts["from_clause"], facts["condition"], facts["groups"]),
        *(format_duration(facts["every_us"]), facts["method"], facts["batches"], facts["rows"]),
        *(facts["answered"], facts["revised"], facts["repaired"], facts["alarms"], *held_cells(facts)),
    )


def plan_in_words(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield what rows join, what is shown, and how it runs, each part under its name."""
    plan = facts["plan"]
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


def found_in_words(facts: Facts) -> Iterator[str]:
    """Yield how much was answered and changed, what is final, and what a repair still has to look at."""
    changed = f"{facts['revised']:,} revised at once, {facts['repaired']:,} changed by repair"
    yield f"answers: {facts['answered']:,} given, {changed}"
    late = sum(batch["late"] for batch in facts["buckets"])
    yield f"late: {late:,} of {facts['rows']:,} rows came after a tick they belong to had been answered"
    if facts["final_before_us"] is not None:
        last = (facts["final_before_us"] - 1) // facts["every_us"] * facts["every_us"]
        yield f"final: ticks up to {time_text(last)}, rows beyond the streams' latest apart"
    if facts["next_tick"]:
        yield f"next tick: {next_tick_in_words(facts)}"
    yield to_repair_in_words(facts["to_repair"])


def next_tick_in_words(facts: Facts) -> str:
    """Return the next tick, what it waits for, and that alarms stay raised until then."""
    known = facts["next_tick"]
    waits = f"waits for rows of {' and '.join(known['waits_for'])} from then on"
    if known["idle_from_us"] is not None:
        waits += f", or for a row of any stream from {time_text(known['idle_from_us'])} on"
    raised = f"; until then {facts['alarms']:,} raised alarms stay raised" if facts["alarms"] else ""
    return f"{time_text(known['tick_us'])} {waits}{raised}"


def waiting_in_words(facts: Facts) -> str | None:
    """Return what the raised alarms of a query wait for; None where none is raised."""
    return next_tick_in_words(facts) if facts["alarms"] and facts["next_tick"] else None


def tables(facts: Facts) -> Iterator[Table]:
    """Yield what its buckets hold, and its last batches."""
    yield Table("buckets, as the last batch left them", _BUCKET, list(map(_bucket, facts["buckets"])))
    yield Table("last batches", _BATCH, list(map(_batch, facts["last_batches"])))


def last_tables(facts: Facts) -> Iterator[Table]:
    """Yield its alarms and its last repairs."""
    yield Table("alarms raised now", _RAISED, list(map(_raised, facts["raised"])))
    yield Table("alarms that ended last", _ENDED, list(map(_ended, facts["ended"])))
    yield repairs_table(facts, "answers changed", "ticks up to")


_COUNTED = ("rows", "late", "logged", "refused", "unusable")
_BUCKET = ("bucket", "rows held", "bytes", *_COUNTED)
_BATCH = ("batch", "ended", "answered", "revised", *_COUNTED, "rows held", "bytes", "ticks up to")


def _counts(row: Facts) -> list[Any]:
    return [row[name] for name in ("rows", "late", "missed", "refused", "unusable")]


def _bucket(row: Facts) -> tuple[Any, ...]:
    return (row["bucket"], row["held"], row["bytes"], *_counts(row))


def _batch(row: Facts) -> tuple[Any, ...]:
    held = (row["held"], row["bytes"], time_text(row["time_us"]))
    return (row["batch"], ended_at(row), row["answered"], row["revised"], *_counts(row), *held)


_RAISED = ("group", "since", "changes", "alarm")
_ENDED = ("group", "since", "until", "for", "state", "changes", "final", "alarm", "merged into")


def _raised(row: Facts) -> tuple[Any, ...]:
    return (_group(row), time_text(row["raised_us"]), row["changes"], row["alarm"])


def _ended(row: Facts) -> tuple[Any, ...]:
    lasted = None if row["cleared_us"] is None else length(row["cleared_us"] - row["raised_us"])
    times = (time_text(row["raised_us"]), time_text(row["cleared_us"]), lasted)
    return (_group(row), *times, row["state"], row["changes"], row["final"], row["alarm"], row["merged_into"])


def _group(row: Facts) -> str:
    return (
        named({name: None if value is None else str(value) for name, value in row["group"].items()}) or "all"
    )


def charts_of(
    facts: Mapping[str, Any], state: AggregateState, declared: Declared
) -> Sequence[Mapping[str, Any]]:
    """Return the charts of its page."""
    # The list of queries does without DuckDB.
    from lakehouse.queries.aggregate.live_answers import over_time
    from lakehouse.queries.aggregate.publish import snapshot_of

    snapshot = snapshot_of(state.layout, state.query, declared.streams, declared.published_us)
    answers = over_time(snapshot, POINTS // 2)
    return (
        *(_output(series, answers.groups) for series in answers.outputs),
        chart("revisions", rows=answers.revisions),
        *batch_charts(("held", "memory"), list(batches(state))),
    )


def _output(several: Sequence[AnswerSeries], groups: int) -> Mapping[str, Any]:
    """Return the chart of one output, a line for each of some of the groups; ``groups``: how many there are."""
    some = (
        f", the {len(several)} of {groups:,} groups with the greatest values" if groups > len(several) else ""
    )
    heading = f"{several[0].question.output} over event time{some}"
    return chart("series", heading=heading, **picture_of_answers(several).facts)
