"""Choice of a join-aggregate method: those that can run a shape, their costs, and reasons against the others."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lakehouse.algorithms.join_aggregate.join_tree import join_tree

if TYPE_CHECKING:
    from lakehouse.algorithms.join_aggregate.contract import JoinAggregate, Shape

# From the cheapest to the dearest, with the class that has the method's module.
METHODS = {
    "factorised": "Factorised",
    "view_tree": "ViewTree",
    "multiway": "Multiway",
    "tuple_count": "TupleCount",
    "incremental": "Incremental",
}


def methods_for(shape: Shape) -> tuple[tuple[str, str | None], ...]:
    """Return every method with the reason why it cannot run a shape, None if it can; the cheapest first.

    >>> from lakehouse.algorithms.join_aggregate.contract import Shape
    >>> methods_for(Shape(((0,), (0, 1), (1,)), (False, False, False)))[3]
    ('tuple_count', 'it joins two streams, this query has 3')
    """
    return tuple((name, _why_not(name, shape)) for name in METHODS)


def cheapest(shape: Shape, slack_us: int = 0) -> tuple[str, str]:
    """Return the method that costs least for a shape, and why; ``slack_us``: how late rows may still revise answers.

    In a circle rows have to meet. MTC lets each do so once, a view tree again when it leaves; but a late row costs a
    view tree what it meets, and MTC all ticks that it revises, twice.
    """
    if shape.has_one_key:
        return "factorised", "all streams are joined on the same attributes, so no row has to meet another"
    if join_tree(shape).count(-1) == 1:
        return "view_tree", "the attributes form a tree, so a row meets what is known of each key beside it"
    if slack_us:
        return (
            "view_tree",
            "the streams are joined in a circle, and late rows within SLACK cost what they meet",
        )
    return (
        "multiway",
        "the streams are joined in a circle, where rows have to meet, and no late rows are expected",
    )


def build(name: str, shape: Shape, slack_us: int = 0) -> JoinAggregate:
    """Return an empty method by its name; ``slack_us``: how far behind the last tick one that is ``Revising`` can.

    Raises ValueError when there is no such method, or it cannot run the shape.
    """
    if name not in METHODS:
        raise ValueError(f"expected a method out of {', '.join(METHODS)}, found {name}")
    refuse_unless_able(name, shape)
    # Only the method that is asked for is loaded: each brings compiled loops of its own.
    made: Any = getattr(import_module(f"lakehouse.algorithms.join_aggregate.{name}"), METHODS[name])
    method: JoinAggregate = made(shape, slack_us) if name == "view_tree" else made(shape)
    return method


def refuse_unless_able(name: str, shape: Shape) -> None:
    """Do nothing if a method can run a shape. Raises ValueError when it cannot, with the reason."""
    if why_not := _why_not(name, shape):
        raise ValueError(f"{name} cannot run this: {why_not}")


def _why_not(name: str, shape: Shape) -> str | None:
    if name == "factorised" and not shape.has_one_key:
        return "not all streams are joined on the same attributes"
    if name in ("tuple_count", "incremental") and shape.sides > 2:
        return f"it joins two streams, this query has {shape.sides}"
    extremes = {each.function for each in shape.aggregates} & {"min", "max"}
    if name == "incremental" and extremes:
        asked = " and ".join(each.upper() for each in sorted(extremes))
        return f"it takes results away again, which works for COUNT and SUM and not for {asked}"
    return None
