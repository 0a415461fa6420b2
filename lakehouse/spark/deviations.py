"""Deviations of a table from what must hold of it, as small frames that a rule can judge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# Tables of rules that a stream declares: those that are reported and stop nothing, about new rows and about now, and
# those that reject rows, which are counted and not judged.
WARNINGS, REJECTIONS = ("warnings", "time_warnings"), "rejections"


@dataclass(frozen=True)
class Counts:
    """Rows that a rule judged and that break it, and those of the worst sources: the values of their keys."""

    judged: int
    broken: int
    sources: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True)
class Frame:
    """The metrics of one table: rows of equal fields; those in ``place`` only say which row it is.

    ``says``: by metric the sentences of rules that a stream declares, each of which must be 0; ``seen``: what was
    observed; ``counts``: the same in rows, of rules about each row.
    """

    table: str
    place: tuple[str, ...]
    rows: Sequence[dict[str, Any]]
    says: Mapping[str, str] = field(default_factory=dict)
    seen: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, Counts] = field(default_factory=dict)
