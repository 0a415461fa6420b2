"""The part of PromQL that range questions answer, as values; anything else is refused, naming the function.

    avg_over_time(telemetry:temp{device="d7"}[5m])             a series for each combination of keys
    sum by (room) (sum_over_time(power:watts[1h] offset 1d))   a series for each room
    avg_over_time(telemetry:temp{bound=~"low|high"}[5m])       the sides of the interval

The metric is ``stream:measure``, or ``stream`` alone for its rows. ``m[d]`` at t is the range [t - d, t), as everywhere
in Tidemark, where Prometheus means (t - d, t].
"""

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import promql_parser as promql

FUNCTIONS = {
    "sum_over_time": "sum",
    "count_over_time": "count",
    "avg_over_time": "avg",
    "min_over_time": "min",
    "max_over_time": "max",
    "increase": "increase",
}
# Adding up sums is a sum; an average of averages is none.
OPERATORS = {"sum": ("sum", "count", "increase"), "min": ("min",), "max": ("max",)}
BOUNDS = ("value", "low", "high")
ALERTS = "ALERTS"
# The parser calls itself for each operator and bracket: some thousands end the process, whose stack they fill.
_LONGEST, _MOST_PARTS = 50_000, 100
_TEXTS = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`[^`]*`", re.DOTALL)
_PARTS = re.compile(r"[-+*/%^(\[{=!<>~@]|\b(?:and|or|unless|atan2)\b", re.IGNORECASE)
_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a / b if b else math.nan,
}


class PromqlRefused(ValueError):
    """Refusal of a query; ``is_syntax`` where the text is no PromQL at all."""

    def __init__(self, message: str, is_syntax: bool = False) -> None:
        super().__init__(message)
        self.is_syntax = is_syntax


@dataclass(frozen=True)
class Matcher:
    """A condition on a label: ``=``, ``!=``, ``=~`` or ``!~``."""

    label: str
    operator: str
    value: str


@dataclass(frozen=True)
class RangeQuestion:
    """An aggregate of a metric over ``[t - range_us, t)``, the whole moved back by ``offset_us``.

    ``by``: the labels that stay apart; None leaves all keys apart.
    """

    metric: str
    aggregate: str
    range_us: int
    offset_us: int
    matchers: tuple[Matcher, ...]
    by: tuple[str, ...] | None


@dataclass(frozen=True)
class AlertsQuestion:
    """The alarms that are raised, those that match."""

    matchers: tuple[Matcher, ...]


Asked = RangeQuestion | AlertsQuestion | float


def parsed(text: str) -> Asked:
    """Return what a query asks for. Raises PromqlRefused when it is no PromQL, or more of it than can be answered."""
    return _asked(_tree(text))


def selected(text: str) -> tuple[str | None, tuple[Matcher, ...]]:
    """Return metric and other matchers of a selector, as ``match[]`` has them. Raises PromqlRefused when it is none."""
    tree = _tree(text)
    if not isinstance(tree, promql.VectorSelector):
        raise PromqlRefused(
            f'expected a selector such as telemetry:temp{{device="d7"}}, found {text[:100]!r}'
        )
    return _selector(tree)


def _tree(text: str) -> Any:
    if len(text) > _LONGEST:
        raise PromqlRefused(f"no PromQL: expected at most {_LONGEST:,} characters", is_syntax=True)
    if len(_PARTS.findall(_TEXTS.sub("", text))) > _MOST_PARTS:
        raise PromqlRefused(f"no PromQL: more than {_MOST_PARTS} operators and brackets", is_syntax=True)
    try:
        return promql.parse(text)
    except (ValueError, RecursionError) as error:
        raise PromqlRefused(f"no PromQL: {error}", is_syntax=True) from None


def _asked(tree: Any) -> Asked:
    if isinstance(tree, promql.ParenExpr):
        return _asked(tree.expr)
    if isinstance(tree, promql.NumberLiteral | promql.UnaryExpr | promql.BinaryExpr):
        return _number(tree)
    if isinstance(tree, promql.AggregateExpr):
        return _grouped(tree)
    if isinstance(tree, promql.Call):
        return _call(tree, None)
    if isinstance(tree, promql.VectorSelector):
        metric, matchers = _selector(tree)
        if metric == ALERTS:
            return AlertsQuestion(matchers)
        raise PromqlRefused(
            f"{metric or 'a selector'} alone has no range: ask for example avg_over_time({metric or 'metric'}[5m]), "
            "or increase of a counter"
        )
    raise PromqlRefused(f"{type(tree).__name__} is not answered here; {_known()}")


def _number(tree: Any) -> float:
    """Return the value of an expression of numbers alone: Grafana asks for 1+1 to see whether anybody answers."""
    if isinstance(tree, promql.NumberLiteral):
        return float(tree.val)
    if isinstance(tree, promql.ParenExpr):
        return _number(tree.expr)
    if isinstance(tree, promql.UnaryExpr):
        return -_number(tree.expr)
    if isinstance(tree, promql.BinaryExpr) and str(tree.op) in _ARITHMETIC:
        return _ARITHMETIC[str(tree.op)](_number(tree.lhs), _number(tree.rhs))
    raise PromqlRefused(f"arithmetic is answered between numbers alone; {_known()}")


def _grouped(tree: Any) -> RangeQuestion:
    name = str(tree.op)
    if name not in OPERATORS:
        raise PromqlRefused(f"{name}() over series is not answered here; {_known()}")
    inner = tree.expr
    while isinstance(inner, promql.ParenExpr):
        inner = inner.expr
    if not isinstance(inner, promql.Call):
        raise PromqlRefused(f"{name}() takes one of the range functions; {_known()}")
    labels: tuple[str, ...] = ()
    if tree.modifier is not None:
        if str(tree.modifier.type).rpartition(".")[2] != "By":
            raise PromqlRefused(
                f"{name} without (...) is not answered here: name the labels that stay, with by (...)"
            )
        labels = tuple(dict.fromkeys(tree.modifier.labels))
    found = _call(inner, labels)
    if found.aggregate not in OPERATORS[name]:
        raise PromqlRefused(
            f"{name} of {inner.func.name} is not answered here: {name}() goes with "
            f"{', '.join(sorted(f for f, agg in FUNCTIONS.items() if agg in OPERATORS[name]))}"
        )
    return found


def _call(tree: Any, by: tuple[str, ...] | None) -> RangeQuestion:
    name = tree.func.name
    if name not in FUNCTIONS:
        raise PromqlRefused(f"{name}() is not answered here; {_known()}")
    (selector,) = tree.args
    if not isinstance(selector, promql.MatrixSelector):
        raise PromqlRefused(f"{name}() takes a range such as metric[5m]; subqueries are not answered here")
    inner = selector.vector_selector
    metric, matchers = _selector(inner)
    if metric is None:
        raise PromqlRefused("name one metric: stream:measure")
    if inner.at is not None:
        raise PromqlRefused("the @ modifier is not answered here")
    offset = inner.offset or timedelta(0)
    return RangeQuestion(metric, FUNCTIONS[name], _us(selector.range), _us(offset), matchers, by)


def _selector(tree: Any) -> tuple[str | None, tuple[Matcher, ...]]:
    if tree.matchers.or_matchers:
        raise PromqlRefused("`or` between matchers is not answered here")
    operators = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}
    found = [
        Matcher(one.name, operators[str(one.op).rpartition(".")[2]], one.value)
        for one in tree.matchers.matchers
    ]
    names = [one.value for one in found if one.label == "__name__" and one.operator == "="]
    metric = tree.name or (names[0] if names else None)
    # What else is said of the name, such as an expression that it must match, stays a matcher.
    return metric, tuple(one for one in found if (one.label, one.operator) != ("__name__", "="))


def _us(length: timedelta) -> int:
    return length // timedelta(microseconds=1)


def _known() -> str:
    return f"answered are {', '.join(FUNCTIONS)}, and {', '.join(OPERATORS)} by (...) over them"
