"""What a stream's single fields cannot tell: names that must agree, levels that must nest, times in order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from lakehouse.algorithms.rollup.levels import validate_levels
from lakehouse.declare.columns import NAME, RESERVED
from lakehouse.declare.durations import format_duration
from lakehouse.declare.problems import Problem, nearest
from lakehouse.declare.source_checks import source_problems
from lakehouse.declare.stream import Stream


def stream_problems(stream: Stream) -> list[Problem]:
    """Return every problem of one stream that needs more than one of its fields to be seen."""
    checks = (
        _names,
        _repeated,
        _identity,
        _keys,
        _measures,
        _counters,
        _groupings,
        _levels,
        _raw,
        _bounds,
        source_problems,
    )
    return [
        Problem(f"streams.{stream.name}.{problem.key}", problem.found, problem.expected)
        for check in checks
        for problem in check(stream)
    ]


def _names(stream: Stream) -> Iterator[Problem]:
    if not NAME.match(stream.name):
        yield Problem(
            "name", repr(stream.name), "a lower-case letter, then letters, digits or _, at most 100"
        )
    for name in stream.all_columns:
        if not NAME.match(name):
            yield Problem(
                f"columns.{name}",
                repr(name),
                f'a name of lower-case letters, digits and _, at most 100; declare it as NAME = {{ path = "{name}" }}',
            )
        elif name in RESERVED or "__" in name:
            yield Problem(
                f"columns.{name}", repr(name), "another name: this one is used by Tidemark's own tables"
            )


def _repeated(stream: Stream) -> Iterator[Problem]:
    lists = {"keys": stream.keys, "measures": stream.measures, "counters": stream.counters}
    lists["identity"] = stream.identity
    lists |= {f"groupings.{place}": grouping for place, grouping in enumerate(stream.groupings)}
    for key, names in lists.items():
        for name, times in Counter(names).items():
            if times > 1:
                yield Problem(key, f"{name!r} {times} times", "each name once")


def _identity(stream: Stream) -> Iterator[Problem]:
    if "*" in stream.identity and not stream.identity_is_record:
        yield Problem(
            "identity", str(list(stream.identity)), '["*"] alone (the whole record), or column names'
        )


def _keys(stream: Stream) -> Iterator[Problem]:
    for key in dict.fromkeys(stream.keys):
        if stream.all_columns[key].type == "double":
            yield Problem("keys", f"{key!r} of type double", "a string, int, boolean or decimal column")
        if key in stream.measures:
            yield Problem("keys", repr(key), "a column that is not also a measure")


def _measures(stream: Stream) -> Iterator[Problem]:
    for measure in dict.fromkeys(stream.measures):
        column = stream.all_columns[measure]
        if not column.is_number:
            yield Problem(
                "measures", f"{measure!r} of type {column.type}", "an int, double or decimal column"
            )


def _counters(stream: Stream) -> Iterator[Problem]:
    for counter in dict.fromkeys(stream.counters):
        if counter not in stream.measures:
            yield Problem("counters", repr(counter), nearest(counter, stream.measures))
    keys = list(stream.grouping_keys)
    if stream.counters and not any(set(grouping) == set(keys) for grouping in stream.groupings):
        found = f"groupings {[list(grouping) for grouping in stream.groupings]}"
        yield Problem("counters", found, f"a grouping of all keys, {keys}: a counter is read meter by meter")


def _groupings(stream: Stream) -> Iterator[Problem]:
    if not stream.groupings:
        yield Problem("groupings", "[]", "at least one grouping; [[]] is one over all keys")
    if len({frozenset(grouping) for grouping in stream.groupings}) < len(stream.groupings):
        yield Problem("groupings", str([list(g) for g in stream.groupings]), "each grouping once")
    for grouping in stream.groupings:
        for key in grouping:
            if key not in stream.keys:
                yield Problem("groupings", repr(key), nearest(key, stream.keys))


def _levels(stream: Stream) -> Iterator[Problem]:
    if not stream.levels:
        yield Problem("levels", "[]", 'at least one level, such as "1m for 2d"')
    for message in validate_levels(stream.levels) if stream.levels else []:
        readable = re.sub(r"(\d+) us", lambda found: format_duration(int(found[1])), message)
        level, _, rest = readable.partition(": found ")
        found, _, expected = rest.partition("; expected ")
        yield Problem(f"levels, {level}", found, expected)


def _raw(stream: Stream) -> Iterator[Problem]:
    if stream.keep_raw is not None and stream.keep_raw < stream.duplicates_within:
        found, least = map(format_duration, (stream.keep_raw, stream.duplicates_within))
        yield Problem(
            "keep_raw", found, f"at least duplicates_within, {least}: repeats are looked for in raw"
        )


def _bounds(stream: Stream) -> Iterator[Problem]:
    low, high = stream.event_time_bounds
    if low >= high:
        yield Problem("event_time_bounds", f"{low} and {high} us", "the earlier time first")
    for key, time in (("event_time", stream.event_time), ("arrival_time", stream.arrival_time)):
        if time and time.unit != "iso" and time.timezone != "UTC":
            yield Problem(
                f"{key}.timezone", f"{time.timezone!r} with unit {time.unit!r}", 'none: only "iso" has one'
            )
    if stream.clock_bounds and not stream.arrival_time:
        yield Problem(
            "clock_bounds", "no arrival_time", "arrival_time, which clock_bounds compares event time with"
        )
