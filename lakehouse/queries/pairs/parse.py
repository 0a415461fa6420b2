"""A SELECT over two streams, read into the join of pairs that it asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakehouse.algorithms.late_join.margin import SPARE_ROWS
from lakehouse.config.durations import format_duration
from lakehouse.queries.kind import of_side
from lakehouse.queries.language.conditions import Matching, add_conjunct, conjuncts
from lakehouse.queries.language.predicates import Find
from lakehouse.queries.language.recall import recall, spare, timing
from lakehouse.queries.language.text import ClauseReader, Clauses, Grammar, Parts, duration, windows_of
from lakehouse.queries.language.tokens import Faults, Span
from lakehouse.queries.language.tree import (
    TWO_STREAMS,
    Asked,
    Names,
    Source,
    clauses_on,
    offset_of,
    read_outputs,
    sources_of,
    tables_of,
)
from lakehouse.queries.pairs.query import PairSide, PairsQuery, PaperSettings, Policy

if TYPE_CHECKING:
    from sqlglot import exp

    from lakehouse.algorithms.late_join.conditions import Condition
    from lakehouse.algorithms.late_join.contract import Clock
    from lakehouse.config.stream import Stream
    from lakehouse.queries.language.tokens import Named

# What a table of pairs has beside the query's own columns and RESERVED, where it is stored and where it is published.
PAIR_COLUMNS = frozenset(
    {"left_us", "right_us", "left_row", "right_row", "found", "wait_us", "event_at"}
    | {f"{side}_{what}" for side in ("left", "right") for what in ("file", "line", "item")}
)


def _policy(reader: ClauseReader, clause: str) -> bool:
    """Read a policy; behind PER_SOURCE, BY and the columns that tell a row's source; behind PAPER, its settings."""
    if not reader.one_of(clause, tuple(POLICIES)):
        return False
    policy = reader.clauses.words.get(clause)
    if policy == "PER_SOURCE" and reader.take("BY"):
        return reader.columns(clause)
    return policy != "PAPER" or _paper_settings(reader)


def _paper_settings(reader: ClauseReader) -> bool:
    """Read BASIC and GRANULARITY with a duration each, and LARGEST with a reading, in any order."""
    while word := reader.take("BASIC", "GRANULARITY", "LARGEST"):
        is_read = reader.one_of(word, _READINGS) if word == "LARGEST" else duration(reader, word)
        if not is_read:
            return False
    return True


_READINGS = ("HISTORY", "RECENT")
# The model of the paper sums over the basic windows of a window, whenever it chooses.
_MOST_BASIC_WINDOWS = 100_000
POLICIES: dict[str, Policy] = {"NEEDED_SLACK": "needed_slack", "PER_SOURCE": "per_source", "PAPER": "paper"}
GRAMMAR = Grammar(
    "a join of pairs",
    TWO_STREAMS,
    {
        "RECALL": recall,
        "EVERY": duration,
        "IDLE": duration,
        "AHEAD": duration,
        "POLICY": _policy,
        "SPARE": spare,
    },
    {
        "SLACK": "no SLACK: it is chosen by the RECALL asked for",
        "METHOD": "no METHOD: pairs are found in one way",
        "ALARM": "no ALARM: groups that HAVING lets through raise alarms",
        "DEADLINE": "no DEADLINE: selections alone are run in slices of time",
    },
    ("RECALL", "RECALL <share> OVER <period>, such as RECALL 0.95 OVER 1 MINUTE"),
)


def read(asked: Asked) -> PairsQuery | None:
    """Return the join that a SELECT asks for; None, with every reason noted, where it cannot be run."""
    parts, tree, streams, faults = asked.parts, asked.tree, asked.streams, asked.faults
    tables = tables_of(tree, (), faults)
    sources = sources_of(tables, streams, 2, "two streams, or one stream twice", faults)
    if sources is None:
        return None
    names = Names(sources, faults)
    outputs = read_outputs(tree, names, PAIR_COLUMNS)
    window_us = _window(tables, parts, faults)
    matching = _matching(tree, names, asked.predicates, offset_of(tables[1]))
    period_us, step_us = timing(parts.clauses, faults)
    policy, watched = _policy_of(parts.clauses, names, streams, matching)
    if policy == "paper" and window_us is not None:
        _check_basic(parts.clauses, window_us, faults)
    if faults.found or window_us is None:
        return None
    condition, sides = _sides(sources, matching)
    return PairsQuery(
        **asked.named,
        sides=sides,
        window_us=window_us,
        condition=condition,
        outputs=outputs,
        recall=parts.clauses.numbers.get("RECALL", 0.0),
        period_us=period_us,
        step_us=step_us,
        clock=_clock(parts.clauses, all(streams[side.stream].arrival_time for side in sides)),
        policy=policy,
        sources=watched,
        spare_rows=int(parts.clauses.numbers.get("SPARE", SPARE_ROWS)),
        paper=_paper_of(parts.clauses) if policy == "paper" else PaperSettings(),
    )


def _paper_of(clauses: Clauses) -> PaperSettings:
    return PaperSettings(
        clauses.us("BASIC") or PaperSettings.basic_us,
        clauses.us("GRANULARITY") or PaperSettings.granularity_us,
        "recent" if clauses.words.get("LARGEST") == "RECENT" else "history",
    )


def _sides(sources: Sequence[Source], matching: Matching) -> tuple[Condition, tuple[PairSide, PairSide]]:
    """Return the condition on rows of both sides, and each side with its keys, numbers and own conditions."""
    condition, *numbers = matching.condition(lambda side, name: sources[side].columns[name].scale)
    keys = sorted(matching.keys)
    left, right = (
        PairSide(
            source.stream,
            source.alias,
            tuple(key[side] for key in keys),
            numbers[side],
            **of_side(matching.conjuncts(side)),
        )
        for side, source in enumerate(sources)
    )
    return condition, (left, right)


def _policy_of(
    clauses: Clauses, names: Names, streams: Mapping[str, Stream], matching: Matching
) -> tuple[Policy, tuple[tuple[str, ...], tuple[str, ...]] | None]:
    """Return the policy of slack, and the columns that tell sources apart where it watches them.

    By default a join by a band or a distance, which has one bucket anyway, watches the sources that ``keys`` tell.
    """
    has_sources = all(streams[source.stream].keys for source in names.sources)
    usual = "PER_SOURCE" if has_sources and not matching.keys else "NEEDED_SLACK"
    policy = POLICIES[clauses.words.get("POLICY", usual)]
    if policy == "paper" and "SPARE" in clauses.places:
        names.faults.add(clauses.places["SPARE"], "SPARE beside POLICY PAPER", "one of both")
    columns = clauses.columns.get("POLICY", ())
    return policy, _sources(columns, names, streams) if policy == "per_source" else None


def _check_basic(clauses: Clauses, window_us: int, faults: Faults) -> None:
    basic = clauses.spans.get("BASIC", Span(PaperSettings.basic_us, clauses.places.get("POLICY", 0)))
    least_us = -(-window_us // _MOST_BASIC_WINDOWS)
    if basic.us < least_us:
        expected = f"BASIC {format_duration(least_us)} or more in a window of {format_duration(window_us)}"
        faults.add(basic.offset, f"a basic window of {format_duration(basic.us)}", expected)


def _sources(
    named: Sequence[Named], names: Names, streams: Mapping[str, Stream]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return, by side, the named columns that tell a row's source; the stream's keys where none of them is its."""
    found: tuple[list[str], list[str]] = ([], [])
    for name in named:
        for side in names.sides_with(name):
            found[side].append(name.column)
    left, right = (
        tuple(own) or streams[source.stream].keys for own, source in zip(found, names.sources, strict=True)
    )
    return left, right


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


def _matching(tree: exp.Select, names: Names, predicates: Find, offset: int) -> Matching:
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


def _clock(clauses: Clauses, tells_arrival: bool) -> Clock:
    """Return the limits of a query; AHEAD is of a row's own arrival where every row has one.

    Else it is of the newest time of both streams, and must be longer than any gap of theirs.
    """
    from lakehouse.algorithms.late_join.contract import Clock

    idle, ahead = clauses.us("IDLE"), clauses.us("AHEAD")
    return Clock(idle, ahead, None if tells_arrival else ahead)
