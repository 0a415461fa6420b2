"""Output of commands: one JSON document, or tables and sentences for people.

A table fits the width of a terminal: texts are broken at spaces, and what does not fit goes below; nothing is cut or
left out. Widths are columns of a terminal, of which a wide character takes two and an accent none.
"""

import json
import os
import re
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any
from unicodedata import combining, east_asian_width

import typer

from lakehouse.config.durations import format_timestamp
from lakehouse.config.problems import ConfigError

_GAP = 2
# A text that may be broken is put beside others where so many columns are left.
_LEAST_TEXT = 24


@dataclass(frozen=True)
class Table:
    """A table ready to print: the width of each column, and texts whose lines are no longer than that."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    widths: Sequence[int]
    to_right: Sequence[bool]


_PROJECT = f"{Path(__file__).parents[2]}{os.sep}"
# Headers and figures whose numbers name something: they are copied, not added up.
_IDENTIFIERS = frozenset(
    {
        "batch",
        "version",
        "level",
        "pid",
        "port",
        "offset",
        "current",
        "published through batch",
        "through",
        "since",
    }
)
_LATER_CONTROLS = re.compile("[\x7f-\x9f\u2028\u2029]")


def progress() -> Callable[[str], None]:
    """Return a printer of progress to stderr, each line with the seconds since now."""
    started = time.monotonic()

    def tell(line: str) -> None:
        print(f"[{time.monotonic() - started:6.1f} s] {printable(line)}", file=sys.stderr, flush=True)

    return tell


def print_json(document: Any) -> None:
    """Print one JSON document; times become ISO text, other types their text."""
    indent = 2 if sys.stdout.isatty() else None
    text = json.dumps(document, ensure_ascii=False, default=_plain, indent=indent)
    # JSON escapes control characters of ASCII by itself, and not those after it.
    print(_LATER_CONTROLS.sub(lambda letter: f"\\u{ord(letter[0]):04x}", text))


def printable(text: str) -> str:
    r"""Return a text without control characters other than tabs and new lines, which a terminal would obey.

    >>> printable("a\x1b[2Jb")
    'a\ufffd[2Jb'
    """
    return "".join(letter if letter.isprintable() or letter in "\t\n" else "\ufffd" for letter in text)


def terminal_width() -> int | None:
    """Return the columns of the terminal that stdout is, None for a pipe or a file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_table(
    headers: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "", verbatim: bool = False
) -> None:
    """Print a table; columns that hold only numbers are set to the right.

    A terminal gets one that fits its width: texts are broken, and columns that do not fit beside the others follow
    below, after the first column once more. A pipe has no width: there each row is one line. ``verbatim``: numbers
    are printed as they are, to be copied into a statement.
    """
    to_right = [_is_number([row[column] for row in rows]) for column in range(len(headers))]
    names = [printable(name).replace("\n", "\\n") for name in headers]
    shown = str_of if verbatim else cell
    cells = [[shown(value, name) for name, value in zip(headers, row, strict=True)] for row in rows]
    width = terminal_width()
    if width is None:
        cells = [[text.replace("\n", "\\n") for text in row] for row in cells]
    for number, table in enumerate(fitted(names, cells, to_right, width)):
        _print_plain(table, "" if number else printable(title), is_first=number == 0)


def print_line(text: str) -> None:
    """Print a sentence, broken at the width of the terminal; in one line where there is none."""
    width = terminal_width()
    for line in printable(text).split("\n"):
        print("\n".join(broken(line, width)) if width else line)


def _is_number(values: Sequence[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in known)


def _print_plain(table: Table, title: str, is_first: bool) -> None:
    if title or not is_first:
        print("\n" + title)
    for row in (table.headers, ["-" * width for width in table.widths], *table.rows):
        lines = [text.split("\n") for text in row]
        for column in range(max(map(len, lines), default=0)):
            parts = [line[column] if column < len(line) else "" for line in lines]
            aligned = zip(parts, table.widths, table.to_right, strict=True)
            print("  ".join(padded(text, width, right) for text, width, right in aligned).rstrip())


def cell(value: Any, name: str = "") -> str:
    """Return a value as people read it; numbers under the ``name`` of an identifier have no separators.

    >>> cell(1234567), cell(0.1), cell(None), cell(True), cell(1234567, "batch")
    ('1,234,567', '0.1', '-', 'yes', '1234567')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value) if is_identifier(name) else f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.10g}"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, dict):
        return ", ".join(f"{cell(key)} {cell(part, str(key))}" for key, part in value.items()) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(cell(part, name) for part in value) or "-"
    return printable(str(value).replace("\r\n", "\n"))


def figures_cell(figures: Mapping[str, Any]) -> str:
    """Return what a job did in one cell: its figures but those that are nothing.

    >>> figures_cell({"files": 2, "requeued": 0, "changes": []}), figures_cell({"files": 0})
    ('files 2', 'nothing new')
    """
    return (
        cell({name: value for name, value in figures.items() if value})
        if any(figures.values())
        else "nothing new"
    )


def is_identifier(name: str) -> bool:
    """True if a number under this name names something, or is a time in microseconds, and is no quantity.

    >>> is_identifier("batch"), is_identifier("start_us"), is_identifier("rows")
    (True, True, False)
    """
    return name in _IDENTIFIERS or name.endswith(("_us", "_id", "_batch", "_version"))


def str_of(value: Any, name: str = "") -> str:
    """Return a value as a statement would have it: numbers without separators, every digit of a double."""
    if isinstance(value, float):
        return repr(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else cell(value, name)


def percent(share: float) -> str:
    """Return a share of 1 in per cent; what is nearly all or nearly nothing is not shown as such.

    >>> percent(0.5), percent(0.99999), percent(0.00001), percent(1.0), percent(0.0)
    ('50.0%', '99.99%', '0.01%', '100.0%', '0.0%')
    """
    text = f"{share:.1%}"
    if text == "100.0%" and share < 1:
        return "99.99%"
    return "0.01%" if text == "0.0%" and share > 0 else text


def time_text(time_us: int | None) -> str:
    """Return microseconds UTC as a time, ``-`` for none.

    >>> time_text(1_500_000)
    '1970-01-01 00:00:01'
    """
    if time_us is None:
        return "-"
    return format_timestamp(time_us)


def tell_error(error: Exception, as_json: bool) -> None:
    """Print an error once: as an object on stdout, or as a message on stderr."""
    if os.environ.get("TIDEMARK_DEBUG") == "1":
        traceback.print_exception(error)
    if as_json:
        problems = [vars(problem) for problem in error.problems] if isinstance(error, ConfigError) else None
        described = {"kind": type(error).__name__, "message": message_of(error)}
        print_json({"error": described | ({} if problems is None else {"problems": problems})})
        return
    context = getattr(error, "ctx", None) if isinstance(error, typer.TyperException) else None
    hint = f"\nTry '{context.command_path} --help'." if context is not None else ""
    print(printable(f"tidemark: {message_of(error)}{hint}"), file=sys.stderr)


def message_of(error: BaseException) -> str:
    """Return an error's message; for one without any, its kind and where it was raised."""
    if isinstance(error, typer.TyperException):
        return str(error.format_message())
    # A KeyError puts quotes around its message.
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return text or f"{type(error).__name__}{_raised_at(error)}"


def _raised_at(error: BaseException) -> str:
    """Return the last line of the project that an error without words passed, and how to see all of them."""
    passed = [one for one in traceback.extract_tb(error.__traceback__) if one.filename.startswith(_PROJECT)]
    if not passed:
        return ""
    line = f"{passed[-1].filename.removeprefix(_PROJECT)}, line {passed[-1].lineno}"
    return f", an internal error in {line}; TIDEMARK_DEBUG=1 shows the whole trace"


def _plain(value: Any) -> Any:
    if isinstance(value, date | datetime):
        return value.isoformat()
    return str(value)


def fitted(
    headers: Sequence[str], rows: Sequence[Sequence[str]], to_right: Sequence[bool], width: int | None
) -> Iterator[Table]:
    """Yield a table as one that fits the width, or as several that do, each with the first column; None: one."""
    natural = [max(map(_lines_width, cells)) for cells in zip(headers, *rows, strict=True)]
    for columns, widths in _blocks(natural, to_right, width):
        shown = [
            [_broken(row[column], w) for column, w in zip(columns, widths, strict=True)]
            for row in (headers, *rows)
        ]
        yield Table(shown[0], shown[1:], widths, [to_right[column] for column in columns])


def _blocks(
    natural: Sequence[int], to_right: Sequence[bool], width: int | None
) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the columns of each table, and their widths."""
    if width is None or not natural:
        yield list(range(len(natural))), list(natural)
        return
    first = min(natural[0], width if len(natural) == 1 else max(width // 2 - _GAP, 1))
    columns, widths, left = [0], [first], width - first
    for column, wanted in enumerate(natural[1:], start=1):
        is_text = not to_right[column] and left - _GAP >= _LEAST_TEXT
        if wanted + _GAP > left and not is_text and len(columns) > 1:
            yield columns, widths
            columns, widths, left = [0], [first], width - first
        given = max(1, min(wanted, left - _GAP))
        columns, widths, left = [*columns, column], [*widths, given], left - _GAP - given
    yield columns, widths


def _broken(text: str, width: int) -> str:
    return "\n".join(part for line in text.split("\n") for part in broken(line, width))


def broken(line: str, width: int) -> list[str]:
    """Return a line in parts that are no wider, broken at spaces where there are any.

    >>> broken("rows 99,000, pairs 10,227", 12)
    ['rows 99,000,', 'pairs 10,227']
    """
    parts = []
    while (fits := _fitting(line, width)) < len(line):
        space = line.rfind(" ", 1, fits + 1)
        end = space if space > 0 else fits
        parts.append(line[:end].rstrip(" "))
        line = line[end:].lstrip(" ")
    return [*parts, line]


def _fitting(line: str, width: int) -> int:
    """Return how many characters fit, at least one."""
    if line.isascii():
        return min(len(line), max(width, 1))
    left = width
    for column, letter in enumerate(line):
        left -= _width(letter)
        if left < 0:
            return max(column, 1)
    return len(line)


def padded(text: str, width: int, to_right: bool) -> str:
    """Return a text filled up to a width."""
    room = " " * (width - _text_width(text))
    return room + text if to_right else text + room


def _lines_width(text: str) -> int:
    return max(map(_text_width, text.split("\n")))


def _text_width(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(letter: str) -> int:
    return 0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1
