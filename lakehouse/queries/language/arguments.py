"""The arguments of sqlglot's nodes that are read here: a node that has any other would mean less than its text.

Who walks a tree of the parser asks this first. ``x NOT LIKE p``, for example, is a ``Like`` with an argument of its own
and no ``Not`` around it. A node of a class that is not listed is refused where it is met.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

_ONE, _TWO = ("this",), ("this", "expression")
_COMPARISONS = ("EQ", "NEQ", "GT", "GTE", "LT", "LTE", "NullSafeEQ", "NullSafeNEQ")
_READ: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("Not", "Paren", "Neg", "Abs", "Lower", "Upper", "Trim", "Length", "Boolean"), _ONE),
    **dict.fromkeys(("And", "Or", "Is", "Add", "Sub", "Mul", "Mod", "Escape", *_COMPARISONS), _TWO),
    **dict.fromkeys(("Like", "ILike"), (*_TWO, "negate")),
    # No divisor is 0, which alone is what ``safe`` is about.
    "Div": (*_TWO, "safe"),
    "In": ("this", "expressions"),
    "Between": ("this", "low", "high"),
    "Literal": ("this", "is_string"),
    "Null": (),
    "Column": ("this", "table", "db", "catalog"),
    "Identifier": ("this", "quoted"),
    # Whoever reads an aggregate counts its arguments; ``big_int`` is the type of the count.
    "Count": ("this", "expressions", "big_int"),
    **dict.fromkeys(("Min", "Max"), ("this", "expressions")),
    **dict.fromkeys(("Sum", "Avg"), _ONE),
    "Star": (),
    "Alias": ("this", "alias"),
    "TableAlias": _ONE,
    # In columns that kinds of query make of raw rows.
    "Anonymous": ("this", "expressions"),
    **dict.fromkeys(("Cast", "TryCast"), ("this", "to")),
    "If": ("this", "true", "false"),
    "Case": ("ifs",),
    "Coalesce": ("this", "expressions"),
}


def unread(tree: exp.Expr) -> Iterator[tuple[exp.Expr, str]]:
    """Yield the nodes of a tree that have an argument which nothing reads, and that argument in words."""
    for node in tree.walk():
        known = _READ.get(type(node).__name__, node.args)
        for name, value in node.args.items():
            if name not in known and value not in (None, False, []):
                shown = f" {value}" if isinstance(value, str) else ""
                yield node, f"{node.key.upper()} with {name.strip('_').replace('_', ' ')}{shown}"
