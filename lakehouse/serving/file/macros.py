"""The statements that make an empty version: its tables, macros and views, from the files of sql/serving.

The macros of the six aggregates differ in a few expressions only. ``range_template.sql`` has the text that they share,
``range_<aggregate>.sql`` the parts that are filled in. Numbers of bounds are those of rounding.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from lakehouse.algorithms.rollup.refinement import MOST_READS
from lakehouse.algorithms.rollup.rounding import NAMED
from lakehouse.serving.file.segments import NEWEST, places
from sql import statement

TABLE_FILES = ("tables", "segment", "queries")
_AGGREGATES = ("sum", "count", "avg", "min", "max", "increase")
VIEW_FILES = ("node_views", "views")
# Run last: it reads what queries answered, where a connection may have nothing else.
LAST_FILE = "answer_series"
MACRO_FILES = (
    *("timestamps", "ratios", "range_nodes", "range_parts"),
    *(f"range_{aggregate}" for aggregate in _AGGREGATES),
    *("range_aggregate", "range_series", "completeness", LAST_FILE),
)
# Filled in by what a version has of them.
ROW_FILES = ("row_tables", "ledger", "steps", "query_views")
_PART = re.compile(r"^-- \[(\w+)\]\n", re.MULTILINE)


def tables() -> Iterator[str]:
    """Yield the statements of all tables, in the order in which they are run."""
    for file in TABLE_FILES:
        yield statement(f"serving/{file}")


def views(segments: Sequence[str] = ()) -> Iterator[str]:
    """Yield the statements of the views over these segments, which are attached, and the file's own nodes."""
    filled_in = places(segments)
    for file in VIEW_FILES:
        yield _filled(statement(f"serving/{file}"), filled_in)


def macros(*, is_shared: bool = False) -> Iterator[str]:
    """Yield the statements of all macros, which read the views; ``is_shared``: there are segments beside the file."""
    filled_in = {"{newest}": NEWEST if is_shared else ""}
    filled_in |= {f"{{{name}}}": number for name, number in NAMED.items()}
    filled_in["{most_reads}"] = str(MOST_READS)
    for file in MACRO_FILES:
        aggregate = file.removeprefix("range_")
        text = range_macros(aggregate) if aggregate in _AGGREGATES else statement(f"serving/{file}")
        yield _filled(text, filled_in)


def _filled(text: str, filled_in: Mapping[str, str]) -> str:
    for place, words in filled_in.items():
        text = text.replace(place, words)
    return text


def range_macros(aggregate: str) -> str:
    """Return the statements that create an aggregate's macros."""
    parts = {**_parts("range_template"), **_parts(f"range_{aggregate}"), "aggregate": aggregate}
    filled, before = parts["macros"], ""
    # What is filled in may have places of its own.
    while filled != before:
        before = filled
        for name, part in parts.items():
            filled = filled.replace(f"{{{name}}}", part)
    return filled


def _parts(file: str) -> dict[str, str]:
    """Return the parts of a file by name; what stands before the first is for people."""
    _, *found = _PART.split(statement(f"serving/{file}"))
    return {name: text.strip() for name, text in zip(found[::2], found[1::2], strict=True)}
