"""The executor's yardstick: one query, nothing else, each batch through the written order before the next is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.algorithms.scheduling.chunks import Batch, Chunk, Memory
from lakehouse.algorithms.scheduling.contract import Chain, Join, Query
from lakehouse.algorithms.scheduling.operators import Merge, Predicate, require_runnable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehouse.algorithms.scheduling.chunks import Rows
    from lakehouse.algorithms.scheduling.contract import Operator


def alone(query: Query, source: Iterable[tuple[str, Rows]]) -> list[tuple[int, Any]]:
    """Return the number of each batch that gives results, with their rows; whatever an operator raises is raised."""
    return [
        (number, rows)
        for number, (stream, batch) in enumerate(source)
        for rows in _through(query.chain, stream, batch)
        if rows.num_rows
    ]


def _through(chain: Chain, stream: str, rows: Rows) -> list[Any]:
    """Return what comes out of a chain for one batch: nothing, or rows; a batch on both sides of a join comes twice."""
    if isinstance(chain.source, Join):
        join = chain.source
        assert isinstance(join, Merge)
        sides = [(0, made) for made in _through(join.left, stream, rows)]
        sides += [(1, made) for made in _through(join.right, stream, rows)]
        found = [join.run(side, made) for side, made in sides if made.num_rows]
    else:
        found = [rows] if chain.source == stream else []
    for operator in chain.operators:
        found = [_applied(operator, each) for each in found if each.num_rows]
    return found


def _applied(operator: Operator, rows: Any) -> Any:
    code = require_runnable(operator)
    if isinstance(code, Predicate):
        chunk = Chunk(0, 0, Batch(rows, Memory()), None, None)
        return chunk.kept(code.mask(chunk)).rows()
    assert not isinstance(code, Merge)
    return code.run(rows)
