"""Text of registered queries for ``tidemark queries`` and ``tidemark explain``: ``TEXT`` in a module for each kind."""

from importlib import import_module

from lakehouse.cli.pages.explain_text import KindText


def text_of(kind: str) -> KindText:
    """Return the text of a kind of query, which is loaded on first use."""
    text: KindText = import_module(f"{__name__}.{kind}").TEXT
    return text
