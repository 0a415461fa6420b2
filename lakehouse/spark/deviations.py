"""Deviations of a table from what must hold of it, as small frames that a rule can judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Frame:
    """The metrics of one table: rows of equal fields; those in ``place`` only say which row it is.

    ``says``: by metric the sentences of rules that a stream declares, each of which must be 0; ``seen``: what was
    observed.
    """

    table: str
    place: tuple[str, ...]
    rows: Sequence[dict[str, Any]]
    says: Mapping[str, str] = field(default_factory=dict)
    seen: Mapping[str, str] = field(default_factory=dict)
