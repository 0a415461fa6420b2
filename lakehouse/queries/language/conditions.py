"""Join conditions of ON and WHERE: filters of one side, keys, and numbers that are compared, near or in reach.

Every conjunct reads one side and filters it, or both and joins them. What means the same is brought into one form
and order, whichever way it was written, so that the state kept for a query fits it after a rewording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor

from sqlglot import exp

from lakehouse.algorithms.late_join.conditions import Band, Comparison, Condition, Distance, Equality
from lakehouse.queries.kind import Conjunct
from lakehouse.queries.language.filters import call_in, is_distance, read_condition
from lakehouse.queries.language.predicates import Find
from lakehouse.queries.language.tree import Names, Read, offset_of

# The digits after the point of a column, by side and name; None for a double.
ScaleOf = Callable[[int, str], int | None]
# More than exact numbers differ by: they are within +-2^125.
UNREACHED = 2**126
_OPERATORS = {"EQ": "==", "NEQ": "!=", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_TURNED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_FORMS = (
    "an equality of two columns, a comparison of two number columns and a constant, ABS(a.x - b.x) <= number, "
    "or DISTANCE(a.x, a.y, b.x, b.y) <= number"
)
_ONE_EACH = "one number column of each side, as in a.x < b.y + 0.5"


@dataclass(frozen=True, order=True)
class Compared:
    """``left operator right + plus`` by column names."""

    left: str
    operator: str
    right: str
    plus: Fraction


@dataclass(frozen=True, order=True)
class Near:
    """``ABS(left - right) <= width``."""

    width: Fraction
    left: str
    right: str


@dataclass(frozen=True)
class Reach:
    """``DISTANCE(left x, left y, right x, right y) <= radius``."""

    radius: Fraction
    left: tuple[str, str]
    right: tuple[str, str]
    offset: int


@dataclass
class Matching:
    """All that ON and WHERE say."""

    keys: set[tuple[str, str]] = field(default_factory=set)
    compared: set[Compared] = field(default_factory=set)
    near: set[Near] = field(default_factory=set)
    reach: list[Reach] = field(default_factory=list)
    filters: tuple[dict[str, Conjunct], dict[str, Conjunct]] = field(default_factory=lambda: ({}, {}))

    def conjuncts(self, side: int) -> tuple[Conjunct, ...]:
        """Return the conditions on a side, in the written order."""
        return tuple(self.filters[side].values())

    def condition(self, scale_of: ScaleOf) -> tuple[Condition, tuple[str, ...], tuple[str, ...]]:
        """Return what joins, and by its numbers' places the columns of each side that it reads.

        ``scale_of``: the digits after the point of a column, by side and name; None for a double. Numbers are compared
        as doubles if one of them is.
        """
        near = sorted(self.near)
        main = None if self.keys or self.reach or not near else near.pop(0)
        compared = sorted(self.compared | {each for band in near for each in _as_comparisons(band)})
        pairs: list[_Beside] = []
        for reach in self.reach[:1]:
            # Points need a place of their own for each coordinate, even where both are one column.
            scale = _common_scale(scale_of, *zip(reach.left, reach.right, strict=True))
            pairs += [_Beside(*both, scale) for both in zip(reach.left, reach.right, strict=True)]
        if main:
            pairs = [_Beside(main.left, main.right, _common_scale(scale_of, (main.left, main.right)))]
        where = tuple(_comparison(each, pairs, scale_of) for each in compared)
        condition: Condition = Equality(where)
        if self.reach:
            scale = pairs[0].scale
            condition = Distance(_in_units(self.reach[0].radius, scale), where=where, scale=scale)
        elif main:
            scale = pairs[0].scale
            condition = Band(_in_units(main.width, scale), where=where, scale=scale)
        return condition, tuple(each.left for each in pairs), tuple(each.right for each in pairs)


@dataclass(frozen=True)
class _Beside:
    """A column of each side that are compared with each other, and their scale."""

    left: str
    right: str
    scale: int | None


def _comparison(each: Compared, pairs: list[_Beside], scale_of: ScaleOf) -> Comparison:
    """Return a comparison by the place of its columns, which are put behind ``pairs`` if they have none yet."""
    scale = _common_scale(scale_of, (each.left, each.right))
    own = _Beside(each.left, each.right, scale)
    if own not in pairs:
        pairs.append(own)
    at = pairs.index(own)
    if scale is None:
        return Comparison(at, each.operator, at, float(each.plus))
    return Comparison(at, each.operator, at, _whole(each.operator, each.plus * 10**scale), scale)


def _common_scale(scale_of: ScaleOf, *pairs: tuple[str, str]) -> int | None:
    """Return the scale at which columns of both sides are compared; None, as doubles, if one of them is a double."""
    scales = [scale_of(side, name) for both in pairs for side, name in enumerate(both)]
    return None if None in scales else max(each for each in scales if each is not None)


def _in_units(reach: Fraction, scale: int | None) -> float:
    """Return a width or radius as a condition has it: of exact numbers, the greatest whole one that is not more."""
    return float(reach) if scale is None else min(floor(reach * 10**scale), UNREACHED)


def _whole(operator: str, bound: Fraction) -> int:
    """Return the whole number that differences of whole numbers compare with as they do with a bound."""
    if bound != floor(bound) and operator in ("==", "!="):
        return UNREACHED
    number = floor(bound) if operator in ("<=", ">") else ceil(bound)
    return max(-UNREACHED, min(number, UNREACHED))


def _as_comparisons(band: Near) -> Iterator[Compared]:
    yield Compared(band.left, "<=", band.right, band.width)
    yield Compared(band.left, ">=", band.right, -band.width)


def conjuncts(node: exp.Expr | None) -> Iterator[exp.Expr]:
    """Yield what is joined by AND; a BETWEEN is two comparisons."""
    match node:
        case None:
            return
        case exp.Paren():
            yield from conjuncts(node.this)
        case exp.And():
            yield from conjuncts(node.this)
            yield from conjuncts(node.expression)
        case exp.Between():
            yield exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
            yield exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
        case _:
            yield node


def add_conjunct(node: exp.Expr, names: Names, matching: Matching, predicates: Find) -> None:
    """Put one conjunct where it belongs, or note why it cannot be run.

    ``predicates``: finds one of the operator's own, which filter one side.
    """
    reads = [names.read(column) for column in node.find_all(exp.Column)]
    is_joining = None not in reads and len({read.side for read in reads if read}) > 1
    if is_joining and not call_in(node):
        _Joined(names, matching).add(node)
    elif found := read_condition(node, names, predicates):
        side, conjunct = found
        matching.filters[side][conjunct.text] = conjunct


class _Joined:
    """Conjuncts that read both sides."""

    def __init__(self, names: Names, matching: Matching) -> None:
        self.names = names
        self.matching = matching

    def add(self, node: exp.Expr) -> None:
        one, two = node.this, node.expression
        operator = _OPERATORS.get(type(node).__name__)
        if operator is None:
            what = "OR between the two sides" if isinstance(node, exp.Or) else _spelling(node)
            self._refuse(node, what, _FORMS)
        elif operator == "==" and isinstance(one, exp.Column) and isinstance(two, exp.Column):
            self._add_key(node, one, two)
        elif _is_measure(one):
            self._add_measure(node, one, operator, two)
        elif _is_measure(two):
            self._add_measure(node, two, _TURNED[operator], one)
        else:
            self._add_comparison(node, operator)

    def _refuse(self, node: exp.Expr, reason: str, expected: str) -> None:
        self.names.faults.add(offset_of(node), reason, expected)

    def _add_key(self, node: exp.Expr, one: exp.Column, two: exp.Column) -> None:
        reads = sorted((r for r in map(self.names.read, (one, two)) if r), key=lambda read: read.side)
        if self.names.can_be_equal(reads[0], reads[1], offset_of(node)):
            self.matching.keys.add((reads[0].name, reads[1].name))

    def _add_measure(self, node: exp.Expr, measure: exp.Expr, operator: str, bound: exp.Expr) -> None:
        width = _Linear(self.names).of(bound)
        if width is None:
            return
        if width.columns or operator != "<=":
            form = "ABS(a.x - b.x)" if _is_abs(measure) else "DISTANCE(a.x, a.y, b.x, b.y)"
            self._refuse(node, _spelling(node), f"{form} <= a number")
        elif width.plus and not Fraction("1e-100") <= width.plus <= Fraction("1e100"):
            self._refuse(bound, _spelling(bound), "0 or a number within 1e-100 and 1e100")
        elif _is_abs(measure):
            self._add_near(measure.this, width.plus)
        else:
            self._add_reach(measure, width.plus)

    def _add_near(self, difference: exp.Expr, width: Fraction) -> None:
        sum_of = self._difference(difference)
        if sum_of is None:
            return
        left, right, factor, plus = sum_of
        scaled = width / abs(factor)
        if plus:
            middle = -plus / factor
            low, high = middle - scaled, middle + scaled
            self.matching.compared |= {Compared(left, ">=", right, low), Compared(left, "<=", right, high)}
        else:
            self.matching.near.add(Near(scaled, left, right))

    def _add_reach(self, measure: exp.Expr, radius: Fraction) -> None:
        reads = [self.names.read(each) for each in measure.expressions if isinstance(each, exp.Column)]
        sides = [read.side for read in reads if read]
        if len(measure.expressions) != 4 or sides not in ([0, 0, 1, 1], [1, 1, 0, 0]):
            expected = "DISTANCE(a.x, a.y, b.x, b.y): two columns of one side, then two of the other"
            return self._refuse(measure, _spelling(measure), expected)
        points = sorted((read for read in reads if read), key=lambda read: read.side)
        if all([_is_number(self.names, read) for read in points]):
            left, right = (points[0].name, points[1].name), (points[2].name, points[3].name)
            self.matching.reach.append(Reach(radius, left, right, offset_of(measure)))
        return None

    def _add_comparison(self, node: exp.Expr, operator: str) -> None:
        found = self._difference(
            exp.Sub(this=exp.Paren(this=node.this.copy()), expression=exp.Paren(this=node.expression.copy()))
        )
        if found is None:
            return
        left, right, factor, plus = found
        turned = operator if factor > 0 else _TURNED[operator]
        self.matching.compared.add(Compared(left, turned, right, -plus / factor))

    def _difference(self, node: exp.Expr) -> tuple[str, str, Fraction, Fraction] | None:
        """Return left and right of ``factor * (left - right) + plus``."""
        linear = _Linear(self.names).of(node)
        if linear is None:
            return None
        found = {side: name for side, name in linear.columns}
        factors = list(linear.columns.values())
        if len(linear.columns) != 2 or len(found) != 2 or sum(factors) != 0:
            self._refuse(node, _spelling(node), _ONE_EACH)
            return None
        return found[0], found[1], linear.columns[0, found[0]], linear.plus


@dataclass(frozen=True)
class _Sum:
    """Columns by side and name with their factors, none of them 0, and a constant."""

    columns: dict[tuple[int, str], Fraction]
    plus: Fraction

    def times(self, factor: Fraction) -> _Sum:
        return _Sum({each: by * factor for each, by in self.columns.items() if factor}, self.plus * factor)

    def and_also(self, other: _Sum) -> _Sum:
        both = {
            each: self.columns.get(each, 0) + other.columns.get(each, 0)
            for each in self.columns | other.columns
        }
        return _Sum({each: Fraction(by) for each, by in both.items() if by}, self.plus + other.plus)


class _Linear:
    """Expressions as sums of columns, exactly."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def of(self, node: exp.Expr) -> _Sum | None:
        """Return the sum that a node is; None, with the reason noted, where it is none."""
        match node:
            case exp.Column():
                read = self.names.read(node)
                is_fit = read is not None and _is_number(self.names, read)
                return _Sum({(read.side, read.name): Fraction(1)}, Fraction(0)) if read and is_fit else None
            case exp.Literal() if not node.is_string:
                return _Sum({}, Fraction(node.this))
            case exp.Paren():
                return self.of(node.this)
            case exp.Neg():
                inner = self.of(node.this)
                return inner and inner.times(Fraction(-1))
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
                return self._of_two(node)
        self._refuse(node)
        return None

    def _of_two(self, node: exp.Expr) -> _Sum | None:
        one, two = self.of(node.this), self.of(node.expression)
        if one is None or two is None:
            return None
        if isinstance(node, exp.Add | exp.Sub):
            return one.and_also(two.times(Fraction(1 if isinstance(node, exp.Add) else -1)))
        if isinstance(node, exp.Mul) and not (one.columns and two.columns):
            return two.times(one.plus) if two.columns else one.times(two.plus)
        if isinstance(node, exp.Div) and not two.columns and two.plus:
            return one.times(1 / two.plus)
        self._refuse(node)
        return None

    def _refuse(self, node: exp.Expr) -> None:
        self.names.faults.add(offset_of(node), _spelling(node), f"{_ONE_EACH}, with + and - and numbers only")


def _is_number(names: Names, read: Read) -> bool:
    if read.column.is_number:
        return True
    found = f"{names.named(read)} of type {read.column.type}"
    names.faults.add(read.offset, found, "an int, double or decimal column")
    return False


def _is_abs(node: exp.Expr) -> bool:
    return type(node).__name__ == "Abs"


def _is_measure(node: exp.Expr) -> bool:
    return _is_abs(node) or is_distance(node)


def _spelling(node: exp.Expr) -> str:
    return node.sql(dialect="spark", comments=False)
