"""Text of registered queries for ``tidemark queries`` and ``tidemark explain``: one module for each kind, by its name.

A module has ``TITLE``, ``HEADERS`` and ``cells`` of the list; ``plan_in_words``, ``tables``, ``HEADING``,
``found_in_words`` and ``last_tables`` of the explanation; ``charts_of`` if the explanation can be a page with charts.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def text_of(kind: str) -> ModuleType:
    """Return the text of a kind of query, which is loaded on first use."""
    return import_module(f"{__name__}.{kind}")
