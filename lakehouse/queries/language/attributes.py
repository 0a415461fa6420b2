"""Join attributes of many streams: equalities of columns. All else filters one stream."""

from collections.abc import Iterable, Sequence

from sqlglot import exp

from lakehouse.queries.kind import Conjunct
from lakehouse.queries.language.conditions import conjuncts
from lakehouse.queries.language.filters import call_in, read_condition
from lakehouse.queries.language.predicates import Find
from lakehouse.queries.language.text import DIALECT
from lakehouse.queries.language.tree import Names, Place, Read, offset_of

# By side the column that has a join attribute's value.
Attribute = dict[int, str]
_CROSS = (
    "only equalities between streams in an aggregate or a join of three streams or more, such as a.x = b.x"
)


def read_filters(
    clauses: Iterable[exp.Expr | None], names: Names, predicates: Find
) -> list[tuple[Conjunct, ...]]:
    """Return the conditions on every side, in the written order; equalities go to ``names.equated``.

    These are looked at first: where they stand does not matter to a name that several streams have. What they say of
    columns of one side comes last. ``predicates``: finds one of the operator's own.
    """
    nodes = [node for clause in clauses for node in conjuncts(clause)]
    pairs = [pair for node in nodes if (pair := _as_equality(node))]
    for is_clear in (True, False):
        found = [_equal(pair, names) for pair in pairs if all(map(names.is_clear, pair)) == is_clear]
        for one, two in filter(None, found):
            names.equated.add(one, two)
    filters: list[dict[str, Conjunct]] = [{} for _ in names.sources]
    for node in nodes:
        if condition := _filter(node, names, predicates):
            side, conjunct = condition
            filters[side][conjunct.text] = conjunct
    for places in sorted(names.equated.classes(), key=sorted):
        for side, (first, *others) in _columns_by_side(places).items():
            own = [Conjunct(f"`{first}` = `{other}`", (first, other)) for other in others]
            filters[side] |= {each.text: each for each in own}
    return [tuple(each.values()) for each in filters]


def attributes_of(names: Names) -> list[Attribute]:
    """Return the join attributes: of every class of equal columns of several sides, one column of each."""
    classes = [_columns_by_side(places) for places in names.equated.classes()]
    return [{side: columns[0] for side, columns in each.items()} for each in classes if len(each) > 1]


def check_connected(attributes: Sequence[Attribute], offsets: Sequence[int], names: Names) -> None:
    """Note a side that no attribute, and no chain of them, ties to the first; ``offsets`` are of the sides."""
    reached, grows = {0}, True
    while grows:
        tied = reached.union(*(each for each in attributes if reached & each.keys()))
        reached, grows = tied, tied != reached
    alone = [side for side in range(len(offsets)) if side not in reached]
    if alone:
        alias = names.sources[alone[0]].alias
        expected = (
            f"an equality of columns that joins {alias} to another stream: else every row meets every other"
        )
        names.faults.add(offsets[alone[0]], "no condition that joins the streams", expected)


def _columns_by_side(places: Iterable[Place]) -> dict[int, list[str]]:
    columns: dict[int, list[str]] = {}
    for side, column in sorted(places):
        columns.setdefault(side, []).append(column)
    return columns


def _as_equality(node: exp.Expr) -> tuple[exp.Column, exp.Column] | None:
    if not isinstance(node, exp.EQ):
        return None
    one, two = node.this.unnest(), node.expression.unnest()
    return (one, two) if isinstance(one, exp.Column) and isinstance(two, exp.Column) else None


def _equal(pair: tuple[exp.Column, exp.Column], names: Names) -> tuple[Place, Place] | None:
    """Return two columns that an attribute has; None where they are not, with the reason noted if it is one."""
    one, two = map(names.read, pair)
    if one is None or two is None or not _is_attribute(one, two):
        return None
    if one.side > two.side:
        one, two = two, one
    can_be = names.can_be_equal(one, two, min(one.offset, two.offset))
    return ((one.side, one.name), (two.side, two.name)) if can_be else None


def _is_attribute(one: Read, two: Read) -> bool:
    """Tell an equality that joins, or makes two columns of a side one, from a filter.

    A column equals itself where it is not null, and within a row numbers of any type are compared.
    """
    is_one_type = (one.column.type, one.column.scale) == (two.column.type, two.column.scale)
    return one.side != two.side or (is_one_type and one.name != two.name)


def _filter(node: exp.Expr, names: Names, predicates: Find) -> tuple[int, Conjunct] | None:
    """Return a condition with the number of its side; None where it is an equality that joins, or cannot be run."""
    found = [names.read(column) for column in node.find_all(exp.Column)]
    reads = [read for read in found if read]
    is_read = len(reads) == len(found)
    if is_read and _as_equality(node) and _is_attribute(*reads):
        return None
    if is_read and len({read.side for read in reads}) > 1 and not call_in(node):
        what = "OR between the streams" if isinstance(node, exp.Or) else node.sql(DIALECT, comments=False)
        names.faults.add(offset_of(node), what, _CROSS)
        return None
    return read_condition(node, names, predicates)
