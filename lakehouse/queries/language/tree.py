"""The SELECT of a query as a tree: what its names mean, its form, which tells its kind, its streams and outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.config.columns import NAME, RESERVED, Column
from lakehouse.config.problems import nearest
from lakehouse.config.stream import Stream
from lakehouse.queries.kind import Output
from lakehouse.queries.language.arguments import unread
from lakehouse.queries.language.predicates import Find
from lakehouse.queries.language.text import DIALECT, Clauses, Parts, description_of, windows_of
from lakehouse.queries.language.tokens import Faults, Named

if TYPE_CHECKING:
    from sqlglot import exp


# A column of a side, by the side's number.
Place = tuple[int, str]
TIMES = {"event_us": Column(type="int"), "arrival_us": Column(type="int")}
# Forms of a SELECT, by which a kind of query is known.
AGGREGATES = "aggregates"
ONE_STREAM = "one stream"
TWO_STREAMS = "two streams"
MORE_STREAMS = "more streams"


@dataclass(frozen=True)
class Source:
    """One side: a stream under an alias, with the columns that can be read; some of these are counters."""

    stream: str
    alias: str
    columns: dict[str, Column]
    counters: tuple[str, ...] = ()


@dataclass(frozen=True)
class Read:
    """A column of one side, counted from 0, and where it is named."""

    side: int
    name: str
    column: Column
    offset: int


def offset_of(node: exp.Expr) -> int:
    """Return where a node begins: the first place that it or anything below it has, else its parent's."""
    starts = [each.meta["start"] for each in node.walk() if "start" in each.meta]
    if starts:
        return int(min(starts))
    return offset_of(node.parent) if node.parent is not None else 0


class Equated:
    """Classes of equal columns; a column that was never named is a class of its own.

    Equality passes on: of ``a.x = b.x AND b.x = c.y`` all three columns are one class, however it is written. What a
    class has of several sides is a join attribute.
    """

    def __init__(self) -> None:
        self._class_of: dict[Place, set[Place]] = {}

    def add(self, one: Place, two: Place) -> None:
        """Let two columns be equal, and with them all that are equal to either."""
        both = self.class_of(one) | self.class_of(two)
        for place in both:
            self._class_of[place] = both

    def class_of(self, place: Place) -> set[Place]:
        """Return a column and all that are equal to it."""
        return self._class_of.get(place, {place})

    def are_equal(self, places: Iterable[Place]) -> bool:
        """Tell if columns, one at least, are all of one class."""
        first, *others = places
        return self.class_of(first).issuperset(others)

    def classes(self) -> list[set[Place]]:
        """Return every class of two columns or more."""
        return list({id(each): each for each in self._class_of.values()}.values())


class Names:
    """Names of one query and their meanings; a name that means nothing, or two things, is noted as a fault.

    A name that several sides have means one thing all the same where those columns are ``equated``.
    """

    def __init__(self, sources: tuple[Source, ...], faults: Faults) -> None:
        self.sources = sources
        self.faults = faults
        self.equated = Equated()

    def side(self, alias: str, offset: int) -> int | None:
        """Return which side an alias is."""
        aliases = [source.alias for source in self.sources]
        if alias.lower() in aliases:
            return aliases.index(alias.lower())
        self.faults.add(offset, f"the unknown alias {alias!r}", nearest(alias.lower(), aliases))
        return None

    def read(self, node: exp.Column) -> Read | None:
        """Return the column that a node names."""
        offset, name = offset_of(node), node.name.lower()
        if len(node.parts) > 2:
            self.faults.add(offset, repr(".".join(part.name for part in node.parts)), "alias.column")
            return None
        side = self.side(node.table, offset) if node.table else self._only_side(name, offset)
        if side is None:
            return None
        columns = self.sources[side].columns
        if name not in columns:
            place = int(node.this.meta.get("start", offset))
            stream = self.sources[side].stream
            self.faults.add(place, f"the unknown column {node.name!r} of {stream}", nearest(name, columns))
            return None
        return Read(side, name, columns[name], offset)

    def sides_with(self, named: Named) -> list[int]:
        """Return the sides whose column a clause names; none, with the reason noted, where no side has it."""
        side = self.side(named.alias, named.offset) if named.alias else None
        if named.alias and side is None:
            return []
        among = self._having(named.column) if side is None else [side]
        if among and all(named.column in self.sources[each].columns for each in among):
            return among
        known = {name for source in self.sources for name in source.columns}
        self.faults.add(named.offset, f"the unknown column {named.column!r}", nearest(named.column, known))
        return []

    def column(self, node: exp.Expr) -> Column | None:
        """Return what a column is; an aggregate is none of a side's and noted as a fault."""
        from sqlglot import exp

        if isinstance(node, exp.Column):
            read = self.read(node)
            return read.column if read else None
        expected = "columns here: aggregates stand in SELECT and HAVING, not within another"
        self.faults.add(offset_of(node), f"the aggregate {node.sql(comments=False)}", expected)
        return None

    def is_clear(self, node: exp.Column) -> bool:
        """Tell if a name means one column at most, whatever columns are equated."""
        return bool(node.table) or len(self._having(node.name.lower())) <= 1

    def named(self, read: Read) -> str:
        """Return a column with its alias."""
        return f"{self.sources[read.side].alias}.{read.name}"

    def can_be_equal(self, one: Read, two: Read, offset: int) -> bool:
        """Tell if two columns are of one type, so that equality means the same wherever it is computed."""
        kinds = [(read.column.type, read.column.scale) for read in (one, two)]
        if kinds[0] == kinds[1]:
            return True
        found = " and ".join(f"{self.named(read)} of type {read.column.type}" for read in (one, two))
        scale = " and as many decimals" if kinds[0][0] == kinds[1][0] else ""
        self.faults.add(offset, found, f"two columns of one type{scale}")
        return False

    def _having(self, name: str) -> list[int]:
        return [side for side, source in enumerate(self.sources) if name in source.columns]

    def _only_side(self, name: str, offset: int) -> int | None:
        having = self._having(name)
        if having and self.equated.are_equal((side, name) for side in having):
            # Of equal columns any will do; this choice does not depend on the order of FROM.
            return min(having, key=lambda side: (self.sources[side].stream, self.sources[side].alias))
        if having:
            either = " or ".join(f"{self.sources[side].alias}.{name}" for side in having)
            count = "both" if len(self.sources) == 2 else len(having)
            self.faults.add(offset, f"{name!r}, which {count} sides have", either)
        else:
            columns = dict.fromkeys(name for source in self.sources for name in source.columns)
            self.faults.add(offset, f"the unknown column {name!r}", nearest(name, columns))
        return None


@dataclass(frozen=True)
class Asked:
    """A registered text on its way to a query: its parts and its SELECT, and what it is read with.

    ``predicates``: finds one of the operator's own. ``faults`` notes every reason why it cannot be run.
    """

    name: str
    parts: Parts
    tree: exp.Select
    streams: Mapping[str, Stream]
    predicates: Find
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
    odd = list(unread(tree))
    for node, found in odd:
        faults.add(offset_of(node), found, f"{node.key.upper()} without it")
    return None if odd else tree


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
    stream = streams[name]
    return Source(name, table.alias_or_name.lower(), stream.all_columns | TIMES, stream.counters)


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
