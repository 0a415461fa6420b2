"""Suites of Great Expectations in its own format, read as they are -> rules of a stream.

Each JSON file in ``quality/<stream>``, beside the configuration, is a suite: ``{"expectations": [{"type", "kwargs",
"description", "meta"}, ...]}``; before its version 1 a type was an ``expectation_type``. An expectation warns unless
its ``meta`` says otherwise by ``on_failure``; its ``severity`` does not: every one is written as critical.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lakehouse.config.columns import NAME
from lakehouse.config.problems import Problem
from lakehouse.config.rules.values import Rule, name_of

FOLDER = "quality"
# Keys that say how a check is run, and not what is expected.
_OF_RUNS = {"batch_id", "catch_exceptions", "result_format", "severity"}
_OF_META = ("name", "on_failure")


@dataclass(frozen=True)
class Suites:
    """Rules of a stream's suites as tables of a declaration, the place of each, and what is wrong with others."""

    rules: Sequence[dict[str, Any]] = ()
    places: Sequence[str] = ()
    problems: Sequence[Problem] = ()


def read_suites(folder: Path, stream: str) -> Suites:
    """Return the rules of the suites in a configuration's folder; none where it has none for the stream."""
    # A name that is none is refused elsewhere.
    if not NAME.match(stream):
        return Suites()
    rules, places, problems = list[dict[str, Any]](), list[str](), list[Problem]()
    for path in sorted((folder / FOLDER / stream).glob("*.json")):
        name = f"{FOLDER}/{stream}/{path.name}"
        try:
            expectations = _expectations(path)
        except ValueError as error:
            problems.append(Problem(name, str(error)[:200], "a suite: an object with a list of expectations"))
            continue
        for number, expectation in enumerate(expectations):
            place = f"{name}: expectations.{number}"
            rule = _rule(expectation, {each["name"] for each in rules})
            wrong = list(_wrong(rule, place))
            problems += wrong
            if not wrong:
                rules.append(rule)
                places.append(place)
    return Suites(rules, places, problems)


def _expectations(path: Path) -> Sequence[dict[str, Any]]:
    suite = json.loads(path.read_text(encoding="utf-8"))
    found = suite.get("expectations") if isinstance(suite, dict) else None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError("no list of expectations")
    return found


def _rule(expectation: dict[str, Any], taken: set[str]) -> dict[str, Any]:
    """Return an expectation as ``[[streams.<name>.rules]]`` has it, under a name of its own."""
    type_, kwargs, meta = (expectation.get(key) for key in ("type", "kwargs", "meta"))
    expect = str(type_ or expectation.get("expectation_type", "")).removeprefix("expect_")
    given = {**kwargs} if isinstance(kwargs, dict) else {}
    rule = {key: value for key, value in given.items() if key not in _OF_RUNS and value is not None}
    if isinstance(meta, dict):
        rule |= {key: meta[key] for key in _OF_META if key in meta}
    says = expectation.get("description")
    rule = {"expect": expect, **rule, **({"says": says} if isinstance(says, str) else {})}
    named = str(name_of(rule))
    numbers = (named if number == 1 else f"{named[:90]}_{number}" for number in range(1, len(taken) + 2))
    return rule | {"name": next(name for name in numbers if name not in taken)}


def _wrong(rule: dict[str, Any], place: str) -> Iterator[Problem]:
    """Yield what is wrong with a rule by itself."""
    try:
        Rule.model_validate(rule)
    except ValidationError as error:
        for each in error.errors():
            key = ".".join(map(str, (place, *each["loc"])))
            found = repr(each["input"])[:100] if each["loc"] else f"expect_{rule['expect']}"
            yield Problem(key, found, each["msg"].removeprefix("Value error, "))
