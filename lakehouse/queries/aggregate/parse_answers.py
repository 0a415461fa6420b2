"""Answers of an aggregate: columns of GROUP BY, aggregates of SELECT, and what HAVING asks of both."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from lakehouse.config.columns import Column, sql_type
from lakehouse.config.problems import nearest
from lakehouse.queries.aggregate.query import Function
from lakehouse.queries.language.conditions import conjuncts
from lakehouse.queries.language.filters import check_filter, check_value, presence_sql, value_sql
from lakehouse.queries.language.text import DIALECT
from lakehouse.queries.language.tree import Names, Place, Read, check_output, offset_of, refuse_rest

# What tables of answers and alarms have beside the query's own columns and RESERVED, stored and published.
ANSWER_COLUMNS = frozenset(
    {
        "tick",
        "tick_us",
        "tick_at",
        "holds",
        "revision",
        "is_newest",
        "final",
        "found",
        "results",
        "bucket",
        "counted_as",
    }
)
ALARM_COLUMNS = frozenset(
    {
        "alarm",
        "state",
        "raised_us",
        "raised_at",
        "cleared_us",
        "cleared_at",
        "change",
        "changes",
        "merged_into",
    }
)
# Aggregates that only HAVING reads are numbered under this name.
HIDDEN = "having_"
_NUMBERED = re.compile(f"({HIDDEN}|counted_|high_|low_|extreme_)[0-9]+")
_FUNCTIONS: dict[str, Function] = {
    "Count": "count",
    "Sum": "sum",
    "Avg": "avg",
    "Min": "min",
    "Max": "max",
}
_OUTPUTS = "a column of GROUP BY, or one of COUNT, SUM, AVG, MIN, MAX: HAVING may reckon with them"


@dataclass(frozen=True, order=True)
class Call:
    """An aggregate as it is written: a function of a side's value, given as Spark SQL; COUNT(*) has none, of side 0."""

    function: Function
    side: int
    value: str | None


class Answers:
    """SELECT, GROUP BY and HAVING as they were read; what is wrong there is noted.

    ``groups`` and ``measures`` are by output name, ``having`` what must all hold.
    """

    def __init__(self, tree: exp.Select, names: Names) -> None:
        self.names = names
        self.faults = names.faults
        self.groups: dict[str, Place] = {}
        self.measures: dict[str, Call] = {}
        count = len(self.faults.found)
        grouped = self._grouped(tree.args.get("group"))
        self._is_grouping_read = count == len(self.faults.found)
        if not tree.expressions:
            self.faults.add(offset_of(tree), "no outputs", _OUTPUTS)
        for node in tree.expressions:
            self._add_output(node, grouped.keys())
        self._add_rest(grouped, is_whole=count == len(self.faults.found))
        having = tree.args.get("having")
        self.having = list(conjuncts(having.this if having else None))
        for node in self.having:
            self._check_condition(node)

    def column(self, node: exp.Expr) -> Column | None:
        """Return what a name or aggregate of HAVING is."""
        meant = self.meaning(node)
        if isinstance(meant, Call):
            return Column(type="int" if meant.function == "count" else "double")
        if meant is None:
            return None
        side, name = self.groups[meant]
        return self.names.sources[side].columns[name]

    def meaning(self, node: exp.Expr) -> str | Call | None:
        """Return the group that a node of HAVING names, or the aggregate that it names or is; None for neither."""
        if not isinstance(node, exp.Column):
            return self._call(node)
        name = node.name.lower()
        if not node.table and name in self.measures:
            return self.measures[name]
        if not node.table and name in self.groups:
            return name
        if not node.table and not any(name in source.columns for source in self.names.sources):
            expected = nearest(name, [*self.groups, *self.measures])
            self.faults.add(offset_of(node), f"the unknown name {node.name!r}", expected)
            return None
        place = self._place(node)
        group = next(
            (each for each, other in self.groups.items() if place and self._is_one(place, other)), None
        )
        if place and group is None:
            self._refuse_ungrouped(node)
        return group

    def hidden(self) -> set[Call]:
        """Return the aggregates that only HAVING reads."""
        found = {self.meaning(each) for node in self.having for each in node.find_all(exp.AggFunc)}
        return {call for call in found if isinstance(call, Call)} - set(self.measures.values())

    def _grouped(self, group: exp.Group | None) -> dict[Place, int]:
        """Return the columns of GROUP BY, of equal ones the first, and where they are named."""
        columns: dict[Place, int] = {}
        if group is not None:
            refuse_rest(group, {"expressions"}, self.faults)
        for node in group.expressions if group is not None else ():
            if not isinstance(node, exp.Column):
                self.faults.add(offset_of(node), _spelling(node), "a plain column")
            elif (place := self._place(node)) and not any(self._is_one(place, other) for other in columns):
                columns[place] = offset_of(node)
        return columns

    def _place(self, node: exp.Column) -> Place | None:
        read = self.names.read(node)
        return (read.side, read.name) if read else None

    def _is_one(self, one: Place, two: Place) -> bool:
        return self.names.equated.are_equal((one, two))

    def _add_output(self, node: exp.Expr, grouped: Iterable[Place]) -> None:
        inner, alias = node.unalias(), node.alias.lower()
        if isinstance(inner, exp.Column) and not isinstance(inner.this, exp.Star):
            if place := self._place(inner):
                if not any(self._is_one(place, other) for other in grouped):
                    self._refuse_ungrouped(inner)
                self._check_name(alias or place[1], offset_of(node), ALARM_COLUMNS)
                self.groups[alias or place[1]] = place
        elif isinstance(inner, exp.Func):
            if (call := self._call(inner)) and (name := alias or self._name_of(inner, call)):
                self._check_name(name, offset_of(node))
                self.measures[name] = call
        else:
            self.faults.add(offset_of(inner), _spelling(inner), _OUTPUTS)

    def _add_rest(self, grouped: Mapping[Place, int], is_whole: bool) -> None:
        """Add the columns of GROUP BY that SELECT leaves out: an answer must tell which group it is of.

        ``is_whole``: nothing was wrong before, which could make a name stand twice.
        """
        for place, offset in sorted(grouped.items(), key=lambda each: each[0][1]):
            if not any(self._is_one(place, other) for other in self.groups.values()):
                if is_whole:
                    self._check_name(place[1], offset, ALARM_COLUMNS)
                self.groups.setdefault(place[1], place)

    def _check_name(self, name: str, offset: int, more: frozenset[str] = frozenset()) -> None:
        own = ANSWER_COLUMNS | more | ({name} if _NUMBERED.fullmatch(name) else set())
        check_output(name, offset, {*self.groups, *self.measures}, own, self.faults)

    def _name_of(self, node: exp.Expr, call: Call) -> str | None:
        """Return the name of an aggregate that is given none."""
        if call.value is None:
            return call.function
        argument = node.this.unnest()
        if isinstance(argument, exp.Column):
            return f"{call.function}_{argument.name.lower()}"
        self.faults.add(offset_of(node), f"{_spelling(node)} without a name", "a name, given with AS")
        return None

    def _call(self, node: exp.Expr) -> Call | None:
        function = _FUNCTIONS.get(type(node).__name__)
        if function is None:
            name = _spelling(node).partition("(")[0]
            expected = nearest(name.upper(), map(str.upper, _FUNCTIONS))
            self.faults.add(offset_of(node), _spelling(node), expected)
        elif node.expressions:
            self.faults.add(offset_of(node), _spelling(node), f"one argument of {function.upper()}")
        elif function == "count" and node.this == exp.Star():
            return Call("count", 0, None)
        else:
            return self._call_of_value(function, node.this.unnest())
        return None

    def _call_of_value(self, function: Function, value: exp.Expr) -> Call | None:
        """Return an aggregate of a value, which must be of one side, and for all but COUNT a number."""
        found = [self.names.read(column) for column in value.find_all(exp.Column)]
        sides = {read.side for read in found if read}
        if None in found:
            return None
        if len(sides) != 1:
            count = "no column" if not sides else "columns of several streams"
            self.faults.add(
                offset_of(value), f"{_spelling(value)}, which reads {count}", "columns of one stream"
            )
            return None
        if function == "sum" and not self._adds_up([read for read in found if read], value):
            return None
        if function == "count" and isinstance(value, exp.Column) and not all(map(_is_number, found)):
            return Call("count", sides.pop(), presence_sql(value))
        if not check_value(value, self.names):
            return None
        exact = _exact_type(found[0]) if isinstance(value, exp.Column) else None
        return Call(function, sides.pop(), value_sql(value, exact or "double"))

    def _adds_up(self, found: Iterable[Read], value: exp.Expr) -> bool:
        """Tell if a value may be summed; what reads a counter may not, and is noted."""
        for read in found:
            source = self.names.sources[read.side]
            if read.name in source.counters:
                reason = f"{read.name} of {source.stream} is a counter, whose readings do not add up"
                expected = "AVG, MIN or MAX of its readings, or COUNT; `tidemark ask` answers its increase"
                self.faults.add(offset_of(value), f"SUM({_spelling(value)}), but {reason}", expected)
                return False
        return True

    def _refuse_ungrouped(self, node: exp.Column) -> None:
        if not self._is_grouping_read:
            return
        expected = f"a column of GROUP BY, or an aggregate such as MAX({_spelling(node)})"
        self.faults.add(offset_of(node), f"{_spelling(node)}, which is not in GROUP BY", expected)

    def _check_condition(self, node: exp.Expr) -> None:
        unknown = list(node.find_all(exp.Anonymous))
        for each in unknown:
            self._call(each)
        if not unknown and node.find(exp.Column, exp.AggFunc):
            check_filter(node, self)
        elif not unknown:
            expected = "a condition on aggregates or groups"
            self.faults.add(offset_of(node), "a condition that reads neither aggregate nor group", expected)


def _exact_type(read: Read | None) -> str | None:
    """Return the type of a column whose values are added and compared exactly; None of one of doubles."""
    kind = None if read is None else sql_type(read.column)
    return None if kind == "double" else kind


def _is_number(read: Read | None) -> bool:
    return read is not None and read.column.is_number


def _spelling(node: exp.Expr) -> str:
    return node.sql(DIALECT, comments=False)
