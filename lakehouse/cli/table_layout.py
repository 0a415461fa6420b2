"""Tables that fit the width of a terminal: texts are broken at spaces, and what does not fit goes below.

Nothing is cut or left out. Widths are columns of a terminal, of which a wide character takes two and an accent none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from unicodedata import combining, east_asian_width

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
