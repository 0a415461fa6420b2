"""What pydantic refused, in the words of the project, and what else is wrong with the parts that it did not refuse.

A stream with one bad value is looked at whole all the same: the bad values are left out, the rest is checked, and
only problems that the left-out values could not have caused are reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from lakehouse.declare.checks import stream_problems
from lakehouse.declare.problems import Problem, nearest
from lakehouse.declare.stream import Stream

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
    "event_time": ("source",),
    "arrival_time": ("source",),
}
# A client's options may hold secrets too.
_SECRETS = {"control", "options", "secret", "api_key", "password", "token"}
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
    """Return the fields of the model that a path leads to; a path through a dict passes over its key."""
    found = model
    for part in path:
        field = found.model_fields.get(part)
        found = next(_models_in(field.annotation), found) if field else found
    return [name for name in found.model_fields if name not in ("name", "config")]


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
    """Return what a refused value takes with it: its column, its own option of the source, or its top-level key."""
    option = place[0] == "source" and place[1:2] not in (("kind",), ("path",), ("format",))
    is_alone = place[0] == "columns" or option
    return tuple(map(str, place[: 2 if is_alone else 1]))


def _leave_out(table: dict[str, Any], place: tuple[str, ...]) -> None:
    *tables, leaf = place
    owner = table.get(tables[0]) if tables else table
    if isinstance(owner, dict):
        owner.pop(leaf, None)


def _below(prefix: str, problem: Problem) -> Problem:
    return Problem(problem.key.removeprefix(f"{prefix}."), problem.found, problem.expected)


def _is_echo(problem: Problem, bad: set[str]) -> bool:
    """Return whether a problem (its key below the stream) may come from a value that was left out."""
    top, _, below = problem.key.partition(".")
    return bool(bad & {top, f"{top}.{below.split('.')[0]}", *_ECHOES.get(top, ())})
