from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.storage.envelope import Message

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@settings(deadline=None)
@given(
    st.builds(Message, TEXT, st.binary(max_size=40) | TEXT.map(str.encode), st.integers(0, 2**50), st.just(1))
)
def test_a_message_reads_back_as_it_was_written(message: Message) -> None:
    line = message.to_line()

    assert Message.from_line(line) == message
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert isinstance(json.loads(line), dict)


def test_bytes_that_are_no_text_are_written_as_base64() -> None:
    line = Message("a/b", b"\xff\x00", 1, 0, True, 0).to_line()

    assert json.loads(line) == {
        "topic": "a/b",
        "payload_base64": "/wA=",
        "received": 1,
        "qos": 0,
        "retain": True,
        "mid": 0,
    }


@pytest.mark.parametrize("line", ["", "{", "[]", "3", '{"topic": "a"}', '{"topic": "a", "payload": 3}'])
def test_what_is_no_message_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        Message.from_line(line)
