"""Lines of a configuration on which its values are declared, for problems that name a key."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakehouse.config.problems import Problem


def with_lines(problems: Sequence[Problem], text: str) -> list[Problem]:
    """Return problems with the line of their key, or of the innermost table or value around it, in order of lines."""
    lines = lines_of(text)
    found = [replace(problem, line=nearest_line(problem.key, lines)) for problem in problems]
    return sorted(found, key=lambda problem: problem.line or 0)


def lines_of(text: str) -> Mapping[str, int]:
    r"""Return the line of each key of a readable TOML text, where it occurs first; items of a list have numbers.

    >>> lines_of('[a]\n[[a.b]]\nc = 1\n[[a.b]]\nd = [\n1]')
    {'a': 1, 'a.b': 2, 'a.b.0': 2, 'a.b.0.c': 3, 'a.b.1': 4, 'a.b.1.d': 5, 'a.b.1.d.0': 5}
    """
    lines, table, statement, begun = dict[str, int](), "", "", 1
    counts = dict[str, int]()
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        statement += line + "\n"
        try:
            found = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            # It goes on in the next line.
            continue
        is_header = statement.lstrip().startswith("[")
        if is_header:
            table, found = _opened(found, counts), {}
            keys: Iterator[str] = _prefixes(table)
        else:
            keys = (f"{table}.{key}" if table else key for key in _keys(found))
        for key in keys:
            lines.setdefault(key, begun)
        statement, begun = "", number + 1
    return lines


def _opened(header: Any, counts: dict[str, int]) -> str:
    """Return the key of the table that a header opens: an item of a list, or one below the last item of a list."""
    path = ""
    while header:
        ((name, header),) = header.items() if isinstance(header, dict) else [(None, header[0])]
        if name is None:
            counts[path] = counts.get(path, -1) + 1
            path = f"{path}.{counts[path]}"
        else:
            path = f"{path}.{name}" if path else name
            if path in counts and isinstance(header, dict):
                path = f"{path}.{counts[path]}"
    return path


def _prefixes(key: str) -> Iterator[str]:
    parts = key.split(".")
    yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _keys(value: Any) -> Iterator[str]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield str(key)
        yield from (f"{key}.{below}" for below in _keys(inner))


def nearest_line(key: str, lines: Mapping[str, int]) -> int | None:
    """Return the line of a key, or of the innermost table or value around it; None if there is none."""
    known = [lines[part] for part in _prefixes(key.partition(",")[0]) if part in lines]
    return known[-1] if known else None
