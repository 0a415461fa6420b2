"""Conditions that each row of one stream alone decides: comparisons in Spark SQL, and calls of predicates in Python.

A side of a join whose conditions are all comparisons has them as one text, ``where``. Where one is a call it has all
of them as ``conjuncts`` instead, which cannot be one text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class PythonCall:
    """A predicate of the operator's own: the function ``name`` in a file; ``by_row``: asked with one row's values."""

    name: str
    path: Path
    by_row: bool


@dataclass(frozen=True)
class Conjunct:
    """One condition of WHERE, which each row alone decides.

    ``text``: Spark SQL over the raw table's columns, or the call of a predicate: conditions of equal text are the same.
    ``columns``: what it reads, of a call in the order of its arguments.
    """

    text: str
    columns: tuple[str, ...]
    call: PythonCall | None = None


class Conditioned(Protocol):
    """A side of a query: ``where`` or ``conjuncts``, or neither."""

    @property
    def where(self) -> str | None:
        """Spark SQL, where all its conditions are."""

    @property
    def conjuncts(self) -> tuple[Conjunct, ...]:
        """All its conditions, where one is a call."""


def in_one_order(conjuncts: Iterable[Conjunct]) -> str | None:
    """Return conditions as one text, whichever way they were written; None for none."""
    return " AND ".join(sorted(each.text for each in conjuncts)) or None


def of_side(conjuncts: Collection[Conjunct]) -> tuple[str | None, tuple[Conjunct, ...]]:
    """Return ``where`` and ``conjuncts`` of the side that these are all conditions on."""
    if any(each.call for each in conjuncts):
        return None, tuple(conjuncts)
    return in_one_order(conjuncts), ()


def where_of(side: Conditioned) -> str | None:
    """Return what WHERE says of a side, calls included; None for nothing."""
    return in_one_order(side.conjuncts) or side.where


def scanned(sides: Sequence[Conditioned]) -> list[int]:
    """Return which sides are read row by row, in scans that queries share: those of which one condition is a call."""
    return [number for number, side in enumerate(sides) if side.conjuncts]


def where_text(side: Conditioned) -> str:
    """Return what WHERE says of a side, as definitions have it.

    What a predicate's file says is no part of it: a mended one goes on where the old one stopped.
    """
    return where_of(side) or "true"
