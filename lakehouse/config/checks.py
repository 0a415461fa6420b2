"""Checks of a declared stream: names that must agree, levels that must nest, times in order.

What pydantic refused is told in the words of the project. A stream with one bad value is looked at whole all the same:
the bad values are left out, the rest is checked, and only problems that the left-out values could not have caused are
reported.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from lakehouse.algorithms.rollup.levels import validate_levels
from lakehouse.config.columns import NAME, RESERVED
from lakehouse.config.durations import format_duration
from lakehouse.config.problems import Problem, nearest
from lakehouse.config.rules.checks import rule_problems
from lakehouse.config.source_checks import source_problems
from lakehouse.config.stream import Stream

_FILLER: dict[str, Any] = {
    "source": {"path": "*", "format": "ndjson"},
    "event_time": {"column": "ts", "unit": "s"},
    "levels": ["1d forever"],
}
# A problem of the first may only be the echo of a value left out of the others.
_ECHOES = {
    "columns": ("source", "event_time", "arrival_time"),
    "groupings": ("keys",),
    "clock_bounds": ("arrival_time",),
    "rules": ("keys", "measures", "counters", "groupings", "levels"),
    "event_time": ("source",),
    "arrival_time": ("source",),
}
# A client's options may hold secrets too.
_SECRETS = {"control", "options", "secret", "secrets", "api_key", "password", "token"}
_USER = re.compile(r"//[^/@\s]*@")
_OUR_WORDS = (
    (r"^Value error, (expected )?", ""),
    (r"^Input should be ", ""),
    (r"^a valid tuple$", "a list"),
    (r"^a valid dictionary.*", "a table"),
    (r"^Input is not a valid path.*", "the path of a folder"),
    (r"^a valid (\w+).*", r"a \1"),
    (r"^a integer", "a whole number"),
    (r"^String should have", "a text of"),
)


def stream_problems(stream: Stream) -> list[Problem]:
    """Return every problem of one stream that needs more than one of its fields to be seen."""
    checks = (
        _names,
        _repeated,
        _identity,
        _revisions,
        _keys,
        _measures,
        _counters,
        _sums,
        _groupings,
        _levels,
        rule_problems,
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
    lists |= {"sums": stream.sums, "identity": stream.identity}
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


def _revisions(stream: Stream) -> Iterator[Problem]:
    """Without the event time in the identity, whether two rows are the same depends on which of them came first."""
    if stream.revisions is None:
        return
    if stream.identity_is_record or not stream.identity_of_time or stream.event_time.fallback is not None:
        found = f"identity = {list(stream.identity)} and the event time {'+'.join(stream.event_time.names)!r}"
        yield Problem(
            "revisions", found, "an identity of columns that hold the event time, which has no `or`"
        )
    name = stream.revisions.newest_by
    if name is not None and name not in stream.all_columns:
        yield Problem("revisions.newest_by", repr(name), nearest(name, stream.all_columns))


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


def _sums(stream: Stream) -> Iterator[Problem]:
    for name in dict.fromkeys(stream.sums):
        if name in stream.counters:
            yield Problem(
                "sums", f"{name!r}, a counter", "a measure that adds up: of a counter ask the increase"
            )
        elif name not in stream.measures:
            yield Problem("sums", repr(name), nearest(name, stream.measures))


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


def _bounds(stream: Stream) -> Iterator[Problem]:
    low, high = stream.event_time_bounds
    if low >= high:
        yield Problem("event_time_bounds", f"{low} and {high} us", "the earlier time first")
    for key, time in (("event_time", stream.event_time), ("arrival_time", stream.arrival_time)):
        zone = "timezone_column" if time and time.timezone_column else "timezone"
        if time and not time.is_local and getattr(time, zone) != "UTC":
            found = f"{getattr(time, zone)!r} with unit {time.unit!r}"
            yield Problem(f"{key}.{zone}", found, 'none: only "iso" has one')
    if stream.clock_bounds and "behind" in stream.clock_bounds.model_fields_set and not stream.arrival_time:
        yield Problem(
            "clock_bounds", "no arrival_time", "arrival_time, which behind is measured from; ahead needs none"
        )


def stream_refusals(name: str, table: Any, error: ValidationError) -> list[Problem]:
    """Return every problem of a stream that pydantic refused."""
    prefix = f"streams.{name}"
    refused = problems_of(prefix, error, Stream)
    places = [_left_out(detail["loc"]) for detail in error.errors(include_url=False) if detail["loc"]]
    rest = _rest(name, table, places) if isinstance(table, dict) else None
    if rest is None:
        return refused
    bad = {".".join(place) for place in places}
    return [*refused, *(found for found in stream_problems(rest) if not _is_echo(_below(prefix, found), bad))]


def problems_of(prefix: str, error: ValidationError, model: type[BaseModel]) -> list[Problem]:
    """Return a model's refusals, one per key: alternatives of one value are reported together."""
    by_key: dict[str, Problem] = {}
    for detail in error.errors(include_url=False):
        problem = _problem(prefix, dict(detail), model)
        if problem.key in by_key:
            both = f"{by_key[problem.key].expected}, or {problem.expected}"
            problem = Problem(problem.key, problem.found, both)
        by_key[problem.key] = problem
    return list(by_key.values())


def _problem(prefix: str, detail: Mapping[str, Any], model: type[BaseModel]) -> Problem:
    # The branches of a union are no keys that anyone wrote.
    parts = [str(part) for part in detail["loc"] if not re.search(r"[\[(]", str(part))]
    key = ".".join([*([prefix] if prefix else []), *parts])
    if detail["type"] == "missing":
        return Problem(key, "nothing", "a value")
    if detail["type"] == "extra_forbidden":
        return Problem(key, "an unknown key", nearest(parts[-1], _fields_at(model, parts[:-1])))
    message = str(detail["msg"])
    for pattern, words in _OUR_WORDS:
        message = re.sub(pattern, words, message)
    return Problem(key, _shown(detail["input"], parts), message)


def _shown(value: Any, parts: Sequence[str]) -> str:
    """Return a value as an error may name it: of what may be a secret its type, of an address nobody's password."""
    if _SECRETS.intersection(parts):
        return type(value).__name__
    return _USER.sub("//***@", repr(value))


def _fields_at(model: type[BaseModel], path: Sequence[str]) -> list[str]:
    """Return the fields of the models that a path leads to; a path through a dict passes over its key."""
    models = [model]
    for part in path:
        fields = [each.model_fields[part] for each in models if part in each.model_fields]
        models = [inner for field in fields for inner in _models_in(field.annotation)] or models
    names = dict.fromkeys(name for each in models for name in each.model_fields)
    return [name for name in names if name not in ("name", "config")]


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _rest(name: str, table: dict[str, Any], places: Sequence[tuple[str, ...]]) -> Stream | None:
    """Return the stream without its refused values, None when even that is none."""
    rest = deepcopy(table)
    for place in places:
        _leave_out(rest, place)
    try:
        return Stream.model_validate(_FILLER | rest | {"name": name})
    except ValidationError:
        return None


def _left_out(place: Sequence[int | str]) -> tuple[str, ...]:
    """Return what a refused value takes with it: its column, rule or option of the source, or its top-level key."""
    option = place[0] == "source" and place[1:2] not in (("kind",), ("path",), ("format",))
    is_alone = place[0] in ("columns", "rules") or option
    return tuple(map(str, place[: 2 if is_alone else 1]))


def _leave_out(table: dict[str, Any], place: tuple[str, ...]) -> None:
    *tables, leaf = place
    owner = table.get(tables[0]) if tables else table
    if isinstance(owner, dict):
        owner.pop(leaf, None)
    elif isinstance(owner, list):
        # The other rules keep their numbers.
        owner[int(leaf)] = {"freshness": "1d", "name": f"left_out_{leaf}"}


def _below(prefix: str, problem: Problem) -> Problem:
    return Problem(problem.key.removeprefix(f"{prefix}."), problem.found, problem.expected)


def _is_echo(problem: Problem, bad: set[str]) -> bool:
    """Return whether a problem (its key below the stream) may come from a value that was left out."""
    top, _, below = problem.key.partition(".")
    is_of_column = top == "rules" and any(each.startswith("columns.") for each in bad)
    return is_of_column or bool(bad & {top, f"{top}.{below.split('.')[0]}", *_ECHOES.get(top, ())})
