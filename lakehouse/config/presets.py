"""Streams as they are declared in the field: ``preset = "zeek-conn"`` stands for what presets/zeek-conn.toml says.

A preset is a piece of tidemark.toml. What a stream declares itself wins, value by value; lists, and times that name
another column, are replaced as a whole; of its groupings those stay that the stream's own keys allow, of its sums those
that are among the stream's own measures and no counters. A preset may rest on another one.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from lakehouse.config.problems import Problem, nearest

FOLDER = Path(__file__).with_name("presets")
Table = dict[str, Any]
# Either says where in a record a column is, so that one of them replaces the other.
_PLACES = ("path", "position", "file")


def preset_names() -> list[str]:
    """Return the names of all presets."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def with_preset(table: Table) -> Table:
    """Return a stream's table with its preset filled in, at all levels.

    Raises KeyError when there is no preset of that name.
    """
    name = table.get("preset")
    if name is None:
        return table
    merged = _merged(_preset(name), table)
    if "keys" in table and "groupings" not in table and isinstance(table["keys"], list):
        keys = table["keys"]
        merged["groupings"] = [
            grouping for grouping in merged["groupings"] if all(key in keys for key in grouping)
        ]
    if "sums" in merged and "sums" not in table:
        merged["sums"] = _sums(merged)
    return merged


def _sums(merged: Table) -> Any:
    """Return the sums of a preset that the stream's own measures and counters leave."""
    measures, counters = merged.get("measures", ()), merged.get("counters", ())
    if not isinstance(measures, list) or not isinstance(counters, list | tuple):
        return []
    return [name for name in merged["sums"] if name in measures and name not in counters]


def with_landing(name: str, table: Table) -> Table:
    """Return a stream's table with what a source that is landed by us has by default: a folder, lines of JSON."""
    source = table.get("source")
    if not isinstance(source, dict) or source.get("kind") not in ("mqtt", "host"):
        return table
    # Files appear whole, so none of them needs to settle.
    landed = {"path": f"landing/{name}/*.ndjson", "format": "ndjson", "settle": 0}
    return table | {"source": landed | source}


def preset_problem(table: Table) -> Problem | None:
    """Return what is wrong with the preset that a stream names, None for nothing."""
    name = table.get("preset")
    names = preset_names()
    if name is None or name in names:
        return None
    return Problem("preset", repr(name), nearest(str(name), names))


@cache
def _preset(name: str) -> Table:
    path = FOLDER / f"{name}.toml"
    if not path.is_file():
        raise KeyError(name)
    return with_preset(tomllib.loads(path.read_text(encoding="utf-8")))


def _merged(below: Table, above: Table) -> Table:
    merged = below | above
    for key in set(below) & set(above):
        under, over = below[key], above[key]
        if key == "columns" and isinstance(over, dict):
            merged[key] = under | {name: _column(under.get(name), column) for name, column in over.items()}
        elif isinstance(under, dict) and isinstance(over, dict) and "column" not in over:
            merged[key] = _merged(under, over)
    return merged


def _column(below: Any, above: Any) -> Any:
    """Return one column; ``"double"`` in short is a type and no more."""
    under, over = ({"type": part} if isinstance(part, str) else part for part in (below, above))
    if not isinstance(under, dict) or not isinstance(over, dict):
        return above
    is_placed = any(place in over for place in _PLACES)
    return {key: value for key, value in under.items() if not (is_placed and key in _PLACES)} | over
