"""Text of a join-aggregate for ``tidemark queries`` and ``tidemark explain``."""

from collections.abc import Iterator, Sequence

from lakehouse.cli.output import time_text
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
    repairs_table,
    state_in_words,
    to_repair_in_words,
)
from lakehouse.cli.pages.figures import ended_at, length
from lakehouse.cli.pages.picture import named, picture_of_answers
from lakehouse.cli.pages.recall_text import (
    periods_in_words,
    recall_in_words,
    target_in_words,
    worst_periods,
)
from lakehouse.config.durations import format_duration
from lakehouse.queries.aggregate.state import AggregateState, batches
from lakehouse.queries.runtime.state import Declared
from lakehouse.serving.ask.answer_series import AnswerSeries


def _plan(facts: Facts) -> Iterator[tuple[str, str]]:
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
    if facts["recall"] is not None:
        yield "target", target_in_words(facts)
    yield "slack", plan["slack"]
    yield "method", plan["run_by"]
    yield "others", plan["others"]
    yield "buckets", plan["spread"]


def found_in_words(facts: Facts) -> Iterator[str]:
    """Yield how much was answered and changed, what is final, and what a repair still has to look at."""
    if facts["recall"] is not None:
        yield periods_in_words(facts, "answers")
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


def _group(row: Facts) -> str:
    return (
        named({name: None if value is None else str(value) for name, value in row["group"].items()}) or "all"
    )


def _charts(facts: Facts, state: AggregateState, declared: Declared) -> Sequence[Facts]:
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


def _output(several: Sequence[AnswerSeries], groups: int) -> Facts:
    """Return the chart of one output, a line for each of some of the groups; ``groups``: how many there are."""
    some = (
        f", the {len(several)} of {groups:,} groups with the greatest values" if groups > len(several) else ""
    )
    heading = f"{several[0].question.output} over event time{some}"
    return chart("series", heading=heading, **picture_of_answers(several).facts)


def _lasted(row: Facts) -> str | None:
    return None if row["cleared_us"] is None else length(row["cleared_us"] - row["raised_us"])


_COUNTED: Columns = {
    **{"rows": "rows", "late": "late", "logged": "missed", "refused": "refused", "unusable": "unusable"}
}
_HELD: Columns = {"rows held": "held", "bytes": "bytes"}
_BATCH: Columns = {
    **{"batch": "batch", "ended": ended_at, "answered": "answered", "revised": "revised"},
    **{**_COUNTED, **_HELD, "slack": of("slack_us", length), "ticks up to": TIME["stream time"]},
}
_RAISED: Columns = {
    **{"group": _group, "since": of("raised_us", time_text), "changes": "changes", "alarm": "alarm"},
}
_ENDED: Columns = {
    **{"group": _group, "since": of("raised_us", time_text), "until": of("cleared_us", time_text)},
    **{"for": _lasted, "state": "state", "changes": "changes", "final": "final", "alarm": "alarm"},
    "merged into": "merged_into",
}
TEXT = KindText(
    title="join-aggregates",
    columns={
        **{"query": "query", "state": state_in_words, "streams": "from_clause", "condition": "condition"},
        **{"groups": "groups", "recall": recall_in_words, "every": of("every_us", format_duration)},
        "method": "method",
        **{"batches": "batches", "rows": "rows", "answered": "answered", "revised": "revised"},
        **{"repaired": "repaired", "alarms": "alarms", **HELD},
    },
    plan=_plan,
    heading="answers",
    results=found_in_words,
    tables=(
        Table("buckets, as the last batch left them", "buckets", {"bucket": "bucket", **_HELD, **_COUNTED}),
        Table("last batches", "last_batches", _BATCH),
    ),
    last_tables=(
        Table("alarms raised now", "raised", _RAISED),
        Table("alarms that ended last", "ended", _ENDED),
        worst_periods("answers"),
        repairs_table("answers changed", "ticks up to"),
    ),
    charts=_charts,
    waiting=waiting_in_words,
)
