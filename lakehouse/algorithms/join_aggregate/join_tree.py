"""Join tree of a shape: the streams as a tree in which any two that carry an attribute are tied by others that do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakehouse.algorithms.join_aggregate.contract import Shape


def join_tree(shape: Shape) -> tuple[int, ...]:
    """Return the parent of each side, -1 for the root; of a cyclic join for each side of its *core*.

    A side is an ear of another that carries all attributes by which it is tied to any. Ears are cut off until there is
    none: what remains is the root, or the core (Graham 1979; Yu and Ozsoyoglu 1979). All ears of a round go at once,
    so that the root is in the middle.

    >>> from lakehouse.algorithms.join_aggregate.contract import Shape
    >>> join_tree(Shape(((0,), (0, 1), (1,)), (False,) * 3))
    (1, -1, 1)
    >>> join_tree(Shape(((0, 1), (1, 2), (0, 2), (2, 3), (3,)), (False,) * 5))
    (-1, -1, -1, 1, 3)
    """
    parents, left = [-1] * shape.sides, set(range(shape.sides))
    while ears := _ears(shape, left):
        for side, parent in ears.items():
            parents[side] = parent
        left -= set(ears)
    return tuple(parents)


def shared(shape: Shape, parents: tuple[int, ...], side: int) -> set[int]:
    """Return the attributes that a side and its parent carry; none of a root."""
    return set(shape.attributes[side]) & set(shape.attributes[parents[side]]) if parents[side] >= 0 else set()


def _ears(shape: Shape, left: set[int]) -> dict[int, int]:
    """Return ears of sides that stay, with these sides."""
    carried, ears = [set(own) for own in shape.attributes], dict[int, int]()
    for side in sorted(left, reverse=True):
        ties = carried[side] & set[int]().union(*(carried[other] for other in left - {side}))
        holders = [other for other in left - set(ears) - {side} if ties <= carried[other]]
        if holders and side not in ears.values():
            ears[side] = max(holders, key=lambda other: (len(carried[other]), -other))
    return ears
