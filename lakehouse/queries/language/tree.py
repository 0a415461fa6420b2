"""The SELECT of a query as a tree: its form, by which its kind is known, its streams and windows, and its outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.declare.columns import NAME, RESERVED
from lakehouse.declare.problems import nearest
from lakehouse.declare.stream import Stream
from lakehouse.queries.kind import Output
from lakehouse.queries.language.names import TIMES, Names, Source, offset_of
from lakehouse.queries.language.text import DIALECT, Parts, description_of
from lakehouse.queries.language.tokens import Faults, Span

if TYPE_CHECKING:
    from sqlglot import exp

    from lakehouse.queries.language.text import Clauses

# Forms of a SELECT, by which a kind of query is known.
AGGREGATES = "aggregates"
ONE_STREAM = "one stream"
TWO_STREAMS = "two streams"
MORE_STREAMS = "more streams"


@dataclass(frozen=True)
class Asked:
    """A registered text on its way to a query: its parts and its SELECT, and what it is read with.

    ``predicates``: the folder of the operator's own ones. ``faults`` notes every reason why it cannot be run.
    """

    name: str
    parts: Parts
    tree: exp.Select
    streams: Mapping[str, Stream]
    predicates: Path | None
    faults: Faults

    @property
    def named(self) -> dict[str, str]:
        """The fields that every query has of its text."""
        text = self.parts.text
        return {"name": self.name, "text": text, "description": description_of(text)}


def tree_of(parts: Parts, faults: Faults) -> exp.Select | None:
    """Return the SELECT that the SQL is; None, with the reason noted, where it is none."""
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
        faults.add(parts.start, "no SELECT ... FROM", "one SELECT over streams")
        return None
    return tree


def form_of(tree: exp.Select, parts: Parts) -> str:
    """Return the form of a SELECT.

    One stream with a window, or with a RECALL, is taken for two, of which the other is missing.
    """
    from sqlglot import exp

    has_groups = bool(tree.args.get("group") or tree.args.get("having"))
    if has_groups or any(each.find(exp.AggFunc) for each in tree.expressions):
        return AGGREGATES
    joins = len(tree.args.get("joins") or [])
    if joins > 1:
        return MORE_STREAMS
    is_one_side = parts.windows or {"RECALL", "POLICY"} & parts.clauses.places.keys()
    return TWO_STREAMS if joins or is_one_side else ONE_STREAM


def tables_of(tree: exp.Select, more: Collection[str], faults: Faults) -> list[exp.Expr]:
    """Return what is joined; parts of the SELECT and of the joins that we do not read are noted as faults.

    ``more``: parts that are read besides.
    """
    joins = tree.args.get("joins") or []
    tables = [tree.args["from_"].this, *(join.this for join in joins)]
    refuse_rest(tree, {"expressions", "from_", "joins", "where", *more}, faults)
    for join in joins:
        refuse_rest(join, {"this", "on", "kind"}, faults)
        if join.args.get("kind") not in (None, "", "INNER", "CROSS"):
            faults.add(offset_of(join), f"a {join.args['kind']} join", "JOIN ... ON")
    return tables


def refuse_rest(node: exp.Expr, known: Collection[str], faults: Faults) -> None:
    """Note the parts of a node that are not known."""
    for name, part in node.args.items():
        if part and name not in known:
            expected = (
                "SELECT ... FROM ... JOIN ... ON ... WHERE ... GROUP BY ... HAVING ... and nothing else"
            )
            faults.add(offset_of(node), name.strip("_").replace("_", " "), expected)


def clauses_on(tree: exp.Select) -> list[exp.Expr | None]:
    """Return what stands behind every ON, and behind WHERE."""
    from sqlglot import exp

    # A JOIN without ON is read as ON TRUE.
    on = [join.args.get("on") for join in tree.args["joins"]]
    where = tree.args.get("where")
    return [*(each for each in on if each != exp.true()), where.this if where else None]


def sources_of(
    tables: Sequence[exp.Expr], streams: Mapping[str, Stream], most: int, expected: str, faults: Faults
) -> tuple[Source, ...] | None:
    """Return the streams, two to ``most`` or one, under different aliases; None where they are not."""
    if not min(2, most) <= len(tables) <= most:
        found = f"{len(tables)} streams" if len(tables) > 1 else "one stream"
        faults.add(offset_of(tables[min(most, len(tables) - 1)]), found, expected)
        return None
    sources = [_source(table, streams, faults) for table in tables]
    seen: set[str] = set()
    for table, source in zip(tables, sources, strict=True):
        if source and source.alias in seen:
            count = "both" if len(tables) == 2 else "two"
            faults.add(
                offset_of(table), f"{source.alias!r} for {count} sides", "two aliases, such as a and b"
            )
            return None
        seen |= {source.alias} if source else set()
    known = tuple(source for source in sources if source)
    return known if len(known) == len(tables) else None


def _source(table: exp.Expr, streams: Mapping[str, Stream], faults: Faults) -> Source | None:
    from sqlglot import exp

    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier) or len(table.parts) > 1:
        faults.add(offset_of(table), table.sql(dialect=DIALECT), "the name of a stream")
        return None
    refuse_rest(table, {"this", "alias"}, faults)
    name = table.name.lower()
    if name not in streams:
        expected = nearest(name, sorted(streams))
        faults.add(offset_of(table), f"the unknown stream {table.name!r}", expected, about=name)
        return None
    return Source(name, table.alias_or_name.lower(), streams[name].all_columns | TIMES)


def windows_of(tables: Sequence[exp.Expr], parts: Parts, faults: Faults) -> list[list[Span]]:
    """Return the windows that stand at each stream: behind its name, behind its alias, or none."""
    windows = dict(parts.windows)
    given = []
    for table in tables:
        places = [table.this, table.args["alias"].this if table.args.get("alias") else table.this]
        found = [windows.pop(place.meta["start"], None) for place in places]
        given.append([span for span in found if span])
    for span in windows.values():
        faults.add(
            span.offset, "a window that stands at no stream", "[RANGE ...] behind the name of a stream"
        )
    return given


def own_windows(tables: Sequence[exp.Expr], parts: Parts, faults: Faults) -> tuple[int, ...]:
    """Return the windows of the sides, of which each has one of its own."""
    windows = windows_of(tables, parts, faults)
    for table, spans in zip(tables, windows, strict=True):
        if not spans:
            expected = "a window behind each stream, such as [60 MINUTES]"
            faults.add(offset_of(table), "no window", expected)
        for span in spans[1:]:
            faults.add(span.offset, "a second window of one stream", "one window behind each stream")
    return tuple(spans[0].us if spans else 0 for spans in windows)


def check_ahead(
    clauses: Clauses, sources: tuple[Source, ...], streams: Mapping[str, Stream], faults: Faults
) -> None:
    """Note AHEAD where a stream does not tell when its rows arrived."""
    silent = sorted({each.stream for each in sources if streams[each.stream].arrival_time is None})
    if "AHEAD" in clauses.places and silent:
        found = f"AHEAD, and no arrival_time of {' and '.join(silent)}"
        faults.add(clauses.places["AHEAD"], found, "streams whose every row tells when it arrived")


def check_output(
    name: str, offset: int, others: Collection[str], own: frozenset[str], faults: Faults
) -> None:
    """Note what is wrong with an output's name; ``own``: names that only our columns have beside RESERVED."""
    if name in others:
        faults.add(offset, f"a second output {name!r}", "another name, given with AS")
    elif not NAME.match(name) or name in RESERVED | own:
        expected = "a name of lower-case letters, digits and _ that is not Tidemark's own, given with AS"
        faults.add(offset, f"an output {name!r}", expected)


def read_outputs(tree: exp.Select, names: Names, own: frozenset[str]) -> tuple[Output, ...]:
    """Return the outputs of a SELECT without aggregates; ``own``: names that only our columns have."""
    outputs: dict[str, Output] = {}
    if not tree.expressions:
        names.faults.add(offset_of(tree), "no outputs", "columns, such as a.x, or *")
    for node in tree.expressions:
        for output in _outputs_of(node, names):
            check_output(output.name, offset_of(node), outputs, own, names.faults)
            outputs[output.name] = output
    return tuple(outputs.values())


def _outputs_of(node: exp.Expr, names: Names) -> list[Output]:
    from sqlglot import exp

    column = node.this if isinstance(node, exp.Alias) else node
    if isinstance(column, exp.Star):
        return [each for side in range(len(names.sources)) for each in _all_of(side, names)]
    if isinstance(column, exp.Column) and isinstance(column.this, exp.Star):
        side = names.side(column.table, offset_of(column))
        return [] if side is None else _all_of(side, names)
    if not isinstance(column, exp.Column):
        names.faults.add(offset_of(column), column.sql(dialect=DIALECT), "a plain column, such as a.x AS y")
        return []
    read = names.read(column)
    return [Output(node.alias_or_name.lower(), read.side, read.name)] if read else []


def _all_of(side: int, names: Names) -> list[Output]:
    source = names.sources[side]
    if len(names.sources) == 1:
        # Times have names of their own in every table of rows.
        return [Output(name, side, name) for name in source.columns if name not in TIMES]
    return [Output(f"{source.alias}_{name}", side, name) for name in source.columns]
