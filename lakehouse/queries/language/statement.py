"""A query's statement as people read it: as it was written, in one line, without comments."""

from __future__ import annotations

import re

_BLANK_OR_QUOTE = re.compile(
    r"""(?P<blank>(?:\s|--[^\n]*|/\*.*?\*/)+)|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`""", re.DOTALL
)


def one_line(text: str) -> str:
    r"""Return a statement in one line: comments and runs of white space become one space, quoted text stays.

    >>> one_line("-- Busy places.\nSELECT a.x  -- metres\nFROM a\n  WHERE a.y = 'two  --words'\n;\n")
    "SELECT a.x FROM a WHERE a.y = 'two  --words'"
    """
    line = _BLANK_OR_QUOTE.sub(_shown, text.lstrip("\ufeff"))
    return line.strip().rstrip(";").rstrip()


def _shown(found: re.Match[str]) -> str:
    return " " if found["blank"] else found[0].replace("\n", "\\n")
