"""Registered queries: files of SQL that join two streams within a window, read into what a join needs.

    -- what it is for
    SELECT r.device, s.temp AS answer
    FROM requests [RANGE 2 SECONDS] r JOIN replies [RANGE 2 SECONDS] s
    ON r.id = s.id AND s.temp > r.temp + 0.5
    WHERE r.kind = 'A'
    RECALL 0.95 OVER 1 MINUTE [EVERY 1 SECOND] [IDLE 10 MINUTES] [AHEAD 1 HOUR] [POLICY NEEDED_SLACK | PAPER]

Instead of the equality a band, ``ABS(r.x - s.x) <= 5``, or a distance, ``DISTANCE(r.x, r.y, s.x, s.y) <= 5``. What
cannot be run is refused with line, column, reason and what is expected. sqlglot is imported when there is a text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lakehouse.catalog.columns import NAME, RESERVED
from lakehouse.catalog.durations import format_duration
from lakehouse.catalog.problems import Problem
from lakehouse.catalog.query_conditions import Matching, add_conjunct, conjuncts
from lakehouse.catalog.query_names import TIMES, Names, Source, nearest, offset_of
from lakehouse.catalog.query_text import DIALECT, Faults, Parts, QueryError, Span, cut, description_of
from lakehouse.catalog.stream import Stream

if TYPE_CHECKING:
    from sqlglot import exp

    from lakehouse.algorithms.late_join.conditions import Band, Distance, Equality
    from lakehouse.algorithms.late_join.contract import Clock

__all__ = ["JoinQuery", "Output", "QueryError", "Side", "parse_query", "read_queries"]

_SECOND = 1_000_000
# What a table of pairs has beside the query's own columns and RESERVED, where it is stored and where it is published.
PAIR_COLUMNS = frozenset({"left_us", "right_us", "left_row", "right_row", "found", "wait_us", "event_at"})


@dataclass(frozen=True)
class Side:
    """One side of a join.

    ``keys``: columns of the equality, in the same order on both sides; none for band and distance. ``numbers``:
    columns read as numbers; the condition's indexes count in it. ``where``: Spark SQL over the raw table's columns,
    telling which rows take part; None for all.
    """

    stream: str
    alias: str
    keys: tuple[str, ...]
    numbers: tuple[str, ...]
    where: str | None


@dataclass(frozen=True)
class Output:
    """A column of the results: a side's (0 left, 1 right) column of the raw table."""

    name: str
    side: int
    column: str


@dataclass(frozen=True)
class JoinQuery:
    """A registered join. Rows join when their event times are at most ``window_us`` apart and the condition holds.

    ``recall`` of the pairs of any ``period_us`` are found at once; slack is chosen every ``step_us``.
    """

    name: str
    text: str
    description: str
    sides: tuple[Side, Side]
    window_us: int
    condition: Equality | Band | Distance
    outputs: tuple[Output, ...]
    recall: float
    period_us: int
    step_us: int
    clock: Clock
    policy: Literal["needed_slack", "paper"]

    def definition(self) -> str:
        """What the results and the state depend on, as one line; texts that mean the same give the same line."""
        left, right = self.sides
        streams = " JOIN ".join(f"{side.stream} WHERE {side.where or 'true'}" for side in self.sides)
        keys = ", ".join(f"{one} = {two}" for one, two in zip(left.keys, right.keys, strict=True))
        numbers = f"{', '.join(left.numbers)} | {', '.join(right.numbers)}"
        outputs = ", ".join(f"{each.name} = {each.side}.{each.column}" for each in self.outputs)
        clock = self.clock
        limits = ", ".join(
            "never" if limit is None else format_duration(limit)
            for limit in (clock.idle_us, clock.ahead_of_arrival_us, clock.ahead_of_streams_us)
        )
        told = (
            f"{streams} WITHIN {format_duration(self.window_us)} KEYS [{keys}] NUMBERS [{numbers}] ON {self.condition}"
            f" OUTPUTS [{outputs}] PERIOD {format_duration(self.period_us)} EVERY {format_duration(self.step_us)}"
            f" CLOCK [{limits}]"
        )
        return told.replace("\n", "\\n")


def read_queries(
    folder: Path, streams: Mapping[str, Stream], problems: list[Problem], refused: Collection[str] = ()
) -> dict[str, JoinQuery]:
    """Return the queries of a folder's ``*.sql`` files, sorted by name; what is wrong with any is added to problems.

    ``refused``: streams that are declared wrongly; that a query's stream is one of them is not told again.
    """
    queries: dict[str, JoinQuery] = {}
    for path in sorted(folder.glob("*.sql")):
        key = f"{folder.name}/{path.name}"
        if not NAME.match(path.stem):
            problems.append(Problem(key, repr(path.stem), "a name of lower-case letters, digits and _"))
            continue
        try:
            queries[path.stem] = parse_query(path.stem, path.read_text(encoding="utf-8"), streams)
        except UnicodeDecodeError as error:
            problems.append(Problem(key, str(error), "UTF-8"))
        except QueryError as error:
            told = [fault for fault in error.faults if fault.about not in refused]
            problems.extend(Problem(f"{key}:{f.line}:{f.column}", f.reason, f.expected) for f in told)
    return queries


def parse_query(name: str, text: str, streams: Mapping[str, Stream]) -> JoinQuery:
    """Return the query that a text is.

    Raises:
        QueryError: with every fault found, and line, column and reason of the first.
    """
    faults = Faults(text)
    query = _query(name, text, streams, faults)
    if faults.found or query is None:
        raise QueryError(name, faults.found)
    return query


def _query(name: str, text: str, streams: Mapping[str, Stream], faults: Faults) -> JoinQuery | None:
    parts = cut(text, faults)
    tree = _tree(parts, faults) if parts and parts.is_plain else None
    if parts is None or tree is None:
        return None
    tables = _tables(tree, faults)
    sources = _sources(tables, streams, faults)
    if sources is None:
        return None
    names = Names(sources, faults)
    outputs = _outputs(tree, names)
    window_us = _window(tables, parts, faults)
    matching = _matching(tree, names, offset_of(tables[1]))
    timing = _timing(parts, faults)
    if faults.found or window_us is None:
        return None
    condition, *numbers = matching.condition()
    keys = sorted(matching.keys)
    left, right = (
        Side(
            source.stream, source.alias, tuple(key[side] for key in keys), numbers[side], matching.where(side)
        )
        for side, source in enumerate(sources)
    )
    return JoinQuery(
        name=name,
        text=text,
        description=description_of(text),
        sides=(left, right),
        window_us=window_us,
        condition=condition,
        outputs=outputs,
        recall=parts.recall or 0.0,
        period_us=timing[0],
        step_us=timing[1],
        clock=_clock(parts, all(streams[side.stream].arrival_time for side in (left, right))),
        policy="paper" if parts.policy == "PAPER" else "needed_slack",
    )


def _tree(parts: Parts, faults: Faults) -> exp.Select | None:
    from sqlglot import exp, parse_one
    from sqlglot.errors import ParseError

    try:
        tree = parse_one(parts.sql, dialect=DIALECT)
    except ParseError as error:
        first = error.errors[0]
        lines = parts.sql.split("\n")
        before = sum(len(line) + 1 for line in lines[: first["line"] - 1])
        offset = before + first["col"] - len(first["highlight"])
        faults.add(
            min(offset, parts.end),
            repr(first["highlight"]),
            "SELECT ... FROM a [RANGE ...] a JOIN b ON ..., as SQL is written",
        )
        return None
    if not isinstance(tree, exp.Select) or not tree.args.get("from_"):
        faults.add(parts.start, "no SELECT ... FROM", "one SELECT over two streams")
        return None
    return tree


def _tables(tree: exp.Select, faults: Faults) -> list[exp.Expr]:
    """Return what is joined; parts of the SELECT and of the joins that we do not read are noted as faults."""
    joins = tree.args.get("joins") or []
    tables = [tree.args["from_"].this, *(join.this for join in joins)]
    _refuse_rest(tree, {"expressions", "from_", "joins", "where"}, faults)
    for join in joins:
        _refuse_rest(join, {"this", "on", "kind"}, faults)
        if join.args.get("kind") not in (None, "", "INNER", "CROSS"):
            faults.add(offset_of(join), f"a {join.args['kind']} join", "JOIN ... ON")
    return tables


def _refuse_rest(node: exp.Expr, known: set[str], faults: Faults) -> None:
    for name, part in node.args.items():
        if part and name not in known:
            expected = "SELECT ... FROM ... JOIN ... ON ... WHERE ... and nothing else"
            faults.add(offset_of(node), name.strip("_").replace("_", " "), expected)


def _sources(
    tables: list[exp.Expr], streams: Mapping[str, Stream], faults: Faults
) -> tuple[Source, Source] | None:
    if len(tables) != 2:
        found = f"{len(tables)} streams" if len(tables) > 1 else "one stream"
        faults.add(offset_of(tables[min(2, len(tables) - 1)]), found, "two streams, or one stream twice")
        return None
    left, right = (_source(table, streams, faults) for table in tables)
    if left is None or right is None:
        return None
    if left.alias == right.alias:
        faults.add(offset_of(tables[1]), f"{right.alias!r} for both sides", "two aliases, such as a and b")
        return None
    return left, right


def _source(table: exp.Expr, streams: Mapping[str, Stream], faults: Faults) -> Source | None:
    from sqlglot import exp

    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier) or len(table.parts) > 1:
        faults.add(offset_of(table), table.sql(dialect=DIALECT), "the name of a stream")
        return None
    _refuse_rest(table, {"this", "alias"}, faults)
    name = table.name.lower()
    if name not in streams:
        expected = nearest(name, sorted(streams))
        faults.add(offset_of(table), f"the unknown stream {table.name!r}", expected, about=name)
        return None
    return Source(name, table.alias_or_name.lower(), streams[name].all_columns | TIMES)


def _window(tables: list[exp.Expr], parts: Parts, faults: Faults) -> int | None:
    """Return the window, which one side or both may give."""
    given: list[Span] = []
    for table in tables:
        places = [table.this, table.args["alias"].this if table.args.get("alias") else table.this]
        given += [
            parts.windows.pop(place.meta["start"]) for place in places if place.meta["start"] in parts.windows
        ]
    for span in parts.windows.values():
        faults.add(
            span.offset, "a window that stands at no stream", "[RANGE ...] behind the name of a stream"
        )
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


def _outputs(tree: exp.Select, names: Names) -> tuple[Output, ...]:
    outputs: dict[str, Output] = {}
    if not tree.expressions:
        names.faults.add(offset_of(tree), "no outputs", "columns, such as a.x, or *")
    for node in tree.expressions:
        for output in _outputs_of(node, names):
            offset = offset_of(node)
            if output.name in outputs:
                names.faults.add(offset, f"a second output {output.name!r}", "another name, given with AS")
            elif not NAME.match(output.name) or output.name in RESERVED | PAIR_COLUMNS:
                expected = (
                    "a name of lower-case letters, digits and _ that is not Tidemark's own, given with AS"
                )
                names.faults.add(offset, f"an output {output.name!r}", expected)
            outputs[output.name] = output
    return tuple(outputs.values())


def _outputs_of(node: exp.Expr, names: Names) -> list[Output]:
    from sqlglot import exp

    column = node.this if isinstance(node, exp.Alias) else node
    if isinstance(column, exp.Star):
        return [each for side in (0, 1) for each in _all_of(side, names)]
    if isinstance(column, exp.Column) and isinstance(column.this, exp.Star):
        side = names.side(column.table, offset_of(column))
        return [] if side is None else _all_of(side, names)
    if not isinstance(column, exp.Column):
        is_aggregate = column.find(exp.AggFunc) is not None
        expected = (
            "a plain column: aggregates are not run yet"
            if is_aggregate
            else "a plain column, such as a.x AS y"
        )
        names.faults.add(offset_of(column), column.sql(dialect=DIALECT), expected)
        return []
    read = names.read(column)
    return [Output(node.alias_or_name.lower(), read.side, read.name)] if read else []


def _all_of(side: int, names: Names) -> list[Output]:
    source = names.sources[side]
    return [Output(f"{source.alias}_{name}", side, name) for name in source.columns]


def _matching(tree: exp.Select, names: Names, offset: int) -> Matching:
    matching = Matching()
    count = len(names.faults.found)
    where = tree.args.get("where")
    for clause in (tree.args["joins"][0].args.get("on"), where.this if where else None):
        for node in conjuncts(clause):
            add_conjunct(node, names, matching)
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


def _timing(parts: Parts, faults: Faults) -> tuple[int, int]:
    """Return period and step."""
    step = parts.spans.get("EVERY", Span(_SECOND, 0))
    period = parts.spans.get("OVER", step)
    if period.us % step.us:
        expected = f"a multiple of EVERY, {format_duration(step.us)}"
        faults.add(period.offset, f"a period of {format_duration(period.us)}", expected)
    return period.us, step.us


def _clock(parts: Parts, tells_arrival: bool) -> Clock:
    """Return the limits of a query; AHEAD is of a row's own arrival where every row has one.

    Else it is of the newest time of both streams, and must be longer than any gap of theirs.
    """
    from lakehouse.algorithms.late_join.contract import Clock

    idle, ahead = (parts.spans[name].us if name in parts.spans else None for name in ("IDLE", "AHEAD"))
    return Clock(idle, ahead, None if tells_arrival else ahead)
