from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakehouse.cli.commands.run import _print as print_run
from lakehouse.cli.output import broken, cell, fitted, print_table
from lakehouse.storage.control.outcomes import record
from lakehouse.storage.layout import Home
from tests.cli.conftest import Tidemark
from tests.queries.joined import declare, run_by_hand
from tests.queries.scanned import declare as declare_scanned
from tests.queries.scanned import run_by_hand as run_scanned

WIDTHS = (80, 120)
_LONG = ("sql", f"SELECT stream, '{'many words ' * 30}' AS words, * EXCLUDE (stream) FROM streams")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let stdout be a terminal of so many columns."""

    def of(width: int) -> None:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", str(width))

    return of


def _longest(text: str) -> int:
    return max(map(len, text.splitlines()))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("ask", "telemetry", "temp", "--by", "device"),
        ("plot", "telemetry", "temp"),
        ("sql", "FROM streams"),
        ("sql", "FROM ladder"),
        _LONG,
    ],
    ids=" ".join,
)
def test_no_line_about_a_home_is_longer_than_the_terminal_is_wide(
    called: Tidemark,
    published_home: Path,
    terminal: Callable[[int], None],
    words: tuple[str, ...],
    width: int,
) -> None:
    terminal(width)

    ended = called("--home", published_home, *words)

    assert ended.returncode == 0
    assert _longest(ended.stdout) <= width, ended.stdout


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "words", [("queries",), ("explain", "replies"), ("plan",), ("doctor",)], ids=" ".join
)
def test_no_line_about_queries_storage_and_machine_is_longer_than_the_terminal_is_wide(
    called: Tidemark, tmp_path: Path, terminal: Callable[[int], None], words: tuple[str, ...], width: int
) -> None:
    run_by_hand(declare(tmp_path))
    terminal(width)

    ended = called(*words)

    assert _longest(ended.stdout) <= width, ended.stdout


@pytest.mark.parametrize("words", [("queries",), ("explain", "passing")], ids=" ".join)
def test_no_line_about_operators_is_longer_than_the_terminal_is_wide(
    called: Tidemark, tmp_path: Path, terminal: Callable[[int], None], words: tuple[str, ...]
) -> None:
    run_scanned(declare_scanned(tmp_path, "multiway"), "multiway")
    terminal(80)

    assert _longest(called(*words).stdout) <= 80


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_of_a_run_is_longer_than_the_terminal_is_wide(
    tmp_path: Path, terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str], width: int
) -> None:
    figures = {f"figure_{place}": place * 1000 for place in range(40)}
    outcome = record(Home(tmp_path), "ingest", "a_stream", True, datetime.now(UTC), 1.0, figures)
    terminal(width)

    print_run([outcome, outcome | {"ok": False, "error": "no\nspace " * 50}], 3.0)

    assert _longest(capsys.readouterr().out) <= width


def test_what_does_not_fit_follows_below_after_the_first_column_once_more() -> None:
    headers, row = ("stream", "rows", "late", "newest"), ("rooms", "1,234", "12", "2026-01-01")

    tables = list(fitted(headers, [row], [False, True, True, False], 20))

    assert [table.headers for table in tables] == [["stream", "rows", "late"], ["stream", "newest"]]
    assert [table.rows for table in tables] == [[["rooms", "1,234", "12"]], [["rooms", "2026-01-01"]]]


def test_wide_characters_take_two_columns_and_accents_none() -> None:
    assert broken("温度温度", 4) == ["温度", "温度"]
    assert broken("e\u0301e\u0301", 2) == ["e\u0301e\u0301"]


def test_a_line_break_is_one_on_a_terminal_and_two_letters_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    print_table(("text",), [("one\r\ntwo",)])
    assert capsys.readouterr().out.splitlines()[-1] == "one\\ntwo"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_table(("text",), [("one\ntwo",)])
    assert capsys.readouterr().out.splitlines()[-2:] == ["one", "two"]


def test_numbers_that_name_something_have_no_separators_and_can_be_copied(
    called: Tidemark, published_home: Path
) -> None:
    assert (cell(12345, "batch"), cell(1767225600000000, "newest_us")) == ("12345", "1767225600000000")
    assert cell({"version": 1234, "rows": 1234}) == "version 1234, rows 1,234"

    newest = called(
        "--home", published_home, "sql", "SELECT newest_us, 0.1 + 0.2 AS x, 1234567 AS n FROM streams"
    )

    assert newest.stdout.splitlines()[-1].split() == ["1767227381000000", "0.3", "1234567"]
