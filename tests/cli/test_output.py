from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from lakehouse.cli.output import cell, message_of, print_json, print_table, progress, tell_error, time_text
from lakehouse.config.problems import ConfigError, Problem


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (False, "no"),
        (1234567, "1,234,567"),
        (-0.5, "-0.5"),
        (1e-7, "1e-07"),
        ("a,b", "a,b"),
        ({"clock": 3, "conflict": 1}, "clock 3, conflict 1"),
        ({}, "-"),
        ([1, None], "1, -"),
        (datetime(2026, 1, 1, 12, tzinfo=UTC), "2026-01-01 12:00:00+00:00"),
        (Decimal("1.50"), "1.50"),
    ],
)
def test_a_value_is_told_as_people_read_it(value: object, text: str) -> None:
    assert cell(value) == text


def test_numbers_stand_to_the_right_and_markup_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "count"), [("[bold]", 5), (":smile:", 12345)])

    lines = capsys.readouterr().out.splitlines()
    assert next(line.split() for line in lines if line.strip()) == ["name", "count"]
    assert [line.split() for line in lines if "5" in line] == [["[bold]", "5"], [":smile:", "12,345"]]
    assert len({len(line.rstrip()) for line in lines if "5" in line}) == 1


def test_a_pipe_gets_each_row_on_one_line_however_long(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("text", "n"), [("x" * 500, 1), ("two\twords", None)], title="a title")

    assert capsys.readouterr().out.splitlines() == [
        *(
            "",
            "a title",
            f"{'text':<500}  n",
            f"{'-' * 500}  -",
            f"{'x' * 500}  1",
            f"{'two' + chr(9) + 'words':<500}  -",
        )
    ]


CLEAR_SCREEN = "\x1b[2J\x9b31m\r\u202eevil\x00"


def test_what_a_terminal_would_obey_never_reaches_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("key",), [(CLEAR_SCREEN,), ({CLEAR_SCREEN: [CLEAR_SCREEN]},)], title=CLEAR_SCREEN)
    tell_error(ValueError(f"{CLEAR_SCREEN}\nline 2"), as_json=False)
    print_json({CLEAR_SCREEN: CLEAR_SCREEN})
    progress()(CLEAR_SCREEN)

    printed = capsys.readouterr()
    both = printed.out + printed.err
    assert all(letter.isprintable() or letter in "\n\u202e" for letter in both)
    assert "\x9b" not in both and both.count("evil") == 8
    # Right-to-left marks are left in JSON, which says what the data say.
    assert json.loads(printed.out.splitlines()[-1]) == {CLEAR_SCREEN: CLEAR_SCREEN}
    assert printed.err.splitlines()[1] == "line 2"


def test_a_table_without_rows_has_its_headers(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("stream", "n"), [])

    assert capsys.readouterr().out.splitlines() == ["stream  n", "------  -"]


@pytest.mark.parametrize("width", [40, 120])
def test_a_terminal_gets_a_table_that_fits_and_cuts_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))

    print_table(("text", "n"), [("x" * 100, 12345)], title="[title]")

    lines = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= width
    assert "".join(lines).count("x") == 101
    assert any("[title]" in line for line in lines)


def test_json_is_one_document_on_one_line_for_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"at": datetime(2026, 1, 1, tzinfo=UTC), "sum": Decimal("0.1"), "name": "é"})

    text = capsys.readouterr().out
    assert text.count("\n") == 1
    assert json.loads(text) == {"at": "2026-01-01T00:00:00+00:00", "sum": "0.1", "name": "é"}


def test_a_time_is_told_to_the_second() -> None:
    assert (time_text(None), time_text(-1)) == ("-", "1969-12-31 23:59:59")


def test_a_key_error_is_told_without_quotes_and_a_silent_one_by_its_kind() -> None:
    assert message_of(KeyError("no stream 'a'")) == "no stream 'a'"
    assert message_of(MemoryError()) == "MemoryError"


def test_an_error_without_words_tells_where_it_was_raised() -> None:
    with pytest.raises(AssertionError) as raised:
        raise AssertionError
    line = raised.traceback[-1].lineno + 1

    assert message_of(raised.value).startswith(
        f"AssertionError, an internal error in tests/cli/test_output.py, line {line}"
    )


def test_problems_of_a_configuration_are_told_one_by_one_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    tell_error(ConfigError("x.toml", [Problem("home", "3", "a folder")]), as_json=True)

    error = json.loads(capsys.readouterr().out)["error"]
    assert error["problems"] == [{"key": "home", "found": "3", "expected": "a folder", "line": None}]
    assert error["message"].startswith("x.toml: 1 problem")


def test_a_columns_name_obeys_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["a\x1b[2J", "b\nc"], [["1", "2"]])

    assert "\x1b" not in capsys.readouterr().out
