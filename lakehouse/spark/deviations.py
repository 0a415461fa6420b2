"""Deviations of a table from what must hold of it, as small frames that a rule can judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Frame:
    """The metrics of one table: rows of equal fields; those in ``place`` only say which row it is."""

    table: str
    place: tuple[str, ...]
    rows: Sequence[dict[str, Any]]
