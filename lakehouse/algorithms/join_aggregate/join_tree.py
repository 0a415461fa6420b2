"""Join tree of a shape: the streams as a tree in which any two that carry an attribute are tied by others that do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakehouse.algorithms.join_aggregate.contract import Shape


def join_tree(shape: Shape) -> tuple[int, ...] | None:
    """Return the parent of each side, -1 for the root, as shallow as can be; None for a join that is cyclic.

    A spanning tree with the most shared attributes is a join tree if there is one (Bernstein and Goodman 1981).

    >>> from lakehouse.algorithms.join_aggregate.contract import Shape
    >>> join_tree(Shape(((0,), (0, 1), (1,)), (False,) * 3))
    (1, -1, 1)
    >>> join_tree(Shape(((0, 1), (1, 2), (0, 2)), (False,) * 3))
    """
    trees = [_spanning(shape, root) for root in range(shape.sides)]
    if not _is_join_tree(shape, trees[0]):
        return None
    return min(trees, key=lambda tree: max(_depth(tree, side) for side in range(shape.sides)))


def shared(shape: Shape, parents: tuple[int, ...], side: int) -> set[int]:
    """Return the attributes that a side and its parent carry; none of the root."""
    return set(shape.attributes[side]) & set(shape.attributes[parents[side]]) if parents[side] >= 0 else set()


def _spanning(shape: Shape, root: int) -> tuple[int, ...]:
    """Return a spanning tree of the most shared attributes, side by side as it grows from the root (Prim)."""
    parents = {root: -1}
    while len(parents) < shape.sides:
        edges = (
            (len(set(shape.attributes[side]) & set(shape.attributes[near])), -near, -side)
            for side in range(shape.sides)
            for near in parents
            if side not in parents
        )
        _, near, side = max(edges)
        parents[-side] = -near
    return tuple(parents[side] for side in range(shape.sides))


def _is_join_tree(shape: Shape, parents: tuple[int, ...]) -> bool:
    """Tell if the sides that carry an attribute are tied by edges that share it, whichever it is."""
    ties = sum(len(shared(shape, parents, side)) for side in range(shape.sides))
    carried = sum(len(set(own)) for own in shape.attributes)
    return ties == carried - len({number for own in shape.attributes for number in own})


def _depth(parents: tuple[int, ...], side: int) -> int:
    return 0 if parents[side] < 0 else 1 + _depth(parents, parents[side])
