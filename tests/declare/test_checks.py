from __future__ import annotations

from typing import Any

import pytest

from lakehouse.declare.checks import stream_problems
from lakehouse.declare.stream import Stream
from tests.declare.wrong import GOOD, TOGETHER


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
