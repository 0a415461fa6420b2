"""A SELECT over two streams, read into the join of pairs that it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.declare.durations import format_duration
from lakehouse.declare.stream import Stream
from lakehouse.queries.language.clauses import Clauses
from lakehouse.queries.language.conditions import Matching, add_conjunct, conjuncts
from lakehouse.queries.language.faults import Faults
from lakehouse.queries.language.names import Names, offset_of
from lakehouse.queries.language.outputs import read_outputs
from lakehouse.queries.language.row_conditions import of_side
from lakehouse.queries.language.text import Parts, description_of
from lakehouse.queries.language.tokens import Span
from lakehouse.queries.language.tree import clauses_on, sources_of, tables_of, windows_of
from lakehouse.queries.pairs.query import PairsQuery, Side

if TYPE_CHECKING:
    from sqlglot import exp

    from lakehouse.algorithms.late_join.contract import Clock

_SECOND = 1_000_000
# What a table of pairs has beside the query's own columns and RESERVED, where it is stored and where it is published.
PAIR_COLUMNS = frozenset({"left_us", "right_us", "left_row", "right_row", "found", "wait_us", "event_at"})


def read_join(
    name: str,
    parts: Parts,
    tree: exp.Select,
    streams: Mapping[str, Stream],
    predicates: Path | None,
    faults: Faults,
) -> PairsQuery | None:
    """Return the join that a SELECT asks for; None, with every reason noted, where it cannot be run.

    ``predicates``: the folder of the operator's own ones.
    """
    tables = tables_of(tree, (), faults)
    sources = sources_of(tables, streams, 2, "two streams, or one stream twice", faults)
    if sources is None:
        return None
    names = Names(sources, faults)
    outputs = read_outputs(tree, names, PAIR_COLUMNS)
    window_us = _window(tables, parts, faults)
    matching = _matching(tree, names, predicates, offset_of(tables[1]))
    timing = _timing(parts.clauses, faults)
    if faults.found or window_us is None:
        return None
    condition, *numbers = matching.condition()
    keys = sorted(matching.keys)
    left, right = (
        Side(
            source.stream,
            source.alias,
            tuple(key[side] for key in keys),
            numbers[side],
            *of_side(matching.conjuncts(side)),
        )
        for side, source in enumerate(sources)
    )
    return PairsQuery(
        name=name,
        text=parts.text,
        description=description_of(parts.text),
        sides=(left, right),
        window_us=window_us,
        condition=condition,
        outputs=outputs,
        recall=parts.clauses.recall or 0.0,
        period_us=timing[0],
        step_us=timing[1],
        clock=_clock(parts.clauses, all(streams[side.stream].arrival_time for side in (left, right))),
        policy="paper" if parts.clauses.policy == "PAPER" else "needed_slack",
    )


def _window(tables: list[exp.Expr], parts: Parts, faults: Faults) -> int | None:
    """Return the window, which one side or both may give."""
    given = [span for spans in windows_of(tables, parts, faults) for span in spans]
    if not given:
        faults.add(offset_of(tables[0]), "no window", "a window behind the stream, such as [RANGE 2 SECONDS]")
        return None
    for span in given[1:]:
        if span.us != given[0].us:
            faults.add(
                span.offset,
                f"a window of {format_duration(span.us)}",
                f"{format_duration(given[0].us)} as before",
            )
    return given[0].us


def _matching(tree: exp.Select, names: Names, predicates: Path | None, offset: int) -> Matching:
    matching = Matching()
    count = len(names.faults.found)
    for clause in clauses_on(tree):
        for node in conjuncts(clause):
            add_conjunct(node, names, matching, predicates)
    _check_matching(matching, names, offset, is_whole=count == len(names.faults.found))
    return matching


def _check_matching(matching: Matching, names: Names, offset: int, is_whole: bool) -> None:
    for reach in matching.reach[:1] if matching.keys else matching.reach[1:]:
        beside = "an equality, whose rows are found by key" if matching.keys else "another distance"
        names.faults.add(
            reach.offset, f"DISTANCE beside {beside}", "one of both, or ABS(a.x - b.x) <= number"
        )
    if is_whole and not (matching.keys or matching.near or matching.reach):
        expected = (
            "an equality of columns, ABS(a.x - b.x) <= number or DISTANCE(...) <= number between the sides"
        )
        names.faults.add(offset, "no condition that joins the streams", expected)


def _timing(clauses: Clauses, faults: Faults) -> tuple[int, int]:
    """Return period and step."""
    step = clauses.spans.get("EVERY", Span(_SECOND, 0))
    period = clauses.spans.get("OVER", step)
    if period.us % step.us:
        expected = f"a multiple of EVERY, {format_duration(step.us)}"
        faults.add(period.offset, f"a period of {format_duration(period.us)}", expected)
    return period.us, step.us


def _clock(clauses: Clauses, tells_arrival: bool) -> Clock:
    """Return the limits of a query; AHEAD is of a row's own arrival where every row has one.

    Else it is of the newest time of both streams, and must be longer than any gap of theirs.
    """
    from lakehouse.algorithms.late_join.contract import Clock

    idle, ahead = clauses.us("IDLE"), clauses.us("AHEAD")
    return Clock(idle, ahead, None if tells_arrival else ahead)
