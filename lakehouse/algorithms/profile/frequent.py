"""Most frequent values with counts that are too low by at most a stated number, of a bounded size.

Misra, Gries 1982, put together as Agarwal et al. 2012 (Mergeable summaries): where there are more than ``MOST`` values,
each count is lowered by the largest that is left out. However the rows were cut into parts, a count lacks at most
``rows / (MOST + 1)``, and at most ``error``.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

MOST = 64


@dataclass(frozen=True)
class Frequent:
    """Values with the least number of rows that have them; none is in more than ``error`` rows beyond that."""

    counts: Mapping[str, int] = field(default_factory=dict)
    error: int = 0

    @classmethod
    def of(cls, counts: Mapping[str, int], error: int = 0) -> Self:
        """Return the most frequent of all values, given how often each one occurs."""
        if len(counts) <= MOST:
            return cls(counts, error)
        ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
        lost = ordered[MOST][1]
        return cls({value: count - lost for value, count in ordered[:MOST] if count > lost}, error + lost)

    @classmethod
    def combined(cls, parts: Iterable[Self]) -> Self:
        """Return the most frequent values of all parts."""
        total, error = Counter[str](), 0
        for part in parts:
            total.update(part.counts)
            error += part.error
        return cls.of(total, error)
