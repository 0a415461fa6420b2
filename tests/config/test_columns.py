from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from lakehouse.config.columns import NAME, RESERVED, Column


def test_a_type_alone_is_a_column() -> None:
    assert Column.model_validate("double") == Column(type="double")


@pytest.mark.parametrize(
    ("declared", "scale"),
    [
        ("int", 0),
        ("double", None),
        ("string", None),
        ({"type": "decimal", "decimals": 3}, 3),
        ({"type": "double", "decimals": 2}, 2),
    ],
)
def test_the_scale_of_exact_sums(declared: Any, scale: int | None) -> None:
    assert Column.model_validate(declared).scale == scale


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ("number", "'string', 'int', 'double', 'boolean' or 'decimal'"),
        ({"type": "decimal"}, "needs decimals"),
        ({"type": "string", "decimals": 2}, 'decimals belong to a number, this column is "string"'),
        ({"type": "int", "path": "a.b", "position": 1}, "one of path, position and file"),
        ({"file": "room"}, "expected one group without a name"),
        ({"file": "(?P<a>x)"}, "expected one group without a name"),
        ({"file": "(", "path": None}, "is no regular expression"),
        ({"file": "(a)", "position": 1}, "one of path, position and file"),
        ({"type": "int", "position": -1}, "greater than or equal to 0"),
        ({"type": "decimal", "decimals": 19}, "less than or equal to 18"),
        ({"type": "int", "positon": 1}, "Extra inputs"),
    ],
)
def test_a_column_that_cannot_be_is_refused(declared: Any, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        Column.model_validate(declared)


@pytest.mark.parametrize("kind", ["int", "double"])
def test_numbers_can_be_measures(kind: str) -> None:
    assert Column.model_validate(kind).is_number
    assert not Column.model_validate("boolean").is_number


def test_reserved_names_are_names_a_column_could_have() -> None:
    assert all(NAME.match(name) for name in RESERVED)
