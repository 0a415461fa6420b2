"""What SELECT shows of the rows that are joined or selected: plain columns, or all of them with a star."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.queries.kind import Output
from lakehouse.queries.language.names import TIMES, Names, offset_of
from lakehouse.queries.language.text import DIALECT
from lakehouse.queries.language.tree import check_output

if TYPE_CHECKING:
    from sqlglot import exp


def read_outputs(tree: exp.Select, names: Names, own: frozenset[str]) -> tuple[Output, ...]:
    """Return the outputs of a SELECT without aggregates; ``own``: names that only our columns have."""
    outputs: dict[str, Output] = {}
    if not tree.expressions:
        names.faults.add(offset_of(tree), "no outputs", "columns, such as a.x, or *")
    for node in tree.expressions:
        for output in _outputs_of(node, names):
            check_output(output.name, offset_of(node), outputs, own, names.faults)
            outputs[output.name] = output
    return tuple(outputs.values())


def _outputs_of(node: exp.Expr, names: Names) -> list[Output]:
    from sqlglot import exp

    column = node.this if isinstance(node, exp.Alias) else node
    if isinstance(column, exp.Star):
        return [each for side in range(len(names.sources)) for each in _all_of(side, names)]
    if isinstance(column, exp.Column) and isinstance(column.this, exp.Star):
        side = names.side(column.table, offset_of(column))
        return [] if side is None else _all_of(side, names)
    if not isinstance(column, exp.Column):
        names.faults.add(offset_of(column), column.sql(dialect=DIALECT), "a plain column, such as a.x AS y")
        return []
    read = names.read(column)
    return [Output(node.alias_or_name.lower(), read.side, read.name)] if read else []


def _all_of(side: int, names: Names) -> list[Output]:
    source = names.sources[side]
    if len(names.sources) == 1:
        # Times have names of their own in every table of rows.
        return [Output(name, side, name) for name in source.columns if name not in TIMES]
    return [Output(f"{source.alias}_{name}", side, name) for name in source.columns]
