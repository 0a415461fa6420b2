from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lakehouse.config.checks import stream_problems, stream_refusals
from lakehouse.config.problems import Problem
from lakehouse.config.stream import Stream
from tests.config.wrong import ALONE, GOOD, TOGETHER


def _problems(changed: dict[str, Any]) -> list[tuple[str, str, str]]:
    stream = Stream.model_validate(GOOD | changed | {"name": "s"})
    return [(problem.key, problem.found, problem.expected) for problem in stream_problems(stream)]


def test_a_good_stream_has_no_problems() -> None:
    assert _problems({}) == []


@pytest.mark.parametrize(("changed", "told"), TOGETHER, ids=lambda part: str(part)[:60])
def test_names_that_do_not_agree_are_told(changed: dict[str, Any], told: tuple[str, str, str]) -> None:
    key, found, expected = told

    assert any(
        (problem[0] == f"streams.s.{key}") and found in problem[1] and expected in problem[2]
        for problem in _problems(changed)
    )


@pytest.mark.parametrize("name", ["S", "1st", "a-b", "a b", ""])
def test_a_stream_needs_a_name_that_tables_can_have(name: str) -> None:
    stream = Stream.model_validate(GOOD | {"name": name})

    assert "a lower-case letter" in stream_problems(stream)[0].expected


def test_csv_columns_by_position_are_fine_when_all_have_one() -> None:
    columns: dict[str, Any] = {
        name: {"position": place} for place, name in enumerate(("device", "room", "ts", "received"))
    }
    columns |= {name: {"type": "double", "position": 9} for name in ("temp", "humidity")}

    assert _problems({"source": {"path": "x", "format": "csv", "header": "none"}, "columns": columns}) == []


def _refusals(table: Any) -> list[Problem]:
    with pytest.raises(ValidationError) as refused:
        Stream.model_validate(table | {"name": "s"} if isinstance(table, dict) else table)
    return stream_refusals("s", table, refused.value)


def _tells(problems: list[Problem], told: tuple[str, str, str]) -> bool:
    key, found, expected = told
    return any(p.key == f"streams.s.{key}" and found in p.found and expected in p.expected for p in problems)


BY_ONE_VALUE = [(changed, told) for changed, told in ALONE if changed != {"levels": []}]


@pytest.mark.parametrize(("changed", "told"), BY_ONE_VALUE, ids=lambda part: str(part)[:60])
def test_a_wrong_value_is_told_in_our_words(changed: dict[str, Any], told: tuple[str, str, str]) -> None:
    problems = _refusals(GOOD | changed)

    assert _tells(problems, told)
    assert not [problem for problem in problems if "Input" in problem.expected or "[" in problem.key]


@given(st.sampled_from(BY_ONE_VALUE), st.sampled_from(TOGETHER))
def test_what_else_is_wrong_is_told_too_unless_the_same_value_is_at_fault(
    alone: tuple[dict[str, Any], tuple[str, str, str]], together: tuple[dict[str, Any], tuple[str, str, str]]
) -> None:
    """Columns and groupings depend on others, which may be those that were refused."""
    (wrong, told), (other, other_told) = alone, together
    depending = {"columns", "groupings", "source", "event_time", "arrival_time", "keys"}
    problems = _refusals(GOOD | other | wrong)

    assert _tells(problems, told)
    assert set(wrong) & set(other) or (set(wrong) | set(other)) & depending or _tells(problems, other_told)


@pytest.mark.parametrize(("changed", "told"), BY_ONE_VALUE, ids=lambda part: str(part)[:60])
def test_a_value_that_is_left_out_has_no_echo(changed: dict[str, Any], told: tuple[str, str, str]) -> None:
    """One wrong value is one problem: leaving it out must not make others look wrong."""
    assert len(_refusals(GOOD | changed)) == 1


def test_a_bad_option_of_the_source_does_not_hide_the_others() -> None:
    problems = _refusals(GOOD | {"source": {"path": "x", "format": "csv", "batch_bytes": 0, "explode": "a"}})

    assert [problem.key for problem in problems] == [
        "streams.s.source.batch_bytes",
        "streams.s.source.explode",
    ]


def test_a_stream_that_is_no_table_is_told() -> None:
    assert [str(problem) for problem in _refusals(3)] == ["streams.s: found 3; expected a table"]
