"""What commands print: one JSON document, or tables and sentences for people."""

from __future__ import annotations

import json
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import typer

from lakehouse.declare.problems import ConfigError
from lakehouse.declare.timestamps import format_timestamp

_PROJECT = f"{Path(__file__).parents[2]}{os.sep}"
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


def print_table(headers: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
    """Print a table; columns that hold only numbers are set to the right.

    A terminal gets one that fits its width. A pipe has no width: there each row is one line, and rich, which costs a
    tenth of a second, is not loaded.
    """
    to_right = [_is_number([row[place] for row in rows]) for place in range(len(headers))]
    cells, title = [[cell(value) for value in row] for row in rows], printable(title)
    if sys.stdout.isatty():
        _print_rich(headers, cells, to_right, title)
    else:
        _print_plain(headers, cells, to_right, title)


def _is_number(values: Sequence[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in known)


def _print_plain(
    headers: Sequence[str], rows: Sequence[Sequence[str]], to_right: Sequence[bool], title: str
) -> None:
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    rule = ["-" * width for width in widths]
    if title:
        print(f"\n{title}")
    for row in (headers, rule, *rows):
        aligned = zip(row, widths, to_right, strict=True)
        print(
            "  ".join(
                f"{text:>{width}}" if right else f"{text:<{width}}" for text, width, right in aligned
            ).rstrip()
        )


def _print_rich(
    headers: Sequence[str], rows: Sequence[Sequence[str]], to_right: Sequence[bool], title: str
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False)
    for header, right in zip(headers, to_right, strict=True):
        table.add_column(header, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, markup=False, emoji=False).print(table)


def cell(value: Any) -> str:
    """Return a value as people read it.

    >>> cell(1234567), cell(0.1), cell(None), cell(True)
    ('1,234,567', '0.1', '-', 'yes')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.10g}"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, dict):
        return ", ".join(f"{cell(name)} {cell(part)}" for name, part in value.items()) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(cell(part) for part in value) or "-"
    return printable(str(value)).replace("\n", "\ufffd")


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
        print_json({"error": _described(error)})
    else:
        print(printable(f"tidemark: {message_of(error)}{_hint(error)}"), file=sys.stderr)


def message_of(error: BaseException) -> str:
    """Return an error's own message; one without words is told by its kind and where it was raised."""
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
    place = f"{passed[-1].filename.removeprefix(_PROJECT)}, line {passed[-1].lineno}"
    return f", an internal error in {place}; TIDEMARK_DEBUG=1 shows the whole trace"


def _described(error: Exception) -> dict[str, Any]:
    described: dict[str, Any] = {"kind": type(error).__name__, "message": message_of(error)}
    if isinstance(error, ConfigError):
        described["problems"] = [vars(problem) for problem in error.problems]
    return described


def _hint(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    if isinstance(error, typer.TyperException) and context is not None:
        return f"\nTry '{context.command_path} --help'."
    return ""


def _plain(value: Any) -> Any:
    if isinstance(value, date | datetime):
        return value.isoformat()
    return str(value)
