"""Join conditions: equal keys, numbers within a band, points within a radius; and comparisons on top.

Plain values that whoever reads a query can make; ``probing.py`` makes of them what kernels read.
"""

from __future__ import annotations

from dataclasses import dataclass

OPERATORS = ("<", "<=", "==", "!=", ">=", ">")


@dataclass(frozen=True)
class Comparison:
    """``left.numbers[left] operator right.numbers[right] + plus``; false where either number is NaN."""

    left: int
    operator: str
    right: int
    plus: float = 0.0


@dataclass(frozen=True)
class Equality:
    """Equal keys. Null keys (``Batch.missing``) never join."""

    where: tuple[Comparison, ...] = ()


@dataclass(frozen=True)
class Band:
    """Numbers of one column that differ by at most ``width``. NaN and infinities never join."""

    width: float
    column: int = 0
    where: tuple[Comparison, ...] = ()


@dataclass(frozen=True)
class Distance:
    """Points in the plane at most ``radius`` apart: ``dx*dx + dy*dy <= radius*radius`` in doubles.

    Points with a coordinate that is NaN or infinite never join.
    """

    radius: float
    columns: tuple[int, int] = (0, 1)
    where: tuple[Comparison, ...] = ()


Condition = Equality | Band | Distance
