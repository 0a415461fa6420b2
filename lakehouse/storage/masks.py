"""Form of a text without its letters and digits, as reports show what may be personal."""

import re


def form_of(text: str, longest: int) -> str:
    """Return the beginning of a text with x for each letter and 9 for each digit.

    >>> form_of('{"device": "lab-7"}', 40), form_of("dev-17", 4)
    ('{"xxxxxx": "xxx-9"}', 'xxx-...')
    """
    shown = "".join(one if one.isprintable() else "." for one in text[:longest])
    return re.sub(r"[^\W\d_]", "x", re.sub(r"\d", "9", shown)) + ("..." if len(text) > longest else "")
