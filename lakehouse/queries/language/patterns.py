"""Patterns of LIKE with an escape character, as regular expressions."""

import re
from collections.abc import Callable


def like_regex(pattern: str, escape: str, cased: Callable[[str], str] = str) -> str:
    """Return a regular expression that matches the whole of a text that a pattern does; ``cased``: of a character.

    Raises ValueError when it is no such pattern, with what is expected.
    """
    if len(escape) != 1:
        raise ValueError("one character in quotes behind ESCAPE")
    found, signs = "", iter(pattern)
    for sign in signs:
        if sign == escape:
            sign = next(signs, "")
            if sign not in {"%", "_", escape}:
                raise ValueError(f"%, _ or {escape} behind each {escape} of a pattern with ESCAPE")
            found += re.escape(cased(sign))
        else:
            found += {"%": ".*", "_": "."}.get(sign) or re.escape(cased(sign))
    return f"(?s)^{found}$"
