from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.algorithms.ingest.json_records import JsonRecords

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
RECORDS = st.lists(st.dictionaries(st.text(max_size=4), VALUES, max_size=3), max_size=5)


def lines(text: str, path: tuple[str, ...] = (), piece: int = 1 << 20) -> tuple[list[bytes], bool, bool]:
    records, content = JsonRecords(path), text.encode()
    found = b"".join(records.lines(content[at : at + piece]) for at in range(0, len(content), piece))
    return found.splitlines(), records.is_open, records.lacks_records


@given(
    records=RECORDS,
    beside=st.dictionaries(st.text(max_size=4), VALUES, max_size=3),
    path=st.lists(st.sampled_from(["a", "data", "é"]), max_size=3),
    indent=st.none() | st.integers(0, 3),
    piece=st.integers(1, 40),
    is_escaped=st.booleans(),
)
def test_the_records_of_a_list_are_lines_wherever_it_is_and_however_the_document_is_cut(
    records: list[Any],
    beside: dict[str, Any],
    path: list[str],
    indent: int | None,
    piece: int,
    is_escaped: bool,
) -> None:
    document: Any = records
    for key in reversed(path):
        document = {f"{name}_": value for name, value in beside.items()} | {key: document}
    text = json.dumps(document, indent=indent, ensure_ascii=is_escaped and "é" not in path)

    found, is_open, lacks_records = lines(text, tuple(path), piece)

    assert [json.loads(line) for line in found] == records
    assert (is_open, lacks_records) == (False, False)


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ('[[{"a":1}],[],[[{"b":[2,{"c":3}]}]]]', (), ['{"a":1}', '{"b":[2,{"c":3}]}']),
        ('{"a":1}{"a":\n2}\n{"a":3}', (), ['{"a":1}', '{"a": 2}', '{"a":3}']),
        ('[{"n":9007199254740993.001},{"n":1e400}]', (), ['{"n":9007199254740993.001}', '{"n":1e400}']),
        ('{"x":{"f":[0]},"f":{"f":[0]},"d":{"f":{"a":1}}}', ("d", "f"), ['{"a":1}']),
        ('{"t":"\\"f\\": [","f":[{"a":"]},{"}]}', ("f",), ['{"a":"]},{"}']),
        ("nothing of the kind", (), ["nothing of the kind"]),
        ('[1,"two",null]', (), ["1", '"two"', "null"]),
        ("", (), []),
        ("[]", (), []),
    ],
)
def test_records_stay_as_they_are_spelled(text: str, path: tuple[str, ...], expected: list[str]) -> None:
    assert lines(text, path)[0] == [line.encode() for line in expected]


@pytest.mark.parametrize("text", ['[{"a":1},{"b"', '{"f":[{"a":1}', '{"f":"'])
def test_a_document_that_ends_too_early_is_open(text: str) -> None:
    assert lines(text, ("f",) if text[0] == "{" else ())[1]


@pytest.mark.parametrize("text", ['{"g":[{"a":1}]}', '{"f":3}', '[{"f":[{"a":1}]}]', '{"g":{"f":[{"a":1}]}}'])
def test_a_document_may_have_no_records_where_they_should_be(text: str) -> None:
    assert lines(text, ("f",)) == ([], False, True)
