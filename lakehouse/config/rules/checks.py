"""Checks of a stream's rules: columns that must be there and of the right type, levels that keep what they count."""

from collections.abc import Iterator, Mapping

from lakehouse.config.columns import Column
from lakehouse.config.durations import format_duration
from lakehouse.config.problems import Problem, nearest
from lakehouse.config.rules import Rule
from lakehouse.config.rules.over_time import (
    CounterResets,
    Drift,
    MissingShare,
    NewColumns,
    Silent,
    TimeRule,
    Volume,
    coarsest,
)
from lakehouse.config.stream import Stream


def rule_problems(stream: Stream) -> Iterator[Problem]:
    """Yield the problems of a stream's rules that need more than the rule itself to be seen."""
    names = [rule.name for rule in stream.rules]
    for number, rule in enumerate(stream.rules):
        key = f"rules.{number}"
        if names.count(rule.name) > 1:
            yield Problem(f"{key}.name", repr(rule.name), "another name for each rule")
        yield from (
            _of_time(stream, key, rule) if isinstance(rule, TimeRule) else _of_values(stream, key, rule)
        )


def _of_values(stream: Stream, key: str, rule: Rule) -> Iterator[Problem]:
    keys = rule.expectation.columns
    # A pair has a key for each column, a list one for all.
    for place, name in zip(keys * (len(rule.columns) if len(keys) == 1 else 1), rule.columns, strict=True):
        column, wanted = stream.all_columns.get(name), rule.expectation.type
        if column is None:
            yield Problem(f"{key}.{place}", repr(name), nearest(name, stream.all_columns))
        elif wanted not in ("any", column.type) and not (wanted == "number" and column.is_number):
            yield Problem(f"{key}.{place}", f"{name!r} of type {column.type}", f"a {wanted}")
    kinds = {name: stream.all_columns[name] for name in rule.columns if name in stream.all_columns}
    yield from _values_of_rule(key, rule, kinds)
    if rule.is_comparison and len({each.is_number or each.type for each in kinds.values()}) > 1:
        types = ", ".join(f"{name!r} of type {each.type}" for name, each in kinds.items())
        yield Problem(f"{key}.{keys[0]}", types, "columns that can be compared with each other")


def _values_of_rule(key: str, rule: Rule, columns: Mapping[str, Column]) -> Iterator[Problem]:
    """Yield values that a rule compares with a column of another type."""
    lists = [("value_set", rule.columns[0], rule.value_set)] if rule.value_set else []
    lists += [
        ("value_pairs_set", *each)
        for each in zip(rule.columns, zip(*rule.value_pairs_set, strict=True), strict=False)
    ]
    for place, name, values in lists:
        column = columns.get(name)
        wanted = {"string": str, "boolean": bool}.get(column.type, int | float) if column else object
        for value in values:
            if not isinstance(value, wanted) or (isinstance(value, bool) and column and column.is_number):
                kind = column.type if column else ""
                yield Problem(
                    f"{key}.{place}", f"{value!r} for {name!r} of type {kind}", f"values of type {kind}"
                )


def _of_time(stream: Stream, rule_key: str, rule: TimeRule) -> Iterator[Problem]:
    limits, key = rule.limits, f"{rule_key}.{rule.kind}"
    match limits:
        case Silent(key=name) if not any(name in grouping for grouping in stream.groupings):
            yield Problem(
                f"{key}.key", repr(name), f"a key of a grouping: {nearest(name, stream.grouping_keys)}"
            )
        case Silent(within=reach_us):
            yield from _unkept(stream, f"{key}.within", stream.levels[-1].width_us, reach_us)
        case MissingShare(column=name) | Drift(column=name) if name not in stream.all_columns:
            yield Problem(f"{key}.column", repr(name), nearest(name, stream.all_columns))
        case CounterResets(column=name) if name not in stream.counters:
            yield Problem(f"{key}.column", repr(name), f"a counter: {nearest(name, stream.counters)}")
        case Volume(per=per_us, reach_us=reach_us) | CounterResets(per=per_us, reach_us=reach_us):
            yield from _unkept(stream, f"{key}.per", per_us, reach_us)
        case Drift(column=name) if not (name in stream.keys or stream.all_columns[name].is_number):
            yield Problem(f"{key}.column", repr(name), "a number or one of keys, whose values are counted")
        case NewColumns() if stream.source.kind == "kafka":
            yield Problem(key, "a source of messages", "a source of files, whose first records are looked at")


def _unkept(stream: Stream, key: str, per_us: int, reach_us: int) -> Iterator[Problem]:
    """Yield a problem if no level has nodes that fit a period and are kept for a time."""
    if stream.levels and coarsest(stream.levels, per_us, reach_us) is None:
        levels = ", ".join(
            f"{format_duration(level.width_us)} for {format_duration(level.keep_us)}"
            for level in stream.levels
        )
        wanted = f"a level that divides it and is kept for {format_duration(reach_us)} at least; levels are {levels}"
        yield Problem(key, format_duration(per_us), wanted)
