from __future__ import annotations

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.serving import literals

TEXTS = st.text(st.characters(exclude_characters="\0", categories=("L", "N", "P", "S", "Z", "Cc")))


@given(st.lists(st.none() | TEXTS, min_size=1))
def test_duckdb_reads_back_what_was_quoted(values: list[str | None]) -> None:
    assert duckdb.execute(f"SELECT {literals.texts(values)}").fetchall() == [(values,)]


@given(TEXTS.filter(bool))
def test_a_quoted_name_is_one_name(name: str) -> None:
    described = duckdb.execute(f"SELECT 1 AS {literals.name(name)}").description

    assert described is not None
    assert [column[0] for column in described] == [name]


@given(st.text(st.sampled_from("a'\0;-")))
def test_a_nul_character_ends_no_statement(value: str) -> None:
    values = [value, "a\0'; DROP TABLE nodes"]
    found = duckdb.execute(
        f"SELECT {literals.text(value)}, {literals.text_map({value: value})}, {literals.texts(values)}"
    )

    assert found.fetchall() == [(value, {value: value}, values)]


def test_a_plain_value_comes_back_from_its_literal() -> None:
    value = {"id": 2**62, "names": ["it's", None], "share": 1e-300, "is_exact": True, "none": []}

    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT {literals.literal(value)}").fetchone()

    assert found == (value,)


def test_a_value_of_another_kind_has_no_literal() -> None:
    with pytest.raises(TypeError, match="no literal for"):
        literals.literal({1, 2})
