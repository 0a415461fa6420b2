"""Keys of an object store that a path names: patterns mean what they mean for files.

``*``, ``?`` and ``[...]`` stay inside one part of a key between slashes and pass over names that begin with a dot,
``**`` takes any number of parts. Without a pattern it is the key itself, and all below it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import translate
from glob import has_magic

Part = re.Pattern[str] | str | None
_ANY = None


def key_filter(pattern: str) -> Callable[[str], bool]:
    """Return which keys a pattern names; cost of a call: the parts of a key, times those that ``**`` may take."""
    if not has_magic(pattern):
        below = pattern if not pattern or pattern.endswith("/") else f"{pattern}/"
        return lambda key: key == pattern or key.startswith(below)
    parts = [_part(text) for text in pattern.split("/")]
    return lambda key: _matches(key.split("/"), parts)


def _part(text: str) -> Part:
    if text == "**":
        return _ANY
    return re.compile(translate(text)) if has_magic(text) else text


def _matches(names: Sequence[str], parts: Sequence[Part]) -> bool:
    """True if parts take all names, by the parts before each place that could have taken what is before it."""
    reached = {0}
    for part in parts:
        if part is _ANY:
            reached = _with_any(names, reached)
        else:
            reached = {at + 1 for at in reached if at < len(names) and _takes(part, names[at])}
    # Two stars at the end take the name of an object, too.
    return len(names) in reached


def _with_any(names: Sequence[str], reached: set[int]) -> set[int]:
    found = set(reached)
    for at in sorted(reached):
        while at < len(names) and not names[at].startswith(".") and at + 1 not in found:
            at += 1
            found.add(at)
    return found


def _takes(part: Part, name: str) -> bool:
    if isinstance(part, str):
        return part == name
    return part is not None and not name.startswith(".") and part.match(name) is not None
