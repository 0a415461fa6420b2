"""Join conditions: equal keys, numbers within a band, points within a radius; and comparisons on top.

Plain values that whoever reads a query can make; ``probing.py`` makes of them what kernels read.

Numbers are compared as doubles, or exactly where a condition has a ``scale``: both are whole numbers of units of
``10^-scale``, and so is what they are compared with. A number has one scale, or none, in all of a condition.
"""

from dataclasses import dataclass

OPERATORS = ("<", "<=", "==", "!=", ">=", ">")


@dataclass(frozen=True)
class Comparison:
    """``left.numbers[left] operator right.numbers[right] + plus``; false where either number is NaN or missing."""

    left: int
    operator: str
    right: int
    plus: float = 0.0
    scale: int | None = None


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
    scale: int | None = None


@dataclass(frozen=True)
class Distance:
    """Points in the plane at most ``radius`` apart: ``dx*dx + dy*dy <= radius*radius``, in doubles or exactly.

    Points with a coordinate that is NaN or infinite never join.
    """

    radius: float
    columns: tuple[int, int] = (0, 1)
    where: tuple[Comparison, ...] = ()
    scale: int | None = None


Condition = Equality | Band | Distance


def scales_of(condition: Condition) -> dict[int, int | None]:
    """Return the scale of each number that a condition reads, by its place, ascending; None for a double."""
    found: dict[int, int | None] = {}
    match condition:
        case Band():
            found[condition.column] = condition.scale
        case Distance():
            found |= dict.fromkeys(condition.columns, condition.scale)
    for each in condition.where:
        found[each.left] = found[each.right] = each.scale
    return dict(sorted(found.items()))
